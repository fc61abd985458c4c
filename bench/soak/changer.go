package main

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/flowcontrol"
)

// change keeps changing things at a rate until changing ends, and returns when the last change is done; a change that has begun is
// finished unless ctx ends. Each writer has things of its own: so each thing has one.
func (s *soak) change(ctx, changing context.Context) error {
	limit := flowcontrol.NewTokenBucketRateLimiter(perSecond, writers)
	defer limit.Stop()
	group, ctx := errgroup.WithContext(ctx)
	for i := range writers {
		own := s.shares(i)
		group.Go(func() error {
			for limit.Wait(changing) == nil && ctx.Err() == nil {
				t := pick(own)
				if err := s.write(ctx, t, t.next); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// share is some things, and how many of a hundred changes are theirs.
type share struct {
	things []*thing
	weight int
}

func (s *soak) shares(writer int) []share {
	own := func(things []*thing) []*thing {
		var some []*thing
		for i := writer; i < len(things); i += writers {
			some = append(some, things[i])
		}
		return some
	}
	return []share{{own(s.endpoints), 3}, {own(s.fickle), 10}, {own(s.steady), 100}}
}

// pick takes one of the last share where another one has nothing.
func pick(own []share) *thing {
	n := rand.IntN(100)
	for _, share := range own {
		if n -= share.weight; n < 0 && len(share.things) > 0 {
			return share.things[rand.IntN(len(share.things))]
		}
	}
	rest := own[len(own)-1].things
	return rest[rand.IntN(len(rest))]
}

// fenceEvery is how often a fence is made of each resource.
const fenceEvery = 50 * time.Millisecond

// keepFencing writes a canary, waits until it is answered, and so on until fencing ends.
func (s *soak) keepFencing(ctx, fencing context.Context, c canary, q *querier) error {
	tick := time.NewTicker(fenceEvery)
	defer tick.Stop()
	for fencing.Err() == nil {
		if err := s.fence(ctx, fencing, c, q); err != nil {
			return err
		}
		select {
		case <-fencing.Done():
		case <-tick.C:
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
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !c.IsLastShown() {
		select {
		case <-fencing.Done():
			return nil
		case <-tick.C:
			q.ask(ctx, c.question)
		}
	}
	c.fence.Pass(sent)
	if calm && s.calm.Load() {
		s.lag.add(s.now() - done)
	}
	return nil
}
