package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/clusterset-dns/multicluster/bench/measure"
	"github.com/clusterset-dns/multicluster/bench/soak/oracle"
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

// api writes states into the API server, and notes when.
type api struct {
	client  *rest.RESTClient
	now     func() time.Duration
	crd     sync.RWMutex // read-locked by writers of imports; write-locked while the resource does not exist
	written atomic.Int64
}

func newAPI(config *rest.Config, now func() time.Duration) (*api, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	return &api{client: client, now: now}, err
}

// write gives a thing the state that is chosen after the last one, and returns when the API server has confirmed it.
func (a *api) write(ctx context.Context, t *thing, choose func(last oracle.State) oracle.State) error {
	if t.isImport {
		a.crd.RLock()
		defer a.crd.RUnlock()
	}
	return a.writeLocked(ctx, t, choose)
}

func (a *api) writeLocked(ctx context.Context, t *thing, choose func(last oracle.State) oracle.State) error {
	last := t.Last()
	s := choose(last)
	if s.Gone && last.Gone {
		return nil
	}
	body, err := json.Marshal(t.content(s))
	if err != nil {
		return err
	}
	t.Begin(s, a.now())
	insisting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// An API server that is away, or has just come back, comes round.
	if err := measure.Until(insisting, 50*time.Millisecond, func() error { return a.send(insisting, t, last, s, body) }); err != nil {
		return fmt.Errorf("write %s/%s: %w", t.collection, t.name, err)
	}
	t.End(a.now())
	a.written.Add(1)
	return nil
}

// send brings a thing from one state to another. It may be sent again where it is not known whether it was done: it then changes nothing
// more, and is no error.
func (a *api) send(ctx context.Context, t *thing, last, s oracle.State, body []byte) error {
	switch {
	case s.Gone:
		return unless(apierrors.IsNotFound, a.client.Delete().AbsPath(t.collection, t.name).Do(ctx).Error())
	case last.Gone:
		create := a.client.Post().AbsPath(t.collection).SetHeader("Content-Type", "application/json").Body(body)
		return unless(apierrors.IsAlreadyExists, create.Do(ctx).Error())
	default:
		return a.client.Patch(types.MergePatchType).AbsPath(t.collection, t.name).Body(body).Do(ctx).Error()
	}
}

// unless lets an error pass as success. A 404 of a path that the server does not have says nothing about the object.
func unless(done func(error) bool, err error) error {
	if err != nil && done(err) && !apierrors.IsUnexpectedServerError(err) {
		return nil
	}
	return err
}

// patience limits how long an expected event can take: far more than any needs, except for a
// connection that hangs forever, which the clients of Kubernetes notice after 45 seconds.
const patience = 90 * time.Second
