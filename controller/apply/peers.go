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

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// PeerWriter writes what the connections to peers leave in this cluster: a Lease for each peer, and the announced cluster ID.
type PeerWriter struct{ Client client.Writer }

// PutLease creates a Lease that has no resourceVersion. It writes the labels, the annotations and the spec of any other, so that it repairs
// what others changed there: a field of the spec that is nil, and each annotation of unset, is removed, and what else is on the Lease stays.
// The error is a conflict, or says that the Lease exists, where somebody else has written it since it was read.
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
	err := w.merge(ctx, lease.DeepCopy(), map[string]any{
		"metadata": map[string]any{"resourceVersion": lease.ResourceVersion, "labels": lease.Labels, "annotations": annotations},
		"spec": map[string]any{ // The type leaves out what is nil, and a merge patch removes what is null.
			"holderIdentity": lease.Spec.HolderIdentity, "leaseDurationSeconds": lease.Spec.LeaseDurationSeconds,
			"acquireTime": lease.Spec.AcquireTime, "renewTime": lease.Spec.RenewTime, "leaseTransitions": lease.Spec.LeaseTransitions,
		},
	})
	return wrap(err, "write Lease", lease)
}

// DeleteLease deletes this Lease, and no later one of its name.
func (w PeerWriter) DeleteLease(ctx context.Context, lease *coordinationv1.Lease) error {
	err := w.Client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return wrap(err, "delete Lease", lease)
}

// Announce writes the cluster's ID into the annotation that peers read, of a namespace of which this version was read.
func (w PeerWriter) Announce(ctx context.Context, namespace, resourceVersion, id string) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	err := w.merge(ctx, object, map[string]any{"metadata": map[string]any{
		"resourceVersion": resourceVersion, "annotations": map[string]string{mcs.AnnotationClusterID: id},
	}})
	if err != nil {
		return fmt.Errorf("annotate Namespace %s: %w", namespace, err)
	}
	return nil
}

func (w PeerWriter) merge(ctx context.Context, object client.Object, patch map[string]any) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	return w.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, text))
}
