package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/bench/measure"
	"github.com/clusterset-dns/multicluster/bench/soak/oracle"
)

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

// next is the choice of a state after the last one.
type next func(last oracle.State) oracle.State

// write gives a thing its next state, and returns when the API server has confirmed it.
func (a *api) write(ctx context.Context, t *thing, choose next) error {
	if t.isImport {
		a.crd.RLock()
		defer a.crd.RUnlock()
	}
	return a.writeLocked(ctx, t, choose)
}

func (a *api) writeLocked(ctx context.Context, t *thing, choose next) error {
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
		return unless(apierrors.IsAlreadyExists, a.client.Post().AbsPath(t.collection).Body(body).SetHeader("Content-Type", "application/json").Do(ctx).Error())
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
