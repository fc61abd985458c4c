package observed

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/preference"
)

// Clusterset is what the clusters report of one name.
type Clusterset struct {
	// Home is this cluster's ID.
	Home string
	// Members are the clusters that count, including this one, in any order.
	Members []merge.Member
	// Silent are the joined peers that this process has not read yet and whose time has not run
	// out. They count with what this cluster still has of them: absent is not empty.
	Silent []string
	// SilentExpired are the silent peers whose time has run out. They count for the import, but no
	// longer for its endpoints (C22, C39).
	SilentExpired []string
	// SilentAssumed are those of SilentExpired whose existing endpoints stay if no other cluster has a
	// ready one, because nothing proves that the cluster is dead.
	SilentAssumed []string
	// Probes means that this process can connect to endpoints of other clusters.
	Probes bool
	// Checked are the endpoints of other clusters that this process connects to all the time, by
	// cluster, and whether each of them fails.
	Checked map[string]map[datapath.Target]bool
	// Vacant are the clusters that have the ServiceExport but not its Service (in this cluster,
	// also if the Service has no slices yet), or that have deleted the ServiceExport, if this was
	// different a short time ago: the object is being replaced. They count with what they had: absent is not empty.
	Vacant []string
	// Export is this cluster's ServiceExport, or nil if there is none.
	Export *mcsv1beta1.ServiceExport
	// Unselected means that this cluster does not export from the namespace.
	Unselected bool
	// Namespace reports whether this cluster has the namespace and does not delete it (C20, C21).
	Namespace bool
	// MaxEndpoints is the maximum number of endpoints in a slice of the controller.
	MaxEndpoints int
}

// Native is what this cluster has under the own name of an import.
type Native struct {
	// Allowed means that an export of any cluster can ask for the name in this namespace.
	Allowed bool
	// Service is the Service with the import's own name, or nil if there is none.
	Service *corev1.Service
	// Slices are the EndpointSlices of that Service that the controller attached, and Local are the
	// other ones.
	Slices, Local []*discoveryv1.EndpointSlice
	// Vacant is how long the name is left alone, because a user's Service was deleted a moment ago.
	Vacant time.Duration
}

// Leak describes endpoints that kube-proxy can still use although they are gone: those of a slice
// that belonged to a derived Service and has lost the label since, or is deleted.
type Leak struct {
	Slice   string
	Service string
	Type    discoveryv1.AddressType
}

// State is the input of one plan. The objects belong to a cache: the plan copies an object before
// it edits it.
type State struct {
	// Namespace and Name are those of the import, whether it exists or not.
	Namespace, Name string
	// Clusterset is what the clusterset reports of the name. It is nil if this cluster is in none.
	Clusterset *Clusterset
	// Import is the ServiceImport, or nil if there is none.
	Import *mcsv1beta1.ServiceImport
	// Answered means that Import is an answer of the API server to a write of this pass, not from a cache.
	Answered bool
	// Former is the record of the addresses that an import of this name had, which was deleted a moment
	// ago. It is empty if there was none, or if the import has a record of its own.
	Former string
	// Service is the Service with the import's derived name, or nil if there is none.
	Service *corev1.Service
	// Owned are the Services of any name that the controller created for this import.
	Owned []*corev1.Service
	// Slices are the EndpointSlices with the import's name in
	// multicluster.kubernetes.io/service-name.
	Slices []*discoveryv1.EndpointSlice
	// UnexpectedSlices are the EndpointSlices that belong to the Service with the derived name and have
	// no import's name, or that of another import. Karmada's slices are such ones, also if there is no
	// such Service.
	UnexpectedSlices []*discoveryv1.EndpointSlice
	// Leaks are what kube-proxy can still have of slices that belonged to the derived Service.
	Leaks []Leak
	// AddressHolders are the Services, of any namespace, whose ClusterIP is one of the import's
	// ips, or one of its last ips. Other Services do not matter.
	AddressHolders []*corev1.Service
	// CRD describes the fields of the API server's ServiceImport.
	CRD CRD
	// Refused is what the API server has refused since the state was read.
	Refused Refused
	// Native is what belongs to the import's own name. It is nil if this cluster is in no clusterset.
	Native *Native
	// Contested are the fields that another writer keeps setting back. They are not written at
	// present.
	Contested contested.Fields
	// ReadyByOthers means that another writer has set the import's condition Ready.
	ReadyByOthers bool
	Memory
	// KeepTrying means that it is too early to give up the recorded addresses. The API server
	// releases the address of a deleted Service a moment after the Service is gone, and refuses it
	// until then.
	KeepTrying bool
	// LastReady is the last condition Ready. It is used if the CRD has no conditions.
	LastReady metav1.Condition
	// Now is the time of this plan. It is written to lastTransitionTime.
	Now metav1.Time
}

// Memory is what a plan leaves for the next plan of the name.
type Memory struct {
	// Preference and NativePreference are the choices between the clusters, for the clusterset's name and
	// for the own name.
	Preference, NativePreference preference.Memory
	// Copies are what is needed to leave unchanged slices alone.
	Copies digest.Copies
}

// Sooner returns the shorter of two times, of which 0 means never.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// CRD describes the fields of the served version of the ServiceImport CRD. The API server prunes
// other fields, so they would be written in every pass.
type CRD struct {
	// APIVersion is the served group and version, as in an ownerReference.
	APIVersion string
	// MaxIPs is the maximum number of ips: 2 in mcs-api (C26), 1 in Karmada's CRD (K10).
	MaxIPs int
	// IPFamilies, Conditions and EndpointSliceObjects report whether spec.ipFamilies,
	// status.conditions and status.endpointSliceObjects exist.
	IPFamilies, Conditions, EndpointSliceObjects bool
	// Policies reports whether spec.internalTrafficPolicy and spec.trafficDistribution exist. Both
	// were added together.
	Policies bool
}

// Target is an object that the API server has refused. The import has no name.
type Target struct{ Kind, Name string }

// The kinds of Target.
const (
	Import  = "ServiceImport"
	Service = "Service"
	Slice   = "EndpointSlice"
)

// Refused are the refusals of each object, in their order: one for each fault of each attempt.
type Refused map[Target][]Refusal

// Import returns why the API server refused the import, or "".
func (r Refused) Import() string { return r.first(Target{Kind: Import}) }

// Slice returns why the API server refused a slice of the controller, or "".
func (r Refused) Slice(name string) string { return r.first(Target{Slice, name}) }

// Service returns what the API server refused of a Service.
func (r Refused) Service(name string) []Refusal { return r[Target{Service, name}] }

func (r Refused) first(of Target) string {
	if len(r[of]) == 0 {
		return ""
	}
	return r[of][0].Message
}

// Refusal is a fault that the API server found in a write.
type Refusal struct {
	// Field is the first field that the API server named, such as spec.clusterIPs or
	// spec.ports[1].name. It is empty if the API server named none.
	Field string
	// Message is the API server's message.
	Message string
}
