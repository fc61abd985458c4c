package desired

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// Desired is the desired state of everything that belongs to one name. The zero value leaves
// everything unchanged.
type Desired struct {
	// Withdrawn means that no cluster exports the name. An import that the controller owns is then
	// deleted with its slices.
	Withdrawn bool
	// Import is the desired import. nil leaves it unchanged.
	Import *mcsv1beta1.ServiceImport
	// ImportFirst means that everything else depends on the import, which the API server can
	// refuse.
	ImportFirst bool
	// Service is the desired derived Service. nil leaves it unchanged, or means that there must be
	// none.
	Service *corev1.Service
	// ServiceStatus is that Service with the user's addresses in its status. nil leaves the status
	// unchanged.
	ServiceStatus *corev1.Service
	// Delete are the controller's Services to delete, sorted by name.
	Delete []*corev1.Service
	// Exclusive means that only the import's slices can belong to the derived Service.
	Exclusive bool
	// Slices are the desired slices of the import.
	Slices Slices
	// Status is the part of the import's status that comes from the clusterset. nil means none.
	Status *ImportStatus
	// Ready is the import's condition when no other write is missing.
	Ready Ready
	// Notes describe what is left out, in addition to the notes of Ready.
	Notes []string
	// Events are emitted with the edit of the import.
	Events []Event
	// HeldIPs is the text of the wanted ips, if ips are left to another writer at present.
	HeldIPs string
	// Kept are the clusters whose endpoints stay although they are assumed to be dead, sorted.
	Kept []string
	// Checked are the endpoints of other clusters that are connected to all the time.
	Checked Checked
	// Preferred is the choice between the clusters.
	Preferred Preferred
	// Native is what belongs to the import's own name.
	Native Native
	// Merged is the merge of all exports of the name. Held means that the export of some cluster is
	// not known.
	Merged merge.Merged
	Held   bool
}

// Slices are the slices of the controller that an import should have. The zero value leaves all
// slices unchanged.
type Slices struct {
	// Service is the name of the Service that the slices belong to, or empty for none.
	Service string
	// Home is this cluster's ID, or empty if it is in no clusterset.
	Home string
	// Wanted have their final names and labels, and are sorted by name.
	Wanted []*discoveryv1.EndpointSlice
	// Copies are the digests of the wanted slices of other clusters, for the next plan. contents
	// belong to the same slices: see Fill.
	Copies   digest.Copies
	contents map[*discoveryv1.EndpointSlice]content
	// Awaited returns the cluster of a slice that is kept with whatever content it has; only its
	// labels and its Service are corrected. It returns "" for any other slice.
	Awaited func(*discoveryv1.EndpointSlice) string
	// Standby returns whether a slice should be on standby. The wanted slices are already as they
	// should be. Disconnect means that kube-proxy must not use the endpoints of such a slice as
	// before, and Reserve that it uses those of the next clusters if nothing else is ready. Standby is
	// nil if awaited slices stay as they are.
	Standby             func(*discoveryv1.EndpointSlice) preference.Standby
	Disconnect, Reserve bool
	// Complete means that all slices that are neither wanted nor awaited are deleted.
	Complete bool
}

// ownSlices returns the slices of an import that the controller owns. Slices of a silent cluster
// stay.
func ownSlices(b builder) Slices {
	s := Slices{Service: b.sliceService(), Home: b.homeID(), Awaited: b.awaited, Complete: true}
	m := newSliceBuilder(b.Clusterset.Home, types.NamespacedName{Namespace: b.Namespace, Name: b.Name}, b.merged, b.Clusterset.MaxEndpoints)
	// A choice between clusters counts and edits the endpoints of the slices.
	if len(b.policy().Entries) == 0 {
		m.reuse(b.Copies)
	}
	s.Wanted = m.of(b.members)
	s.Copies, s.contents = m.copies, m.contents
	s.Associate(b.name(), s.Wanted...)
	return s
}

// content is what a slice contains. fill is nil if the slice contains it already.
type content struct {
	digest digest.Digest
	fill   func()
}

// Digest returns the digest of a wanted slice.
func (s Slices) Digest(slice *discoveryv1.EndpointSlice) digest.Digest {
	if c, known := s.contents[slice]; known {
		return c.digest
	}
	return digest.Of(slice)
}

// Fill gives a wanted slice its endpoints and ports, if it lacks them: Digest is all that is
// needed of a slice that is not written.
func (s Slices) Fill(slice *discoveryv1.EndpointSlice) {
	if fill := s.contents[slice].fill; fill != nil {
		fill()
	}
}

// keptAlone returns the slices of an import that the controller owns, for a cluster that is in no
// clusterset: the existing slices stay.
func keptAlone(b builder) Slices {
	return Slices{Service: b.sliceService(), Home: b.homeID(), Awaited: func(slice *discoveryv1.EndpointSlice) string {
		if !ownership.SliceIsOurs(slice, b.Import) {
			return ""
		}
		return slice.Labels[mcsv1beta1.LabelSourceCluster]
	}}
}

// awaited returns the cluster that a slice came from, if that cluster is silent, or if its Service is
// being replaced, or its slices are. Otherwise it returns "".
func (b builder) awaited(slice *discoveryv1.EndpointSlice) string {
	waiting := slices.Concat(b.Clusterset.Silent, b.Clusterset.Vacant)
	for _, cluster := range b.Clusterset.SilentAssumed {
		if slices.Contains(b.kept, cluster) {
			waiting = append(waiting, cluster)
		}
	}
	for _, cluster := range waiting {
		if ownership.SliceIsFrom(cluster, slice, b.Import) {
			return cluster
		}
	}
	return ""
}

// setImport sets the edited import, without the fields that are left to another writer at present.
func (d *Desired) setImport(b builder, edited *mcsv1beta1.ServiceImport) {
	left, held := contested.Without(b.Contested, b.Import, edited)
	for _, field := range held {
		if field.IPs() {
			d.HeldIPs = fmt.Sprintf("%q", edited.Spec.IPs)
		}
	}
	d.Import, d.Notes = left, append(d.Notes, b.heldNotes(held)...)
}

// heldNotes returns the notes on fields that are left to another writer at present. Labels and annotations
// have none, and ips have a reason of their own.
func (b builder) heldNotes(held []contested.Field) (notes []string) {
	for _, field := range held {
		if !field.InMetadata() && !field.IPs() {
			notes = append(notes, b.Contested.Note(field))
		}
	}
	return notes
}
