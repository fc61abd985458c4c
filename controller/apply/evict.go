package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// evict deletes unexpected slices that belong to a Service of the controller and emits an event.
func (w *Writer) evict(ctx context.Context, st observed.State, c diff.Changes) error {
	services := []*corev1.Service{st.Service}
	if st.Native != nil {
		services = append(services, st.Native.Service)
	}
	var failed []error
	for _, svc := range services {
		all := slices.DeleteFunc(slices.Clone(c.Evict), func(slice *discoveryv1.EndpointSlice) bool {
			return svc == nil || slice.Labels[discoveryv1.LabelServiceName] != svc.Name
		})
		if len(all) > 0 {
			failed = append(failed, w.evictFrom(ctx, st, c, svc, all))
		}
	}
	return errors.Join(failed...)
}

// evictFrom deletes the slices of one Service. It reads from the API server first, because the caches can be stale: a user
// can have replaced the Service with their own, or can have taken over the import. The slices then belong to the user.
func (w *Writer) evictFrom(ctx context.Context, st observed.State, c diff.Changes, svc *corev1.Service, all []*discoveryv1.EndpointSlice) error {
	now, err := w.stillOurs(ctx, st, svc)
	if err != nil {
		return err
	}
	var failed []error
	var evicted []string
	for _, slice := range all {
		takenBack := slices.ContainsFunc(c.CreateSlices, func(s *discoveryv1.EndpointSlice) bool { return s.Name == slice.Name })
		if takenBack { // The controller owns the slice, and the slice has lost its labels.
			continue
		}
		gone, err := w.evictSlice(ctx, slice, now)
		failed = append(failed, err)
		if gone {
			evicted = append(evicted, slice.Name)
		}
	}
	if len(evicted) > 0 {
		w.Tell(st.Import, evictedEvent(now.svc, evicted))
	}
	return errors.Join(failed...)
}

// served is an import with a Service of the controller.
type served struct {
	imp *mcsv1beta1.ServiceImport
	svc *corev1.Service
}

// stillOurs returns the import and its Service as the API server has them now. It returns
// ErrStale if they are not the objects of the plan, or if the controller does not own both.
func (w *Writer) stillOurs(ctx context.Context, st observed.State, of *corev1.Service) (*served, error) {
	imp, svc := new(mcsv1beta1.ServiceImport), new(corev1.Service)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(st.Import), imp); err != nil {
		return nil, wrap(err, "read import", st.Import)
	}
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(of), svc); err != nil {
		return nil, wrap(err, "read Service", of)
	}
	ours := ownership.KindOf(imp, svc) == ownership.Ours || svc.Name == imp.Name && ownership.NativeService(svc)
	if imp.UID != st.Import.UID || !ownership.OfImport(imp) || svc.UID != of.UID || !ours {
		return nil, fmt.Errorf("delete unexpected EndpointSlices of Service %s/%s: %w", svc.Namespace, svc.Name, ErrStale)
	}
	return &served{imp, svc}, nil
}

// evictSlice deletes a slice if it is still the slice of the plan and still unexpected.
func (w *Writer) evictSlice(ctx context.Context, slice *discoveryv1.EndpointSlice, now *served) (gone bool, err error) {
	live := new(discoveryv1.EndpointSlice)
	switch err := w.Live.Get(ctx, client.ObjectKeyFromObject(slice), live); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, wrap(err, "read", slice)
	case live.UID != slice.UID || !ownership.Unexpected(live, now.imp, now.svc):
		return false, nil
	}
	source, err := w.deleteSource(ctx, now.svc, live), w.remove(ctx, live)
	return err == nil, errors.Join(source, err)
}

