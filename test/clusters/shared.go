package clusters

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// madeFile lists the folders that were made on the machine as places for private ones, beside the clusters' folders.
var madeFile = filepath.Join(parent, "made")

// makeFolders makes the places where private folders are mounted, as far as the machine has none.
func makeFolders() error {
	text, err := os.ReadFile(madeFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, folder := range privateFolders {
		if exists(folder) {
			continue
		}
		// Noted before it is made: a folder too many in the list is no harm.
		text = append(text, folder+"\n"...)
		if err := os.WriteFile(madeFile, text, 0o600); err != nil {
			return err
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// removeShared removes what all clusters shared, after the last.
func removeShared(ctx context.Context) error {
	if err := removeHub(ctx); err != nil {
		return err
	}
	for _, folder := range cgroupFolders(cgroupsParent) {
		_ = syscall.Rmdir(folder) // fails where other software has containers there
	}
	text, err := os.ReadFile(madeFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, folder := range slices.Backward(strings.Fields(string(text))) {
		// Other software may have begun to use it: then it stays.
		if err := syscall.Rmdir(folder); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.RemoveAll(madeFile); err != nil {
		return err
	}
	if err := syscall.Rmdir(parent); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
