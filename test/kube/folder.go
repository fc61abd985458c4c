package kube

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// folderPrefix is short: the path of a Unix socket may have a hundred characters only.
const folderPrefix = "kube-test-"

// newFolder makes a folder for a cluster, and removes those of processes that were killed before they could: each holds more than
// a hundred megabytes of etcd. A folder is in use as long as somebody holds the lock on its file alive.
func newFolder(parent string) (dir string, alive *os.File, err error) {
	removeAbandoned(parent)
	if dir, err = os.MkdirTemp(parent, folderPrefix); err != nil {
		return "", nil, err
	}
	// Locked before it has its name: no other process ever sees it unlocked while this one lives.
	first := filepath.Join(dir, "alive.new")
	if alive, err = os.OpenFile(first, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return dir, nil, err
	}
	return dir, alive, errors.Join(tryLock(alive), os.Rename(first, filepath.Join(dir, "alive")))
}

// removeAbandoned is a courtesy: what it may not remove, another user's say, it leaves.
func removeAbandoned(parent string) {
	locks, _ := filepath.Glob(filepath.Join(parent, folderPrefix+"*", "alive"))
	for _, lock := range locks {
		file, err := os.OpenFile(lock, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if tryLock(file) == nil {
			_ = os.RemoveAll(filepath.Dir(lock))
		}
		_ = file.Close()
	}
}

// tryLock fails where another process has the lock. The system lets go of a lock when its holder ends, however it ends.
func tryLock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// LockFolder waits until no other holder of the folder's lock is left, in this process or another. The folder itself is the lock: no
// file is left behind.
func LockFolder(ctx context.Context, dir string) (unlock func(), err error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := Poll(ctx, 20*time.Millisecond, func(context.Context) error { return tryLock(folder) }); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return func() { _ = folder.Close() }, nil
}
