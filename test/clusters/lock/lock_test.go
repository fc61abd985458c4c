package lock

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func TestLockHoldersTakeTurns(t *testing.T) {
	dir := t.TempDir()
	var inside atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			unlock, err := Folder(t.Context(), dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d at a time", n)
			}
			runtime.Gosched() // lets others in, if they can
			inside.Add(-1)
		})
	}
	all.Wait()
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	dir := t.TempDir()
	unlock, err := Folder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Folder(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want canceled", err)
	}
}
