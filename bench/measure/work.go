package measure

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Writers keep an API server on two cores busy, without queueing up there.
const Writers = 32

// Parallel calls do for the numbers from 0 to before n, a few at a time, until the first error.
func Parallel(ctx context.Context, atOnce, n int, do func(ctx context.Context, i int) error) error {
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		if working.Err() != nil {
			break
		}
		group.Go(func() error { return do(working, i) })
	}
	return cmp.Or(group.Wait(), ctx.Err())
}

// Steadily calls do with the numbers from 0 on, at an even rate, a few at a time, until all calls are done, ctx ends, or one fails.
func Steadily(ctx context.Context, perSecond, atOnce, n int, do func(i int) error) error {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		select {
		case <-working.Done():
			return group.Wait()
		case <-tick.C:
		}
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

// Until calls a condition until it has no error, or the context ends: then the error contains the last one.
func Until(ctx context.Context, every time.Duration, condition func() error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// Pause lets things go on as they are.
func Pause(ctx context.Context, long time.Duration) error {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Quantile is the figure that the share q of all figures does not exceed; for an even number of them, the median is the mean of the two
// in the middle. It is NaN if there are none.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	last := len(sorted) - 1
	if half := len(sorted) / 2; q == 0.5 {
		return (sorted[half] + sorted[last-half]) / 2
	}
	return sorted[min(last, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// Milliseconds is a duration with its fraction.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
