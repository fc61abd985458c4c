package ownership

import (
	"crypto/rand"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// annotationApplied exists only in the cache. Its key has a random part that never leaves this
// process, so no user can write it.
var annotationApplied = "clusterset-dns.io/applied-" + rand.Text()

// appliedAnnotations are the annotations of tools that keep an object as a file says. kubectl and
// Helm write them.
var appliedAnnotations = []string{corev1.LastAppliedConfigAnnotation, "meta.helm.sh/release-name", annotationApplied}

// Applied reports whether somebody else keeps an object as a file says.
func Applied(object metav1.Object) bool {
	return annotated(object) || slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Operation == metav1.ManagedFieldsOperationApply && entry.Manager != mcs.ControllerName
	})
}

func annotated(object metav1.Object) bool {
	return slices.ContainsFunc(appliedAnnotations, func(key string) bool { return has(object.GetAnnotations(), key) })
}

// KeepApplied removes the managedFields of a Service, which are large. It keeps what they say: that somebody else has applied the Service,
// and, of the ports of a Service that the controller made under the own name of an import, those that the controller set.
func KeepApplied(svc *corev1.Service) {
	if svc.Labels[mcs.LabelNativeOf] != "" {
		keepOwnPorts(svc)
	}
	if Applied(svc) && (svc.Labels[mcs.LabelNativeOf] != "" || svc.Labels[mcs.LabelManagedBy] == mcs.ControllerName || OwnedByImport(svc)) {
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, annotationApplied, "")
	}
	svc.ManagedFields = nil
}

// keepOwnPorts removes the ports that others have added. Without the controller's managedFields, which anybody may remove, all ports stay.
func keepOwnPorts(svc *corev1.Service) {
	for _, entry := range svc.ManagedFields {
		own := new(fieldpath.Set)
		if entry.Manager != mcs.ControllerName || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil ||
			own.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
			continue
		}
		svc.Spec.Ports = slices.DeleteFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
			return !own.Has(fieldpath.MakePathOrDie("spec", "ports", fieldpath.KeyByFields("port", int(p.Port), "protocol", string(p.Protocol))))
		})
	}
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
	return len(svc.Spec.Selector) > 0 || svc.Spec.Type == corev1.ServiceTypeExternalName || annotated(svc)
}
