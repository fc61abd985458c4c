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

// PutLease writes the labels, the annotations and the spec of a Lease, so that it repairs what others changed there, and creates the Lease
// where there is none. A field of the spec that is nil, and each annotation of unset, is removed. What else is on the Lease stays.
func (w PeerWriter) PutLease(ctx context.Context, lease *coordinationv1.Lease, unset ...string) error {
	annotations := map[string]any{}
	for key, value := range lease.Annotations {
		annotations[key] = value
	}
	for _, key := range unset {
		annotations[key] = nil
	}
	err := w.merge(ctx, lease.DeepCopy(), map[string]any{
		"metadata": map[string]any{"labels": lease.Labels, "annotations": annotations},
		"spec": map[string]any{ // The type leaves out what is nil, and a merge patch removes what is null.
			"holderIdentity": lease.Spec.HolderIdentity, "leaseDurationSeconds": lease.Spec.LeaseDurationSeconds,
			"acquireTime": lease.Spec.AcquireTime, "renewTime": lease.Spec.RenewTime, "leaseTransitions": lease.Spec.LeaseTransitions,
		},
	})
	if apierrors.IsNotFound(err) {
		err = w.Client.Create(ctx, lease)
	}
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

// Announce writes the cluster's ID into the annotation of a namespace that peers read.
func (w PeerWriter) Announce(ctx context.Context, namespace, id string) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	err := w.merge(ctx, object, map[string]any{"metadata": map[string]any{"annotations": map[string]string{mcs.AnnotationClusterID: id}}})
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
