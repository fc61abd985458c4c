// Package autoexport decides which Services are exported without a ServiceExport of their users. It
// computes values from values.
//
//	Namespace, Service, ServiceExport -> Decide -> Decision
//
// The rules, in this order:
//
//  1. A ServiceExport that somebody else created stays as it is.
//  2. A Service is exported if its namespace has the label clusterset-dns.io/export with the value
//     "annotated" and the Service has the annotation with the value "true", or if the label has the
//     value "all" and the annotation is not "false".
//  3. These are never exported: ExternalName Services, derived Services, also those of other
//     implementations, Services that the controller made under the own name of an import
//     (docs/native-names.md), and those that belong to a cluster itself, such as default/kubernetes.
//  4. A ServiceExport of the controller is deleted when the reason for it is gone. The caller waits
//     for a while first. One that a user has applied since is the user's.
package autoexport

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// Key is the label of a Namespace, and the annotation of a Service.
const Key = "clusterset-dns.io/export"

// Values of the label of a Namespace.
const (
	annotated = "annotated"
	all       = "all"
)

// Decision is what to do with the ServiceExport of a Service.
type Decision int

const (
	// Leave means that nothing has to be done.
	Leave Decision = iota
	// Create means that the ServiceExport has to be created.
	Create
	// Delete means that the ServiceExport of the controller has to be deleted.
	Delete
)

// Input is what a decision depends on. A nil object does not exist.
type Input struct {
	Namespace *corev1.Namespace
	Service   *corev1.Service
	Export    *mcsv1beta1.ServiceExport
	// Derived means that a ServiceImport names the Service as its derived one.
	Derived bool
	// Annotation is a second annotation of Services with the same meaning as Key, or "".
	Annotation string
}

// Decide returns the decision and the reason for it.
func Decide(in Input) (Decision, string) {
	wanted, reason := in.wanted()
	switch {
	case in.Export == nil && wanted:
		return Create, reason
	case in.Export != nil && IsOurs(in.Export) && !wanted:
		return Delete, reason
	default:
		return Leave, reason
	}
}

// IsOurs reports whether the controller created a ServiceExport.
func IsOurs(export *mcsv1beta1.ServiceExport) bool {
	return export.Labels[mcs.LabelManagedBy] == mcs.ControllerName
}

// wanted reports whether the Service is to be exported, and why.
func (in Input) wanted() (wanted bool, reason string) {
	svc := in.Service
	switch {
	case in.Namespace == nil || in.Namespace.DeletionTimestamp != nil:
		return false, "the namespace is gone"
	case svc == nil || svc.DeletionTimestamp != nil:
		return false, "the Service is gone"
	case in.never() != "":
		return false, in.never()
	}
	key, value := in.annotation()
	switch label := in.Namespace.Labels[Key]; {
	case label == all && value != "false":
		return true, fmt.Sprintf("the label %s of the namespace is %q", Key, label)
	case label == annotated && value == "true":
		return true, fmt.Sprintf("the annotation %s of the Service is %q", key, value)
	case label == all || label == annotated:
		return false, fmt.Sprintf("the annotation %s of the Service is %q", key, value)
	default:
		return false, fmt.Sprintf("the label %s of the namespace is %q", Key, label)
	}
}

// never returns why the Service is never exported, or "" if it can be.
func (in Input) never() string {
	switch svc := in.Service; {
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		return "the Service has the type ExternalName"
	case svc.Labels[mcs.LabelManagedBy] == mcs.ControllerName, ownership.NativeService(svc):
		return "the controller made the Service"
	case in.Derived, ownership.OwnedByImport(svc):
		return "the Service is the derived one of a ServiceImport"
	case mcs.System(svc.Namespace, svc.Name):
		return "the Service belongs to the cluster itself"
	}
	return ""
}

// annotation returns the annotation that counts: the own one, otherwise the second one.
func (in Input) annotation() (key, value string) {
	if value, ok := in.Service.Annotations[Key]; ok || in.Annotation == "" {
		return Key, value
	}
	if value, ok := in.Service.Annotations[in.Annotation]; ok {
		return in.Annotation, value
	}
	return Key, ""
}
