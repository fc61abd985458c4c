package desired

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// Desired is what belongs to one name as it should be. The zero value leaves everything as it is.
type Desired struct {
	// Withdrawn: no cluster exports the name, so an import of ours is deleted, with its slices.
	Withdrawn bool
	// Import is the import as it should be; nil where it stays as it is.
	Import *mcsv1beta1.ServiceImport
	// ImportFirst: all else rests on the import, which the API server may refuse.
	ImportFirst bool
	// Service is the derived Service as it should be; nil where it stays as it is, or there is to be none.
	Service *corev1.Service
	// ServiceStatus is that Service with the user's addresses in its status; nil where that stays as it is.
	ServiceStatus *corev1.Service
	// Delete are Services of ours that have to go, sorted by name.
	Delete []*corev1.Service
	// Exclusive: nothing but the import's slices may belong to the derived Service.
	Exclusive bool
	// Slices are the import's.
	Slices Slices
	// Status is the part of the import's status that the clusterset gives; nil for none.
	Status *ImportStatus
	// Ready is the import's condition, once nothing is missing.
	Ready Ready
	// Notes are on what is left out, beside those of Ready.
	Notes []string
	// Events are emitted with the import's edit.
	Events []Event
	// YieldsIPs is true where ips are left to another writer for now.
	YieldsIPs bool
	// Retry is true where the world may change without any object telling us (a quota, an address range).
	Retry bool
	// RetryAddress is true where the recorded addresses were refused and are to be asked for again.
	RetryAddress bool
	// Merged is what the exports of the name give together, and Held is true where it is not known of some cluster.
	Merged merge.Merged
	Held   bool
}

// Slices are those of ours that an import should have. The zero value leaves all as they are.
type Slices struct {
	// Service is the name of the Service that they belong to; empty for none.
	Service string
	// Home is this cluster's id; empty in no clusterset.
	Home string
	// Wanted have their final names and labels, sorted by name.
	Wanted []*discoveryv1.EndpointSlice
	// Awaited is the cluster whose slice is kept, whatever it holds, with the labels and the Service that it should have; empty for none.
	Awaited func(*discoveryv1.EndpointSlice) string
	// Complete: what is neither wanted nor awaited goes.
	Complete bool
}

// ownSlices are the slices of an import of ours. Slices of a silent cluster stay.
func ownSlices(b builder) Slices {
	s := Slices{Service: b.sliceService(), Home: b.homeID(), Awaited: b.awaited, Complete: true}
	s.Wanted = ImportedSlices(b.Clusterset.Home, types.NamespacedName{Namespace: b.Namespace, Name: b.Name}, b.merged, b.members, b.Clusterset.MaxEndpoints)
	for _, want := range s.Wanted {
		s.Associate(b.name(), want)
	}
	return s
}

// keptAlone are the slices of an import of ours while this cluster is in no clusterset: what there is stays.
func keptAlone(b builder) Slices {
	return Slices{Service: b.sliceService(), Home: b.homeID(), Awaited: func(slice *discoveryv1.EndpointSlice) string {
		if !ownership.SliceIsOurs(slice, b.Import) {
			return ""
		}
		return slice.Labels[mcsv1beta1.LabelSourceCluster]
	}}
}

// awaited is the cluster that a slice came from, if that is silent, or if it is this one and its Service is being replaced; otherwise
// empty.
func (b builder) awaited(slice *discoveryv1.EndpointSlice) string {
	waiting := b.Clusterset.Silent
	if home := b.Clusterset.Home; slices.Contains(b.Clusterset.Vacant, home) {
		waiting = append(slices.Clone(waiting), home)
	}
	for _, cluster := range waiting {
		if ownership.SliceIsFrom(cluster, slice, b.Import) {
			return cluster
		}
	}
	return ""
}

// setImport is the import as edited, without what is left to another writer for now. nil and empty are the same: neither is written.
func (d *Desired) setImport(b builder, edited *mcsv1beta1.ServiceImport) {
	old := b.Import
	switch sameIPs := slices.Equal(old.Spec.IPs, edited.Spec.IPs); {
	case !sameIPs && b.Contested.HoldsIPs(edited.Spec.IPs):
		edited.Spec.IPs, edited.Spec.IPFamilies = old.Spec.IPs, old.Spec.IPFamilies
		d.YieldsIPs = true
	case sameIPs && !slices.Equal(old.Spec.IPFamilies, edited.Spec.IPFamilies) && b.Contested.HoldsIPFamilies(edited.Spec.IPFamilies):
		edited.Spec.IPFamilies = old.Spec.IPFamilies
		d.Notes = append(d.Notes, b.Contested.Note(contested.FieldIPFamilies))
	}
	b.Contested.YieldMetadata(old, edited)
	d.Import = edited
}
