package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// sliceSync compares the desired slices of the controller for one Service with the existing slices.
type sliceSync struct {
	st       observed.State
	existing []*discoveryv1.EndpointSlice
	desired  desired.Slices
	have     map[string]*discoveryv1.EndpointSlice
	wanted   map[string]bool
	renewed  map[string]bool // those that have to be deleted before they can be created again
	changes  *Changes
}

func (c *Changes) ofSlices(st observed.State, d desired.Slices) {
	s := c.syncSlices(st, st.Slices, d)
	// If another controller made the Service, that controller repairs the leaks.
	if ownership.OfImport(st.Import) || ownership.KindOf(st.Import, st.Service) == ownership.Ours {
		c.Repair = s.leaked()
	}
}

// syncSlices plans the writes for the slices of one Service.
func (c *Changes) syncSlices(st observed.State, existing []*discoveryv1.EndpointSlice, d desired.Slices) *sliceSync {
	s := &sliceSync{
		st: st, existing: existing, desired: d, have: make(map[string]*discoveryv1.EndpointSlice, len(existing)), wanted: map[string]bool{},
		renewed: map[string]bool{}, changes: c,
	}
	for _, slice := range existing {
		s.have[slice.Name] = slice
	}
	for _, want := range d.Wanted {
		s.add(want)
	}
	if d.Complete {
		s.deleteRest(d.Awaited)
	}
	if d.Awaited != nil {
		s.keepAwaited(d.Awaited)
	}
	return s
}

// add plans the writes for one desired slice, which has its final name and labels.
func (s *sliceSync) add(want *discoveryv1.EndpointSlice) {
	s.wanted[want.Name] = true
	old := s.have[want.Name]
	switch {
	case s.refused(want):
	case old == nil:
		s.desired.Fill(want)
		ownSlice(want, s.st)
		s.changes.CreateSlices = append(s.changes.CreateSlices, want)
	case old.DeletionTimestamp != nil: // It is created again when it is gone.
	case !ownership.SliceIsOurs(old, s.st.Import):
		s.changes.Notes = append(s.changes.Notes, leftOut(want, "an EndpointSlice of the name "+want.Name+" exists and the controller does not own it: delete it"))
	case ownership.Misassociated(old, s.desired.Service):
		s.wanted[want.Name], s.renewed[want.Name] = false, true
	case s.hasAll(old, want):
	default:
		s.desired.Fill(want)
		edited := digest.Without(ownership.Overlay(old, want))
		ownSlice(edited, s.st)
		s.changes.UpdateSlices = append(s.changes.UpdateSlices, Edit[*discoveryv1.EndpointSlice]{old, edited})
	}
}

// hasAll reports whether an existing slice is as desired. Most slices are, whenever one changes.
func (s *sliceSync) hasAll(old, want *discoveryv1.EndpointSlice) bool {
	return ownership.Covers(old, want) && digest.Of(old) == s.desired.Digest(want) &&
		ownership.HasOwner(old.OwnerReferences, s.st.Import, s.st.CRD.APIVersion)
}

// connects is 1 for an edit that takes a slice from standby, otherwise 0.
func connects(edit Edit[*discoveryv1.EndpointSlice]) int {
	if preference.OnStandby(edit.Old) && !preference.OnStandby(edit.New) {
		return 1
	}
	return 0
}

// refused reports whether the API server has refused the desired slice. It adds a note, and nothing
// waits for the slice.
func (s *sliceSync) refused(slice *discoveryv1.EndpointSlice) bool {
	reason := s.st.Refused.Slice(slice.Name)
	if reason != "" {
		s.changes.Notes = append(s.changes.Notes, leftOut(slice, reason))
		s.desired.Fill(slice)
		s.changes.RefusedSlices = append(s.changes.RefusedSlices, slice)
	}
	return reason != ""
}

// deleteRest plans the deletion of the controller's slices that are not wanted, except those that
// must be kept.
func (s *sliceSync) deleteRest(awaited func(*discoveryv1.EndpointSlice) string) {
	rest := slices.DeleteFunc(ourSlices(s.existing, s.st.Import), func(slice *discoveryv1.EndpointSlice) bool {
		return slice.DeletionTimestamp == nil && (s.wanted[slice.Name] || awaited != nil && awaited(slice) != "") || s.refused(slice)
	})
	s.changes.DeleteSlices = append(s.changes.DeleteSlices, rest...)
}

