package apply

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// native writes the Service with the import's own name.
func (w *Writer) native(ctx context.Context, _ observed.State, c diff.Changes) {
	switch n := c.Native; {
	case n.Apply != nil:
		applied := bare(n.Apply)
		w.note(Changed, applied, w.applyNative(ctx, n, applied))
	case n.Release != nil:
		released := bare(n.Release)
		w.must(Changed, released, w.release(ctx, n.Release, released))
	}
}

// bare returns the name and the labels of a Service, which belongs to a cache or to a plan.
func bare(svc *corev1.Service) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name, Labels: svc.Labels}}
}

// applyNative creates or corrects the Service by server-side apply. The controller then owns only the
// fields that it sets: users can apply their own manifest to the Service, with other targetPorts and
// a selector, and there is no conflict. It reads the Service first, because an apply would also
// change a user's Service that the cache does not contain yet.
func (w *Writer) applyNative(ctx context.Context, n diff.Native, applied *corev1.Service) error {
	live := new(corev1.Service)
	switch err := w.Live.Get(ctx, client.ObjectKeyFromObject(n.Apply), live); {
	case apierrors.IsNotFound(err):
		live = nil
	case err != nil:
		return wrap(err, "read", n.Apply)
	}
	if have := n.Have; (have == nil) != (live == nil) || have != nil && have.ResourceVersion != live.ResourceVersion {
		return fmt.Errorf("apply Service %s: %w", n.Apply.Name, ErrStale)
	}
	wanted := serviceOf(n.Apply)
	if live != nil {
		wanted.WithUID(live.UID).WithResourceVersion(live.ResourceVersion)
	}
	return wrap(w.try("apply", n.Apply, n.Apply, func() error {
		if err := w.Client.Apply(ctx, wanted, client.FieldOwner(mcs.ControllerName)); err != nil {
			return err
		}
		if applied.ResourceVersion = *wanted.ResourceVersion; live != nil && applied.ResourceVersion == live.ResourceVersion {
			return errNoEffect
		}
		return nil
	}), "apply", n.Apply)
}

// serviceOf returns the fields of a Service that are set.
func serviceOf(svc *corev1.Service) *corev1ac.ServiceApplyConfiguration {
	in := svc.Spec
	spec := corev1ac.ServiceSpec().WithClusterIPs(in.ClusterIPs...).WithIPFamilies(in.IPFamilies...)
	spec.InternalTrafficPolicy, spec.IPFamilyPolicy, spec.TrafficDistribution = in.InternalTrafficPolicy, in.IPFamilyPolicy, in.TrafficDistribution
	if in.ClusterIP != "" {
		spec.WithClusterIP(in.ClusterIP)
	}
	if in.SessionAffinity != "" {
		spec.WithSessionAffinity(in.SessionAffinity)
	}
	if conf := in.SessionAffinityConfig; conf != nil {
		spec.WithSessionAffinityConfig(corev1ac.SessionAffinityConfig().WithClientIP(corev1ac.ClientIPConfig().WithTimeoutSeconds(*conf.ClientIP.TimeoutSeconds)))
	}
	for _, p := range in.Ports {
		port := corev1ac.ServicePort().WithPort(p.Port).WithProtocol(p.Protocol)
		if port.AppProtocol = p.AppProtocol; p.Name != "" {
			port.WithName(p.Name)
		}
		spec.WithPorts(port)
	}
	return corev1ac.Service(svc.Name, svc.Namespace).WithLabels(svc.Labels).WithSpec(spec)
}

// release removes the controller's mark from a Service that a user has taken over, and the
// controller's managed fields: otherwise the user's next apply could conflict with them.
func (w *Writer) release(ctx context.Context, svc, released *corev1.Service) error {
	live := new(corev1.Service)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(svc), live); err != nil {
		return wrap(err, "read", svc)
	}
	if live.UID != svc.UID || live.ResourceVersion != svc.ResourceVersion {
		return fmt.Errorf("release Service %s: %w", svc.Name, ErrStale)
	}
	free := live.DeepCopy()
	delete(free.Labels, mcs.LabelNativeOf)
	free.ManagedFields = slices.DeleteFunc(free.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == mcs.ControllerName })
	err := w.patch(ctx, live, free)
	released.ResourceVersion = free.ResourceVersion
	return err
}
