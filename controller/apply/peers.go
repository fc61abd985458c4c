package apply

import (
	"context"
	"encoding/json"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// PeerWriter writes the results of the connections to peers to this cluster: a Lease for each peer,
// renewed tokens, and the Lease that announces this cluster.
type PeerWriter struct{ Client client.Writer }

// PutLease creates the Lease if it has no resourceVersion. Otherwise it writes the labels, the
// annotations and the spec, and so repairs what others changed there. It removes each field of the
// spec that is nil and each annotation in unset, and keeps everything else on the Lease. If another
// client has written or created the Lease since it was read, the error is a conflict or
// AlreadyExists. Without an error, lease then has the resourceVersion of the write.
func (w PeerWriter) PutLease(ctx context.Context, lease *coordinationv1.Lease, unset ...string) error {
	if lease.ResourceVersion == "" {
		return wrap(w.Client.Create(ctx, lease), "create Lease", lease)
	}
	annotations := map[string]any{}
	for key, value := range lease.Annotations {
		annotations[key] = value
	}
	for _, key := range unset {
		annotations[key] = nil
	}
	err := w.merge(ctx, lease, map[string]any{
		"metadata": map[string]any{"resourceVersion": lease.ResourceVersion, "labels": lease.Labels, "annotations": annotations},
		// The Go type omits nil fields. A merge patch removes fields that are null.
		"spec": map[string]any{
			"holderIdentity": lease.Spec.HolderIdentity, "leaseDurationSeconds": lease.Spec.LeaseDurationSeconds,
			"acquireTime": lease.Spec.AcquireTime, "renewTime": lease.Spec.RenewTime, "leaseTransitions": lease.Spec.LeaseTransitions,
		},
	})
	return wrap(err, "write Lease", lease)
}

// DeleteLease deletes this Lease, and no later Lease of the same name.
func (w PeerWriter) DeleteLease(ctx context.Context, lease *coordinationv1.Lease) error {
	err := w.Client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return wrap(err, "delete Lease", lease)
}

// PutSecretData writes the keys that the Secret has in Data, and keeps everything else of the Secret.
// The resourceVersion is the one that the caller has read. If another client has written the Secret
// since, the error is a conflict.
func (w PeerWriter) PutSecretData(ctx context.Context, secret *corev1.Secret) error {
	err := w.merge(ctx, secret.DeepCopy(), map[string]any{
		"metadata": map[string]any{"resourceVersion": secret.ResourceVersion}, "data": secret.Data,
	})
	return wrap(err, "write Secret", secret)
}

func (w PeerWriter) merge(ctx context.Context, object client.Object, patch map[string]any) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	return w.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, text))
}

// ExportWriter creates and deletes the ServiceExports of Services that are exported by a label of
// their namespace.
type ExportWriter struct{ Client client.Writer }

// Create creates the ServiceExport of a Service, with the controller's label. An existing one stays.
//
// The ServiceExport has no owner reference to the Service. The garbage collector would delete it
// with a Service that is replaced by force, and the name would lose its addresses in all clusters.
func (w ExportWriter) Create(ctx context.Context, svc *corev1.Service) error {
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{
		Namespace: svc.Namespace, Name: svc.Name, Labels: map[string]string{mcs.LabelManagedBy: mcs.ControllerName},
	}}
	if err := w.Client.Create(ctx, export); err != nil && !apierrors.IsAlreadyExists(err) {
		return wrap(err, "create ServiceExport", export)
	}
	return nil
}

// Delete deletes a ServiceExport of the controller. If it has changed since it was read, the error
// is a conflict.
func (w ExportWriter) Delete(ctx context.Context, export *mcsv1beta1.ServiceExport) error {
	if export.Labels[mcs.LabelManagedBy] != mcs.ControllerName {
		return fmt.Errorf("delete ServiceExport %s: %w", export.Name, errNotOurs)
	}
	return wrap(client.IgnoreNotFound(w.Client.Delete(ctx, export, exactly(export))), "delete ServiceExport", export)
}
