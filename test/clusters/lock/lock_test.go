package lock

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestHoldersTakeTurns(t *testing.T) {
	dir := t.TempDir()
	inside, highest := 0, 0
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			unlock, err := Folder(t.Context(), dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			// Without a mutex: the race detector would see two at a time.
			inside++
			highest = max(highest, inside)
			inside--
		})
	}
	all.Wait()
	if highest != 1 {
		t.Errorf("%d at a time", highest)
	}
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
