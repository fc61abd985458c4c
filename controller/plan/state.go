package plan

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

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
	// Strays are the EndpointSlices that lead to Service, and carry no import's name, or another's.
	Strays []*discoveryv1.EndpointSlice
	// Leaks are what kube-proxy may still have of slices that belonged to the derived Service.
	Leaks []Leak
	// Holders are the Services, of any namespace, that have one of the import's ips, or of those that it had last, as ClusterIP; others do
	// not matter.
	Holders []*corev1.Service
	// CRD is what the server's ServiceImport can hold.
	CRD CRD
	// Refused is what the server has refused since the state was read, in that order: one entry for each attempt.
	Refused []Refusal
	// ImportRefused is why the server refused the import that the clusterset gives; empty if it did not.
	ImportRefused string
	// SlicesRefused are the slices of ours that the server refused, by name, with its reasons.
	SlicesRefused map[string]string
	// Contested are the fields that another writer keeps setting back: they are not written for now.
	Contested Contested
	// ReadyByOthers is true where another writer has set the import's condition Ready.
	ReadyByOthers bool
	// Patient is true while it is too early to give up the recorded addresses. The API server releases the address of a deleted
	// Service a moment after the Service is gone: who asks for it at once may be told that it is taken.
	Patient bool
	// Last is what Ready said last; used where the CRD has no conditions to read it from.
	Last metav1.Condition
	// Now is the time of this plan; it ends up in lastTransitionTime.
	Now metav1.Time
}

// CRD is what the served version of the ServiceImport CRD can hold. Fields that it lacks are pruned by the server: to write
// them would be to write them for ever.
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

// Changes are the writes that are missing. The zero value is none. Apply makes them in the order of the fields.
type Changes struct {
	// CreateImport and DeleteImport are of an import of ours.
	CreateImport, DeleteImport *mcsv1beta1.ServiceImport
	// Create is the derived Service, to be made.
	Create *corev1.Service
	// Service and ServiceStatus are edits of the derived Service; never both in one plan.
	Service, ServiceStatus *Edit[*corev1.Service]
	// Evict are EndpointSlices of others, sorted by name, that lead to the derived Service of an import of ours: to be deleted. Nothing
	// waits for that, and no condition: what others make again and again, or the server keeps, would hold it up for ever. Apply tells of
	// those that it has deleted.
	Evict []*discoveryv1.EndpointSlice
	// Heal are the leaks to be mended, by an empty slice of the name that each had.
	Heal []Leak
	// CreateSlices, UpdateSlices and DeleteSlices are of slices of ours, sorted by name. An update has the whole slice.
	// They come before the addresses, so that a name that can be resolved leads somewhere.
	CreateSlices, DeleteSlices []*discoveryv1.EndpointSlice
	UpdateSlices               []Edit[*discoveryv1.EndpointSlice]
	// MoveSlices are slices of ours, sorted by name, that get another name and Service.
	MoveSlices []Move
	// Import and ImportStatus are edits of the import; never both in one plan.
	Import, ImportStatus *Edit[*mcsv1beta1.ServiceImport]
	// Slices are edits of the labels of slices of ours, sorted by name.
	Slices []Edit[*discoveryv1.EndpointSlice]
	// Delete are Services of ours, sorted by name.
	Delete []*corev1.Service
	// ExportStatus is an edit of this cluster's ServiceExport.
	ExportStatus *Edit[*mcsv1beta1.ServiceExport]
	// Events are told on the import, ExportEvents on the export, after the writes have succeeded.
	Events, ExportEvents []Event

	// Ready is the import's condition as it stands; the zero value while writes are still missing.
	Ready metav1.Condition
	// ExportConditions are those of the export, as they stand or are planned; none while writes are still missing.
	ExportConditions []metav1.Condition
	// Retry is true where the world may change without any object telling us (a quota, an address range).
	Retry bool
	// Soon is true where the recorded addresses were refused and are to be asked for again.
	Soon bool
	// Notes are on slices that cannot be had.
	Notes []string
}

// Edit is an object as it was read and as it should be; only the difference is written.
type Edit[T any] struct{ Old, New T }

// Event is told on the import or the export.
type Event struct{ Type, Reason, Message string }

// writes counts the planned writes for which a condition waits, events left out.
func (c *Changes) writes() int {
	n := len(c.MoveSlices) + len(c.Slices) + len(c.CreateSlices) + len(c.UpdateSlices) + len(c.DeleteSlices) + len(c.Delete)
	for _, planned := range []bool{
		c.CreateImport != nil, c.DeleteImport != nil, c.Create != nil, c.Service != nil, c.ServiceStatus != nil, c.Import != nil,
		c.ImportStatus != nil, c.ExportStatus != nil,
	} {
		if planned {
			n++
		}
	}
	return n
}

// Empty is true when nothing is to be written or told.
func (c *Changes) Empty() bool {
	return c.writes() == 0 && len(c.Evict)+len(c.Heal)+len(c.Events)+len(c.ExportEvents) == 0
}
