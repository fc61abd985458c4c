package desired

import (
	"slices"
	"strings"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// ImportStatus is the part of an import's status that comes from the clusterset.
type ImportStatus struct {
	Clusters []string
	Slices   mcsv1beta1.EndpointSliceObjectsStatus
}

// sharedStatus returns the exporting clusters (C28) and whether the import has slices (C29).
func sharedStatus(b builder) *ImportStatus {
	s := &ImportStatus{Clusters: slices.Clone(b.merged.Clusters), Slices: mcsv1beta1.EndpointSliceObjectsAbsent}
	for _, cluster := range b.missing {
		if !slices.Contains(s.Clusters, cluster) {
			s.Clusters = append(s.Clusters, cluster)
		}
	}
	slices.Sort(s.Clusters)
	if len(b.Slices) > 0 {
		s.Slices = mcsv1beta1.EndpointSliceObjectsPresent
	}
	return s
}

// Write sets the status on an import, as far as the CRD contains the fields.
func (s *ImportStatus) Write(status *mcsv1beta1.ServiceImportStatus, crd observed.CRD) {
	if s == nil {
		return
	}
	status.Clusters = nil
	for _, cluster := range s.Clusters {
		status.Clusters = append(status.Clusters, mcsv1beta1.ClusterStatus{Cluster: cluster})
	}
	if crd.EndpointSliceObjects {
		status.EndpointSliceObjects = s.Slices
	}
}

// othersSlices returns a note on slices that have the import's name and that the controller does
// not own. No Service uses them.
func (b builder) othersSlices() []string {
	var names []string
	for _, slice := range b.Slices {
		if !ownership.SliceIsOurs(slice, b.Import) {
			names = append(names, slice.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{"EndpointSlices that " + mcs.ControllerName + " does not manage: " + brief.ClipTo(200, strings.Join(names, ", "))}
}
