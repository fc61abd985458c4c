package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Kind says what the Service of the derived name is to us.
type Kind int

const (
	// Absent: there is none; ours to make.
	Absent Kind = iota
	// Ours: made by us for an import of this name. Kept in sync.
	Ours
	// ReadOnly: kept by Karmada, or named in the annotation by a user or another controller (the mcs-api reference
	// controllers, Cilium). Its addresses go to ips; it is never written.
	ReadOnly
	// Foreign: a Service that happens to have the name. Neither read nor written (R9 is the hazard).
	Foreign
)

// KindOf applies the rules in the order of the constants.
func KindOf(imp *mcsv1beta1.ServiceImport, svc *corev1.Service) Kind {
	named := imp.Annotations[AnnotationDerivedService] == DerivedName(imp)
	switch {
	case svc == nil:
		return Absent
	case slices.Contains(OwnerImports(svc), imp.Name):
		return Ours
	case KarmadaManaged(imp), KarmadaManaged(svc) && !ImportIsOurs(imp) && !madeByUs(imp): // who writes Services can set its label
		return ReadOnly
	case named && !madeByUs(imp) && len(OwnerImports(svc)) == 0:
		return ReadOnly
	default:
		return Foreign
	}
}

// madeByUs is true once a derived Service of ours has given the import its addresses.
func madeByUs(imp *mcsv1beta1.ServiceImport) bool {
	_, recorded := imp.Annotations[AnnotationClusterIPs]
	return recorded
}
