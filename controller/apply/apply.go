// Package apply is the controller's only writer. It makes the writes of a plan in the order of
// Writer.Do, and returns what became of each of them.
//
// Each write is a merge patch with the resourceVersion that the plan was made from and only the
// fields that differ. Fields that the Go types do not contain therefore survive, and the API server
// refuses a write that lost a race with a conflict. The package does not retry such a write:
// after ErrStale, the caller reads the objects and plans again.
package apply

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
)

// Writer makes the writes of a plan with Client. Live reads from the API server, not from a cache.
type Writer struct {
	Client client.Writer
	Status client.StatusClient
	Live   client.Reader
	Events events.EventRecorder
	// Refusals are the writes of this name that the API server has refused, and Next is the pause until the
	// earliest further try of one of them, 0 for none.
	Refusals *Refusals
	Next     time.Duration
	// Contested are the fields of this name that another writer sets back, and Now is the time. News is
	// called with those that begin to be left alone.
	Contested *contested.Memory
	Now       time.Time
	News      func([]contested.Field)
	// Repaired is called for each leak that was repaired in a namespace. It can be nil.
	Repaired func(namespace string, leak observed.Leak)

	outcomes Outcomes
}

// Do makes the writes, emits the events, and returns what became of each write. A write that fails stops no
// other one, except that
//
//   - nothing more is written if the plan was made from a stale import, Service or slice
//   - Services and imports are deleted only if everything before was written: others take their place
//
// Slices that must leave a Service of the controller are deleted, and kube-proxy is repaired, in any case; aside is
// the error of that. The Service is written before, because a selector of the Service can be the reason why these
// slices exist.
func (w *Writer) Do(ctx context.Context, st observed.State, c diff.Changes) (all Outcomes, aside error) {
	w.outcomes = nil
	w.Refusals.forget(w.Now)
	w.creations(ctx, st, c)
	w.service(ctx, st, c)
	aside = errors.Join(w.evict(ctx, st, c), w.repair(ctx, st, c))
	for _, write := range []func(context.Context, observed.State, diff.Changes){w.slicesAndImport, w.native, w.deletions, w.exportStatus} {
		if !w.outcomes.stale() {
			write(ctx, st, c)
		}
	}
	if w.outcomes.made() {
		w.Tell(st.Import, c.Events...)
		if len(c.ExportEvents) > 0 {
			w.Tell(st.Clusterset.Export, c.ExportEvents...)
		}
	}
	return w.outcomes, aside
}

// Tell emits events for an object.
func (w *Writer) Tell(of runtime.Object, all ...desired.Event) {
	for _, e := range all {
		w.Events.Eventf(of, nil, e.Type, e.Reason, "Reconcile", "%s", e.Message)
	}
}

func exactly(obj client.Object) client.Preconditions {
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	return client.Preconditions{UID: &uid, ResourceVersion: &version}
}

func (w *Writer) create(ctx context.Context, object client.Object) error {
	return w.try("create", object, object, func() error { return w.Client.Create(ctx, object) })
}

func (w *Writer) patch(ctx context.Context, old, edited client.Object) error {
	return w.count(old, edited, "patch", func(patch client.Patch) error { return w.Client.Patch(ctx, edited, patch) })
}

func (w *Writer) patchStatus(ctx context.Context, old, edited client.Object) error {
	return w.count(old, edited, "patch the status of", func(patch client.Patch) error { return w.Status.Status().Patch(ctx, edited, patch) })
}

// count sends a patch, and counts the writes of its fields.
func (w *Writer) count(old, edited client.Object, verb string, send func(client.Patch) error) error {
	fields := contested.Of(old, edited) // the answer overwrites edited
	patch := difference(old)
	body, err := patch.Data(edited)
	if err == nil {
		err = w.try(verb, old, json.RawMessage(body), func() error { return send(patch) })
	}
	switch {
	case err != nil:
	case edited.GetResourceVersion() != old.GetResourceVersion():
		w.News(w.Contested.Wrote(fields, w.Now))
	case len(fields) > 0:
		w.News(w.Contested.NoEffect(fields, w.Now))
		err = errHeld
	default:
		err = errNoEffect
	}
	return wrap(err, verb, old)
}

func difference(old client.Object) client.Patch {
	return client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})
}
