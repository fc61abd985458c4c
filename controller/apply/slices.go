package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// importedSlices writes the controller's slices. They are many and independent: a failed write of
// one slice does not block the others, except that a slice stays whose endpoints others should have by now.
func (w *Writer) importedSlices(ctx context.Context, st observed.State, c diff.Changes) error {
	var o outcomes
	lacking := c.RefusedSlices
	for _, slice := range c.CreateSlices {
		err := w.createSlice(ctx, slice)
		if err != nil {
			lacking = append(lacking, slice)
		}
		o.note(slice, err)
	}
	for _, one := range c.SwitchSlices {
		o.note(one.Slice, w.switchSlice(ctx, st, one))
	}
	for _, edit := range c.UpdateSlices {
		if !ownership.SliceIsOurs(edit.Old, st.Import) {
			return fmt.Errorf("update EndpointSlice %s: %w", edit.Old.Name, errNotOurs)
		}
		err := w.updateSlice(ctx, edit.New.DeepCopy())
		if err != nil {
			lacking = append(lacking, edit.New)
		}
		o.note(edit.New, err)
	}
	for _, move := range c.MoveSlices {
		o.note(move.Slice, w.move(ctx, st, move))
	}
	for _, slice := range c.DeleteSlices {
		if !ownership.SliceIsOurs(slice, st.Import) {
			return fmt.Errorf("delete EndpointSlice %s: %w", slice.Name, errNotOurs)
		}
		if len(lacking) > 0 {
			live, err := w.liveSlice(ctx, st, slice)
			if err != nil || shares(live, lacking) {
				o.note(slice, err)
				continue
			}
		}
		o.note(slice, w.remove(ctx, slice))
	}
	return o.err()
}

// shares reports whether a slice has an endpoint of its cluster that another one should have, too.
func shares(slice *discoveryv1.EndpointSlice, others []*discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(others, func(other *discoveryv1.EndpointSlice) bool {
		return other.Labels[mcsv1beta1.LabelSourceCluster] == slice.Labels[mcsv1beta1.LabelSourceCluster] &&
			slices.ContainsFunc(other.Endpoints, func(a discoveryv1.Endpoint) bool {
				return slices.ContainsFunc(slice.Endpoints, func(b discoveryv1.Endpoint) bool { return slices.Equal(a.Addresses, b.Addresses) })
			})
	})
}

// outcomes collects the results of slice writes. The zero value is empty.
type outcomes struct {
	failed  []error
	refused SlicesRefusedError
}

// note separates what the API server refuses, and what has no effect, from errors that a retry can
// fix.
func (o *outcomes) note(slice *discoveryv1.EndpointSlice, err error) {
	switch {
	case err == nil:
	case isRefusal(err), errors.Is(err, errForeignSlice), errors.Is(err, errNoEffect):
		if o.refused == nil {
			o.refused = SlicesRefusedError{}
		}
		o.refused[slice.Name] = err.Error()
	default:
		o.failed = append(o.failed, err)
	}
}

// err returns the failures if there are any, otherwise the refusals.
func (o *outcomes) err() error {
	if len(o.failed) > 0 || len(o.refused) == 0 {
		return errors.Join(o.failed...)
	}
	return o.refused
}

// remove removes the finalizers of a slice and deletes it. The controller sets no finalizers on
// slices. A finalizer of another user would keep the slice for an unlimited time.
func (w *Writer) remove(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	if len(slice.Finalizers) > 0 {
		free := slice.DeepCopy()
		free.Finalizers = nil
		if err := w.patch(ctx, slice, free); err != nil {
			return err
		}
		slice = free
	}
	if slice.DeletionTimestamp != nil {
		return nil
	}
	done := func(error) {}
	if w.Deleting != nil {
		done = w.Deleting(slice)
	}
	err := w.Client.Delete(ctx, slice, exactly(slice))
	done(err)
	return wrap(err, "delete", slice)
}

// move copies a slice under another name and with the label of another Service, and then deletes
// the original, so kube-proxy always has one of the two. If a slice of another owner has the new
// name, the original stays: it can be the only copy of the endpoints of a cluster that does not
// answer.
func (w *Writer) move(ctx context.Context, st observed.State, move diff.Move) error {
	live, err := w.liveSlice(ctx, st, move.Slice)
	if err != nil {
		return err
	}
	if err := w.createSlice(ctx, move.Moved(live)); err != nil {
		return err
	}
	return w.remove(ctx, live)
}

// switchSlice puts a slice on standby, or takes it from standby.
func (w *Writer) switchSlice(ctx context.Context, st observed.State, one diff.Switch) error {
	live, err := w.liveSlice(ctx, st, one.Slice)
	if err != nil {
		return err
	}
	return w.updateSlice(ctx, one.Switched(live))
}

// liveSlice reads a slice of the controller with its content. The error is ErrStale if the slice has
// changed.
func (w *Writer) liveSlice(ctx context.Context, st observed.State, slice *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	live := new(discoveryv1.EndpointSlice)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(slice), live); err != nil {
		return nil, wrap(err, "read", slice)
	}
	if live.ResourceVersion != slice.ResourceVersion || !ownership.SliceIsOurs(live, st.Import) {
		return nil, fmt.Errorf("change EndpointSlice %s: %w", live.Name, ErrStale)
	}
	return live, nil
}

// createSlice creates a slice. If a slice of an import with the same name already exists and the
// caches do not contain it, createSlice updates it: a user has removed its labels, or the caches
// are stale.
func (w *Writer) createSlice(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	err := w.createObject(ctx, slice.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return wrap(err, "create", slice)
	}
	live := new(discoveryv1.EndpointSlice)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(slice), live); err != nil {
		return wrap(err, "read", slice)
	}
	if !ownedAlike(live, slice) {
		return fmt.Errorf("create EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, errForeignSlice)
	}
	if live.DeletionTimestamp != nil || ownership.Misassociated(live, slice.Labels[discoveryv1.LabelServiceName]) {
		if err := w.remove(ctx, live); err != nil {
			return err
		}
		return fmt.Errorf("create EndpointSlice %s again, as it is being deleted, or has a label that must not change: %w", slice.Name, ErrStale)
	}
	edited := ownership.Overlay(live, slice)
	edited.OwnerReferences = slice.OwnerReferences
	if ownership.SameSlice(live, edited) {
		return nil
	}
	return w.updateSlice(ctx, edited)
}

func (w *Writer) updateSlice(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	before := slice.ResourceVersion
	err := w.written(slice, before, w.Client.Update(ctx, slice))
	if err == nil && slice.ResourceVersion == before {
		err = errNoEffect
	}
	return wrap(err, "update", slice)
}

// ownedAlike reports whether two slices belong to imports of the same name.
func ownedAlike(a, b *discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(a.OwnerReferences, func(have metav1.OwnerReference) bool {
		return slices.ContainsFunc(b.OwnerReferences, func(want metav1.OwnerReference) bool {
			return have.Kind == want.Kind && have.Name == want.Name
		})
	})
}

// slices patches the slices of c.Slices. They are many and independent: a failed write of one slice
// does not block the others.
func (w *Writer) slices(ctx context.Context, _ observed.State, c diff.Changes) error {
	var o outcomes
	for _, edit := range c.Slices {
		o.note(edit.Old, w.patch(ctx, edit.Old, edit.New.DeepCopy()))
	}
	return o.err()
}