// deleteSource deletes the Endpoints of the Service from which Kubernetes made the slice:
// otherwise Kubernetes makes the slice again. It does not delete Endpoints of another name, or
// Endpoints that were created in the meantime.
func (w *Writer) deleteSource(ctx context.Context, svc *corev1.Service, slice *discoveryv1.EndpointSlice) error {
	if slice.Labels[discoveryv1.LabelManagedBy] != desired.SliceMirroring {
		return nil
	}
	for _, ref := range slice.OwnerReferences {
		if ref.APIVersion != "v1" || ref.Kind != "Endpoints" || ref.Name != svc.Name {
			continue
		}
		source := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: ref.Name, UID: ref.UID}}
		source.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(ref.Kind))
		err := w.Client.Delete(ctx, source, client.Preconditions{UID: &ref.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return wrap(err, "delete Endpoints", source)
		}
	}
	return nil
}

// evictedEvent returns the event for slices that belonged to a Service of the controller and were deleted.
func evictedEvent(svc *corev1.Service, names []string) desired.Event {
	return desired.Event{Type: corev1.EventTypeWarning, Reason: desired.EventEndpointsTaken, Message: fmt.Sprintf(
		"deleted EndpointSlices of Service %s that the controller did not create: %s. A user edited the Service, or created the EndpointSlices; the audit log of the API server tells who",
		svc.Name, brief.ClipTo(200, strings.Join(names, ", ")))}
}

// repair makes kube-proxy forget the endpoints of slices that have lost the label of their Service.
// It creates an empty slice with the same name and the label, which replaces the endpoints in
// kube-proxy's cache, and deletes the slice.
func (w *Writer) repair(ctx context.Context, st observed.State, c diff.Changes) error {
	var failed []error
	for _, leak := range c.Repair {
		err := w.repairOne(ctx, st, leak)
		if err == nil && w.Repaired != nil {
			w.Repaired(st.Namespace, leak)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (w *Writer) repairOne(ctx context.Context, st observed.State, leak observed.Leak) error {
	live := new(discoveryv1.EndpointSlice)
	key := client.ObjectKey{Namespace: st.Namespace, Name: leak.Slice}
	switch err := w.Live.Get(ctx, key, live); {
	case apierrors.IsNotFound(err):
		return w.repairGone(ctx, st, leak)
	case err != nil:
		return fmt.Errorf("read EndpointSlice %s: %w", key, err)
	case live.AddressType != leak.Type:
		return fmt.Errorf("make kube-proxy forget the endpoints of the former EndpointSlice %s of Service %s: %w", key, leak.Type, errOtherType)
	case live.Labels[discoveryv1.LabelServiceName] == leak.Service:
		return nil // The slice has the label again.
	}
	return w.repairPresent(ctx, live, leak.Service)
}

// repairGone repairs a leak whose slice no longer exists.
func (w *Writer) repairGone(ctx context.Context, st observed.State, leak observed.Leak) error {
	empty := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: st.Namespace, Name: leak.Slice, Labels: map[string]string{
			discoveryv1.LabelServiceName: leak.Service, discoveryv1.LabelManagedBy: mcs.ControllerName,
		}},
		AddressType: leak.Type,
	}
	if err := w.Client.Create(ctx, empty); err != nil {
		return wrap(err, "create empty", empty)
	}
	return w.remove(ctx, empty)
}

// repairPresent repairs a leak whose slice still exists. The slice has the label and no endpoints for
// a moment, and is then restored. If the process stops between the two patches, the slice belongs
// to the derived Service, as it did before it lost the label. The controller then deletes it, as it
// would have done if the slice had kept the label.
func (w *Writer) repairPresent(ctx context.Context, live *discoveryv1.EndpointSlice, service string) error {
	empty := live.DeepCopy()
	if empty.Labels == nil {
		empty.Labels = map[string]string{}
	}
	empty.Labels[discoveryv1.LabelServiceName], empty.Endpoints = service, nil
	if err := w.Client.Patch(ctx, empty, difference(live)); err != nil {
		return wrap(err, "empty", live)
	}
	again := live.DeepCopy()
	again.ResourceVersion = empty.ResourceVersion
	return wrap(w.Client.Patch(ctx, again, difference(empty)), "restore", live)
}
