package dnsload

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Options contains the server, and the number of clients of each kind.
type Options struct {
	Server           string        // its address and port
	Patience         time.Duration // with one question
	Fresh, Kept, TCP int
}

// Run asks all questions, over and over, until the context ends.
func Run(ctx context.Context, o Options, questions []Question) (Result, error) {
	if len(questions) == 0 {
		return Result{}, errors.New("there is nothing to ask: no questions were given")
	}
	counted := newTally()
	clients := o.clients(counted)
	for _, c := range clients {
		for _, q := range questions {
			message, err := q.message()
			if err != nil {
				return Result{}, err
			}
			c.messages = append(c.messages, message)
		}
	}
	began := time.Now()
	var running sync.WaitGroup
	for _, c := range clients {
		running.Go(func() { c.run(ctx, questions) })
	}
	running.Wait()
	return counted.sum(time.Since(began)), nil
}

func (o Options) clients(counted *tally) []*client {
	var all []*client
	shared := new(ports)
	shared.taken.Store(rand.Uint32()) // who asks again soon has others
	for _, kind := range []struct {
		way   way
		count int
	}{{fresh, o.Fresh}, {kept, o.Kept}, {byTCP, o.TCP}} {
		for range kind.count {
			all = append(all, &client{way: kind.way, server: o.Server, patience: o.Patience, ports: shared, tally: counted})
		}
	}
	return all
}
