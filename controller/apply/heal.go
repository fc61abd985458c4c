package apply

import (
	"context"
	"errors"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// heal makes kube-proxy forget the endpoints of slices that have lost the label of their Service.
// It creates an empty slice with the same name and the label, which replaces the endpoints in
// kube-proxy's cache, and deletes the slice.
func (w *Writer) heal(ctx context.Context, st observed.State, c diff.Changes) error {
	var failed []error
	for _, leak := range c.Heal {
		err := w.healOne(ctx, st, leak)
		if err == nil && w.Healed != nil {
			w.Healed(st.Namespace, leak)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (w *Writer) healOne(ctx context.Context, st observed.State, leak observed.Leak) error {
	live := new(discoveryv1.EndpointSlice)
	key := client.ObjectKey{Namespace: st.Namespace, Name: leak.Slice}
	switch err := w.Live.Get(ctx, key, live); {
	case apierrors.IsNotFound(err):
		return w.healGone(ctx, st, leak)
	case err != nil:
		return fmt.Errorf("read EndpointSlice %s: %w", key, err)
	case live.AddressType != leak.Type:
		return fmt.Errorf("make kube-proxy forget the endpoints of the former EndpointSlice %s of Service %s: %w", key, leak.Type, errOtherType)
	case live.Labels[discoveryv1.LabelServiceName] == leak.Service:
		return nil // The slice has the label again.
	}
	return w.healPresent(ctx, live, leak.Service)
}

// healGone repairs a leak whose slice no longer exists.
func (w *Writer) healGone(ctx context.Context, st observed.State, leak observed.Leak) error {
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

// healPresent repairs a leak whose slice still exists. The slice has the label and no endpoints for
// a moment, and is then restored. If the process stops between the two patches, the slice belongs
// to the derived Service, as it did before it lost the label. The controller then deletes it, as it
// would have done if the slice had kept the label.
func (w *Writer) healPresent(ctx context.Context, live *discoveryv1.EndpointSlice, service string) error {
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
