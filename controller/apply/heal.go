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

// heal has kube-proxy forget endpoints of slices that have lost the label of their Service: an empty slice of the same name, with the
// label, takes their place in its memory, and is deleted.
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
		return fmt.Errorf("have kube-proxy forget endpoints of a former EndpointSlice %s, of %s: %w", key, leak.Type, errOtherType)
	case live.Labels[discoveryv1.LabelServiceName] == leak.Service:
		return nil // It has the label again.
	}
	return w.healPresent(ctx, live, leak.Service)
}

// healGone is for a slice that is no longer there.
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
	return w.remove(ctx, st, empty)
}

// healPresent is for a slice that is still there: it is empty and has the label for a moment, and then is what it was. Where the process ends
// in between, the slice belongs to our Service, as it did before it lost the label, and is deleted, as it would have been with the label.
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
