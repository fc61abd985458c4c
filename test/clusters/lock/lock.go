// Package lock makes processes take turns.
package lock

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// Folder waits until no other holder of the folder's lock is left, in this process or another. The folder itself is the lock: no
// file is left behind, and the system lets go of it when its holder dies.
func Folder(ctx context.Context, dir string) (unlock func(), err error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = folder.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(err, folder.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), folder.Close())
		case <-tick.C:
		}
	}
}
