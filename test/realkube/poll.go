package realkube

import (
	"context"
	"errors"
	"testing"
	"time"
)

// patience is how long a test waits for a condition: far more than it takes, so that only a condition that never comes fails.
const patience = 60 * time.Second

// Eventually calls condition until it returns nil. After a minute the test fails with the last error.
func Eventually(t testing.TB, what string, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := poll(ctx, 10*time.Millisecond, func(context.Context) error { return condition() })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// poll calls condition until it returns nil or the context ends; the error is then the condition's last one.
func poll(ctx context.Context, every time.Duration, condition func(context.Context) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