// keepAwaited restores the labels of slices that wait for their cluster, if other users have edited
// them, and moves slices that belong to another Service by now. It changes nothing else, because
// only the cluster itself knows the content of such a slice.
func (s *sliceSync) keepAwaited(clusterOf func(*discoveryv1.EndpointSlice) string) {
	for _, slice := range s.existing {
		cluster := clusterOf(slice)
		switch {
		case cluster == "" || slice.DeletionTimestamp != nil || s.wanted[slice.Name]: // a cluster that is about to be gone still has its own
		case s.refused(slice):
		case ownership.Misassociated(slice, s.desired.Service):
			s.changes.MoveSlices = append(s.changes.MoveSlices, Move{slice, s.desired.NameOf(slice.Name), s.desired.Service})
		default:
			s.keep(slice, cluster)
		}
	}
	slices.SortFunc(s.changes.MoveSlices, func(a, b Move) int { return cmp.Compare(a.Slice.Name, b.Slice.Name) })
	slices.SortFunc(s.changes.KeepSlices, func(a, b Keep) int { return cmp.Compare(a.Slice.Name, b.Slice.Name) })
}

// leaked returns the leaks that are not repaired by a slice of the controller with the label. An empty slice in the place of one that
// is created again would stop the traffic until then.
func (s *sliceSync) leaked() []observed.Leak {
	return slices.DeleteFunc(slices.Clone(s.st.Leaks), func(l observed.Leak) bool {
		have := s.have[l.Slice]
		return l.Service == s.desired.Service && (s.wanted[l.Slice] || s.renewed[l.Slice]) ||
			have != nil && have.Labels[discoveryv1.LabelServiceName] == l.Service && have.AddressType == l.Type
	})
}

// ownSlice makes the import the owner of the slice, so that both are deleted together (C36).
func ownSlice(slice *discoveryv1.EndpointSlice, st observed.State) {
	slice.OwnerReferences = ownership.WithOwner(slice.OwnerReferences, st.Import, st.CRD.APIVersion)
}

// ourSlices returns the controller's slices, except those that are about to be gone. A slice that
// is being deleted and has a finalizer is included: it would otherwise stay, with any endpoints
// that another user gives it.
func ourSlices(all []*discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport) []*discoveryv1.EndpointSlice {
	var ours []*discoveryv1.EndpointSlice
	for _, slice := range all {
		if ownership.SliceIsOurs(slice, imp) && (slice.DeletionTimestamp == nil || len(slice.Finalizers) > 0) {
			ours = append(ours, slice)
		}
	}
	slices.SortFunc(ours, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return ours
}

// keep plans to restore the labels of a cluster's slice that another user has edited, and to put it on standby,
// or to take it from it.
func (s *sliceSync) keep(slice *discoveryv1.EndpointSlice, cluster string) {
	k := Keep{slice, maps.Clone(slice.Labels), preference.StandbyOf(slice), s.desired.Disconnect}
	k.Labels[discoveryv1.LabelManagedBy], k.Labels[mcsv1beta1.LabelSourceCluster] = mcs.ControllerName, cluster
	if s.desired.Service != "" {
		k.Labels[discoveryv1.LabelServiceName] = s.desired.Service
	}
	for _, key := range mcs.ProxyLabels {
		delete(k.Labels, key)
	}
	if s.desired.Standby != nil {
		k.Standby = s.desired.Standby(slice)
	}
	if k.Standby != preference.StandbyOf(slice) || !maps.Equal(slice.Labels, k.Labels) {
		s.changes.KeepSlices = append(s.changes.KeepSlices, k)
	}
}

// leftOut returns a note on a slice. A copy of another owner's slice has no source cluster.
func leftOut(slice *discoveryv1.EndpointSlice, reason string) string {
	return fmt.Sprintf("endpoints of %s: %s", cmp.Or(slice.Labels[mcsv1beta1.LabelSourceCluster], "EndpointSlice "+slice.Name), brief.ClipTo(200, reason))
}
