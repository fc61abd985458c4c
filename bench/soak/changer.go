package main

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

// change keeps changing things at a rate until changing ends, and returns when the last change is done; a change that has begun is
// finished unless ctx ends. Each writer has things of its own: so each thing has one.
func (s *soak) change(ctx, changing context.Context) error {
	limit := flowcontrol.NewTokenBucketRateLimiter(perSecond, writers)
	defer limit.Stop()
	group, ctx := errgroup.WithContext(ctx)
	for i := range writers {
		group.Go(func() error {
			for limit.Wait(changing) == nil && ctx.Err() == nil {
				t := s.pick(i)
				if err := s.write(ctx, t, t.next); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// pick takes one of a writer's own things. Of a hundred changes, three are of slices, and ten of what comes and goes.
func (w *world) pick(writer int) *thing {
	things := w.steady
	switch n := rand.IntN(100); {
	case n < 3:
		things = w.endpoints
	case n < 13:
		things = w.fickle
	}
	own := (len(things)-writer-1)/writers + 1 // each writer has every so manieth
	return things[rand.IntN(own)*writers+writer]
}

// fenceEvery is the pause between two fences of a resource.
const fenceEvery = 50 * time.Millisecond

// keepFencing writes a canary, waits until it is answered, and so on until fencing ends.
func (s *soak) keepFencing(ctx, fencing context.Context, c canary, q *querier) error {
	for measure.Pause(fencing, fenceEvery) == nil {
		if err := s.fence(ctx, fencing, c, q); err != nil {
			return err
		}
	}
	return nil
}

func (s *soak) fence(ctx, fencing context.Context, c canary, q *querier) error {
	sent := s.now() // a little too early, which is right too
	if err := s.write(ctx, c.thing, c.full); err != nil {
		return err
	}
	done, calm := s.now(), s.calm.Load()
	for !c.IsLastShown() {
		if measure.Pause(fencing, time.Millisecond) != nil {
			return nil
		}
		q.ask(ctx, c.question)
	}
	c.fence.Pass(sent)
	if calm && s.calm.Load() {
		s.lag.add(s.now() - done)
	}
	return nil
}
