package observed

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/merge"
)

// Clusterset is what the clusters have to say of one name.
type Clusterset struct {
	// Home is this cluster's id.
	Home string
	// Members are the clusters that count, this one among them, in any order.
	Members []merge.Member
	// Silent are the peers that joined, that this process has not read yet, and whose time has not run out. They
	// count with what this cluster still holds of them: absent is not empty.
	Silent []string
	// SilentExpired are those whose time has run out: they count for the import, and no longer for its endpoints (C22, C39).
	SilentExpired []string
	// Vacant are the clusters whose ServiceExport is there while their Service is not, or, in this cluster, has no slices yet, and was not so
	// long ago: it is being replaced. They count with what they had: absent is not empty.
	Vacant []string
	// Export is this cluster's ServiceExport, nil if there is none.
	Export *mcsv1beta1.ServiceExport
	// Namespace is true where this cluster has the namespace and it is not on its way out (C20, C21).
	Namespace bool
	// MaxEndpoints is how many endpoints a slice of ours holds.
	MaxEndpoints int
}

// Leak is what kube-proxy may still serve although it is no longer there: the endpoints of a slice that belonged to a derived Service and
// has lost the label since, or is gone.
type Leak struct {
	Slice   string
	Service string
	Type    discoveryv1.AddressType
}

// State is what one plan is made from. The objects belong to a cache: the plan copies before it edits.
type State struct {
	// Namespace and Name are the import's, there being one or not.
	Namespace, Name string
	// Clusterset is what the clusterset says of the name; nil where this cluster is in none.
	Clusterset *Clusterset
	// Import is the ServiceImport; nil when there is none.
	Import *mcsv1beta1.ServiceImport
	// Service is the Service of the import's derived name; nil when there is none.
	Service *corev1.Service
	// Owned are the Services that we made for this import, under whatever name.
	Owned []*corev1.Service
	// Slices are the EndpointSlices that carry the import's name in multicluster.kubernetes.io/service-name.
	Slices []*discoveryv1.EndpointSlice
	// UnexpectedSlices are the EndpointSlices that belong to Service, and have no import's name, or another's.
	UnexpectedSlices []*discoveryv1.EndpointSlice
	// Leaks are what kube-proxy may still have of slices that belonged to the derived Service.
	Leaks []Leak
	// AddressHolders are the Services, of any namespace, that have one of the import's ips, or of those that it had last, as ClusterIP; others do
	// not matter.
	AddressHolders []*corev1.Service
	// CRD is what the server's ServiceImport can hold.
	CRD CRD
	// Refused is what the server has refused since the state was read, in that order: one entry for each attempt.
	Refused []Refusal
	// ImportRefused is why the server refused the import that the clusterset gives; empty if it did not.
	ImportRefused string
	// SlicesRefused are the slices of ours that the server refused, by name, with its reasons.
	SlicesRefused map[string]string
	// Contested are the fields that another writer keeps setting back: they are not written for now.
	Contested contested.Fields
	// ReadyByOthers is true where another writer has set the import's condition Ready.
	ReadyByOthers bool
	// KeepTrying is true while it is too early to give up the recorded addresses. The API server releases the address of a deleted
	// Service a moment after the Service is gone, and refuses it until then.
	KeepTrying bool
	// LastReady is the last condition Ready; used where the CRD has no conditions to read it from.
	LastReady metav1.Condition
	// Now is the time of this plan; it ends up in lastTransitionTime.
	Now metav1.Time
}

// CRD is what the served version of the ServiceImport CRD can hold. Fields that it lacks are pruned by the server: to write
// them would be to write them in every pass.
type CRD struct {
	// APIVersion is the served group and version, as in an ownerReference.
	APIVersion string
	// MaxIPs is how many ips fit: 2 in mcs-api (C26), 1 in Karmada's CRD (K10).
	MaxIPs int
	// IPFamilies, Conditions and EndpointSliceObjects say whether spec.ipFamilies, status.conditions and status.endpointSliceObjects
	// exist.
	IPFamilies, Conditions, EndpointSliceObjects bool
	// Policies says whether spec.internalTrafficPolicy and spec.trafficDistribution exist, which came together.
	Policies bool
}

// Refusal is a write of the derived Service that the server answered with «invalid» or «forbidden».
type Refusal struct {
	// Field is the first field that the server named, such as spec.clusterIPs or spec.ports[1].name; empty if none.
	Field string
	// Message is what it said.
	Message string
}
