package apply

import (
	"context"
	"encoding/json"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
