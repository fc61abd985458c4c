package kube

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// patience is how long a test waits for a condition: far more than it takes, so that only a condition that never comes fails.
const patience = 3 * time.Minute

// slowest is the longest pause between two calls of a condition that is asked for less and less often.
const slowest = 100 * time.Millisecond

// Eventually calls condition until it returns nil. When its patience is over, the test fails with the last error.
func Eventually(t testing.TB, what string, condition func() error) {
	t.Helper()
	EventuallyEvery(t, 10*time.Millisecond, what, condition)
}

// EventuallyEvery is Eventually with the time between two calls, for conditions that take much of a core.
func EventuallyEvery(t testing.TB, every time.Duration, what string, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience) // also in a Cleanup
	defer cancel()
	err := Poll(ctx, every, func(context.Context) error { return condition() })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Poll calls condition until it returns nil or the context ends. A pause is at least every. Up to slowest, it is a tenth of the time that
// has passed: else several packages at once, on two cores, ask a hundred times a second for what takes minutes. The error has what the
// condition said last, other than that the context has ended: that a request was cut short says nothing about why it was waited for.
func Poll(ctx context.Context, every time.Duration, condition func(context.Context) error) error {
	began := time.Now()
	var last error
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-time.After(max(every, min(slowest, time.Since(began)/10))):
		}
	}
}

// Full says whether tests run in their full form, as every night: where CI_FULL is set.
func Full() bool { return os.Getenv("CI_FULL") != "" }
