package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ofKubernetes is the label of slices that Kubernetes makes.
const ofKubernetes = "endpointslice-controller.k8s.io"

// selectPods is what Kubernetes' EndpointSlice controller does with Services that have a selector: each selects one pod, of which it writes a slice
// with the Service's labels, and writes it again when somebody deletes it. A Service that loses its selector keeps the slice.
//
// The Services of stories have slices that the story gives them, and no selector, unless somebody edits it.
func (c *cluster) selectPods(ctx context.Context) (err error) {
	for _, object := range c.server.Objects() {
		svc, is := object.(*corev1.Service)
		if !is || !selects(svc) || svc.DeletionTimestamp != nil {
			continue
		}
		labels := map[string]string{discoveryv1.LabelServiceName: svc.Name, discoveryv1.LabelManagedBy: ofKubernetes}
		for key, value := range svc.Labels {
			if _, own := labels[key]; !own {
				labels[key] = value
			}
		}
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: svc.Namespace, Name: svc.Name + "-pods", Labels: maps.Clone(labels),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(svc, corev1.SchemeGroupVersion.WithKind("Service"))},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{fmt.Sprintf("10.9.%d.66", c.number)}, Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)}}},
		}
		for _, p := range svc.Spec.Ports {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: new(p.TargetPort.IntVal)})
		}
		live := new(discoveryv1.EndpointSlice)
		switch failed := c.admin.Get(ctx, client.ObjectKeyFromObject(slice), live); {
		case apierrors.IsNotFound(failed):
			err = errors.Join(err, client.IgnoreAlreadyExists(c.admin.Create(ctx, slice)))
		case failed == nil && !maps.Equal(live.Labels, labels):
			live.Labels = labels
			err = errors.Join(err, c.admin.Update(ctx, live))
		default:
			err = errors.Join(err, failed)
		}
	}
	return err
}

// selects reports whether an object is a Service with a selector.
func selects(o client.Object) bool {
	svc, is := o.(*corev1.Service)
	return is && len(svc.Spec.Selector) > 0
}
