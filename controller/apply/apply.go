// Package apply is the controller's only writer. It makes the writes of a plan in the order of Writer.Do, and stops at the
// first that fails: what comes later may rest on what came before. Only what is evicted rests on nothing, and nothing on it.
//
// Each write carries the resourceVersion that the plan was made from, and only what differs from it: a merge patch. So fields
// that our types do not know survive, and a write that lost a race is refused with a conflict. It is then not tried again here:
// ErrStale tells the caller to read and plan anew.
package apply

import (
	"context"
	"errors"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
)

// Writer writes with Client. Live reads from the API server itself.
type Writer struct {
	Client client.Writer
	Status client.StatusClient
	Live   client.Reader
	Events events.EventRecorder
	// Written hears of each object that was made or changed for a name, and of the version that it had before; may be nil.
	Written func(of types.NamespacedName, object client.Object, before string)
	// Deleting hears of each slice before it is deleted with the labels that it has now. What it returns is called with the outcome. May be
	// nil.
	Deleting func(slice *discoveryv1.EndpointSlice) (done func(error))
	// Healed is called for each leak that has been repaired in a namespace; may be nil.
	Healed func(namespace string, leak observed.Leak)
}

// Do makes the writes and emits the events. Slices that must leave the derived Service are deleted whatever else fails, once the Service has
// lost the selector that it may come from. No other write waits for it: others could hold all of them up.
func (w *Writer) Do(ctx context.Context, st observed.State, c diff.Changes) error {
	err := inOrder(ctx, st, c, w.createImport, w.create, w.service)
	evicted := errors.Join(w.evict(ctx, st, c), w.heal(ctx, st, c))
	if err == nil {
		err = inOrder(ctx, st, c, w.slicesAndImport, w.slices, w.delete, w.deleteImport, w.exportStatus)
	}
	if err == nil {
		w.Tell(st.Import, c.Events...)
		if len(c.ExportEvents) > 0 {
			w.Tell(st.Clusterset.Export, c.ExportEvents...)
		}
	}
	switch {
	case err != nil:
		return errors.Join(err, evicted)
	case evicted != nil:
		return &EvictionError{evicted}
	}
	return nil
}

// inOrder makes writes until one fails.
func inOrder(ctx context.Context, st observed.State, c diff.Changes, writes ...func(context.Context, observed.State, diff.Changes) error) error {
	for _, write := range writes {
		if err := write(ctx, st, c); err != nil {
			return err
		}
	}
	return nil
}

// Tell makes events of an object.
func (w *Writer) Tell(of runtime.Object, all ...desired.Event) {
	for _, e := range all {
		w.Events.Eventf(of, nil, e.Type, e.Reason, "Reconcile", "%s", e.Message)
	}
}

// createObject creates an object.
func (w *Writer) createObject(ctx context.Context, st observed.State, object client.Object) error {
	return w.written(st, object, "", w.Client.Create(ctx, object))
}

// written reports a write to Written, if it has changed anything.
func (w *Writer) written(st observed.State, object client.Object, before string, err error) error {
	if err == nil && w.Written != nil && object.GetResourceVersion() != before {
		w.Written(types.NamespacedName{Namespace: st.Namespace, Name: st.Name}, object, before)
	}
	return err
}

func exactly(obj client.Object) client.Preconditions {
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	return client.Preconditions{UID: &uid, ResourceVersion: &version}
}

func (w *Writer) patch(ctx context.Context, st observed.State, old, edited client.Object) error {
	return wrap(w.written(st, edited, old.GetResourceVersion(), w.Client.Patch(ctx, edited, difference(old))), "patch", old)
}

func (w *Writer) patchStatus(ctx context.Context, st observed.State, old, edited client.Object) error {
	return wrap(w.written(st, edited, old.GetResourceVersion(), w.Status.Status().Patch(ctx, edited, difference(old))), "patch the status of", old)
}

func difference(old client.Object) client.Patch {
	return client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})
}
