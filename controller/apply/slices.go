package apply

import (
	"context"
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
func (w *Writer) importedSlices(ctx context.Context, st observed.State, c diff.Changes) {
	lacking := c.RefusedSlices
	for _, slice := range c.CreateSlices {
		made, err := w.createSlice(ctx, slice)
		if err != nil {
			lacking = append(lacking, slice)
		}
		w.note(Created, made, err)
	}
	for _, one := range c.KeepSlices {
		live, err := w.liveSlice(ctx, st, one.Slice)
		if err == nil {
			live = one.Kept(live)
			err = w.updateSlice(ctx, live)
		}
		w.note(Changed, live, err)
	}
	for _, edit := range c.UpdateSlices {
		if !ownership.SliceIsOurs(edit.Old, st.Import) {
			w.must(Changed, edit.New, wrap(errNotOurs, "update", edit.Old))
			continue
		}
		made := edit.New.DeepCopy()
		err := w.updateSlice(ctx, made)
		if err != nil {
			lacking = append(lacking, edit.New)
		}
		w.note(Changed, made, err)
	}
	for _, move := range c.MoveSlices {
		w.note(Deleted, move.Slice, w.move(ctx, st, move))
	}
	for _, slice := range c.DeleteSlices {
		w.deleteSlice(ctx, st, slice, lacking)
	}
}

// deleteSlice deletes a slice, unless it has an endpoint that is lacking elsewhere.
func (w *Writer) deleteSlice(ctx context.Context, st observed.State, slice *discoveryv1.EndpointSlice, lacking []*discoveryv1.EndpointSlice) {
	if !ownership.SliceIsOurs(slice, st.Import) {
		w.must(Deleted, slice, wrap(errNotOurs, "delete", slice))
		return
	}
	if len(lacking) > 0 {
		if live, err := w.liveSlice(ctx, st, slice); err != nil {
			w.note(Deleted, slice, err)
			return
		} else if shares(live, lacking) {
			return
		}
	}
	w.note(Deleted, slice, w.remove(ctx, slice))
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
	return wrap(w.Client.Delete(ctx, slice, exactly(slice)), "delete", slice)
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
	if _, err := w.createSlice(ctx, move.Moved(live)); err != nil {
		return err
	}
	return w.remove(ctx, live)
}

// liveSlice reads a slice of the controller with its content. The error is ErrStale if the slice has
// changed.
func (w *Writer) liveSlice(ctx context.Context, st observed.State, slice *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	live := new(discoveryv1.EndpointSlice)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(slice), live); err != nil {
		return slice, wrap(err, "read", slice)
	}
	if live.ResourceVersion != slice.ResourceVersion || !ownership.SliceIsOurs(live, st.Import) {
		return slice, fmt.Errorf("change EndpointSlice %s: %w", live.Name, ErrStale)
	}
	return live, nil
}

// createSlice creates a slice. If a slice of an import with the same name already exists and the
// caches do not contain it, createSlice updates it: a user has removed its labels, or the caches
// are stale.
func (w *Writer) createSlice(ctx context.Context, slice *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	made := slice.DeepCopy()
	err := w.create(ctx, made)
	if !apierrors.IsAlreadyExists(err) {
		return made, wrap(err, "create", slice)
	}
	live := new(discoveryv1.EndpointSlice)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(slice), live); err != nil {
		return made, wrap(err, "read", slice)
	}
	if !ownedAlike(live, slice) {
		return made, fmt.Errorf("create EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, errForeignSlice)
	}
	if live.DeletionTimestamp != nil || ownership.Misassociated(live, slice.Labels[discoveryv1.LabelServiceName]) {
		if err := w.remove(ctx, live); err != nil {
			return made, err
		}
		return made, fmt.Errorf("create EndpointSlice %s again, as it is being deleted, or has a label that must not change: %w", slice.Name, ErrStale)
	}
	edited := ownership.Overlay(live, slice)
	edited.OwnerReferences = slice.OwnerReferences
	if ownership.SameSlice(live, edited) {
		return live, nil
	}
	return edited, w.updateSlice(ctx, edited)
}

func (w *Writer) updateSlice(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	before := slice.ResourceVersion
	err := w.try("update", slice, slice, func() error { return w.Client.Update(ctx, slice) })
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
