package apply

import (
	"context"
	"errors"
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
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// NativeRefusedError is the API server's refusal of a Service with an import's own name.
type NativeRefusedError struct {
	Refusals []observed.Refusal
	cause    error
}

func (e *NativeRefusedError) Error() string { return e.cause.Error() }

func (e *NativeRefusedError) Unwrap() error { return e.cause }

// native writes the Service with the import's own name.
func (w *Writer) native(ctx context.Context, _ observed.State, c diff.Changes) error {
	switch n := c.Native; {
	case n.Apply != nil:
		return nativeRefused(w.applyNative(ctx, n))
	case n.Delete != nil:
		if !ownership.NativeService(n.Delete) {
			return fmt.Errorf("delete Service %s: %w", n.Delete.Name, errNotOurs)
		}
		return wrap(w.Client.Delete(ctx, n.Delete, exactly(n.Delete)), "delete", n.Delete)
	case n.Release != nil:
		return w.release(ctx, n.Release)
	}
	return nil
}

// applyNative creates or corrects the Service by server-side apply. The controller then owns only the
// fields that it sets: users can apply their own manifest to the Service, with other targetPorts and
// a selector, and there is no conflict. It reads the Service first, because an apply would also
// change a user's Service that the cache does not contain yet.
func (w *Writer) applyNative(ctx context.Context, n diff.Native) error {
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
	if err := w.Client.Apply(ctx, wanted, client.FieldOwner(mcs.ControllerName)); err != nil {
		if fieldConflict(err) {
			return err
		}
		return wrap(err, "apply", n.Apply)
	}
	applied := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: *wanted.ResourceVersion}}
	before := ""
	if live != nil {
		before = live.ResourceVersion
	}
	if applied.ResourceVersion == before {
		return &NativeRefusedError{[]observed.Refusal{{Message: errNoEffect.Error()}}, fmt.Errorf("apply Service %s: %w", n.Apply.Name, errNoEffect)}
	}
	return w.written(applied, before, nil)
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
func (w *Writer) release(ctx context.Context, svc *corev1.Service) error {
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
	return w.patch(ctx, live, free)
}

// fieldConflict reports whether another writer owns a field of a Service that is applied.
func fieldConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// nativeRefused converts an error to a NativeRefusedError if the API server refuses the Service, or
// another writer owns a field of it.
func nativeRefused(err error) error {
	if fieldConflict(err) {
		return &NativeRefusedError{[]observed.Refusal{{Message: err.Error()}}, err}
	}
	service := new(RefusedError)
	if errors.As(refused(err), &service) {
		return &NativeRefusedError{service.Refusals, err}
	}
	return err
}
