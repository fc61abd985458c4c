package ownership

import (
	"crypto/rand"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// annotationApplied exists only in the cache. Its key has a random part that never leaves this
// process, so no user can write it.
var annotationApplied = "clusterset-dns.io/applied-" + rand.Text()

// appliedAnnotations are the annotations of tools that keep a Service as a file says. kubectl and
// Helm write them.
var appliedAnnotations = []string{corev1.LastAppliedConfigAnnotation, "meta.helm.sh/release-name", annotationApplied}

// KeepApplied removes the managedFields of a Service, which are large. It keeps one fact of them:
// that somebody else has applied the Service.
func KeepApplied(svc *corev1.Service) {
	others := slices.ContainsFunc(svc.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Operation == metav1.ManagedFieldsOperationApply && entry.Manager != mcs.ControllerName
	})
	if others && svc.Labels[mcs.LabelNativeOf] != "" {
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, annotationApplied, "")
	}
	svc.ManagedFields = nil
}

// NativeService reports whether the controller made a Service under the own name of an import, and
// no user has taken it over.
func NativeService(svc *corev1.Service) bool {
	return svc.Labels[mcs.LabelNativeOf] == svc.Name && !takenOver(svc)
}

// TakenOver reports whether a Service that the controller made under the own name of an import is a
// user's by now: it has pods, leads to another name, or somebody has applied it.
func TakenOver(svc *corev1.Service) bool {
	return svc.Labels[mcs.LabelNativeOf] != "" && takenOver(svc)
}

func takenOver(svc *corev1.Service) bool {
	return len(svc.Spec.Selector) > 0 || svc.Spec.Type == corev1.ServiceTypeExternalName ||
		slices.ContainsFunc(appliedAnnotations, func(key string) bool { _, applied := svc.Annotations[key]; return applied })
}
