package clusters

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// makeFolders makes the places where private folders are mounted, as far as the machine has none.
func makeFolders() error {
	for _, folder := range privateFolders {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// removeShared removes what all clusters shared, after the last. A private folder's place goes if nothing is in it: whoever else uses it makes
// it again, as those that have it built in do at their start.
func removeShared(ctx context.Context) error {
	if err := removeHub(ctx); err != nil {
		return err
	}
	for _, folder := range cgroupFolders(cgroupsParent) {
		_ = syscall.Rmdir(folder) // fails where other software has containers there
	}
	for _, folder := range append(slices.Clone(privateFolders), parent) {
		if err := syscall.Rmdir(folder); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EBUSY) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
