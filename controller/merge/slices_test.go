package merge_test

import (
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// asElsewhere removes what only the own cluster's slices contain: node names and hints for nodes,
// and the annotation with the hidden ports.
func asElsewhere(all []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	var bare []*discoveryv1.EndpointSlice
	for _, slice := range all {
		slice = slice.DeepCopy()
		delete(slice.Annotations, mcs.AnnotationHiddenPorts)
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			e.NodeName = nil
			if e.Hints != nil {
				e.Hints.ForNodes = nil
			}
			if e.Hints != nil && e.Hints.ForZones == nil {
				e.Hints = nil
			}
		}
		bare = append(bare, slice)
	}
	return bare
}

// checkSlices checks that each slice is of one cluster, which exports and is in the label (C32 to
// C35), that no endpoint is lost or duplicated, and that the slices have exactly the ports that the
// cluster's Service exposes in the same way as the import (C14).
func checkSlices(t *testing.T, merged merge.Merged, all []merge.Member, mirrored []*discoveryv1.EndpointSlice) {
	t.Helper()
	if !slices.IsSortedFunc(mirrored, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
	var want, got []string
	byID := map[string]merge.Member{}
	for _, m := range all {
		byID[m.Cluster] = m
		if m.Exports() {
			want = append(want, endpointsOf(m.Slices)...)
		}
	}
	for _, slice := range mirrored {
		cluster := slice.Labels[mcsv1beta1.LabelSourceCluster]
		if !slices.Contains(merged.Clusters, cluster) {
			t.Errorf("%s is of %q, which does not export", slice.Name, cluster)
			continue
		}
		equal(t, "labels", slice.Labels, map[string]string{
			mcsv1beta1.LabelServiceName: demo.Name, mcsv1beta1.LabelSourceCluster: cluster, discoveryv1.LabelManagedBy: mcs.ControllerName,
		})
		if faults := validation.IsDNS1123Subdomain(slice.Name); len(faults) > 0 || !strings.HasPrefix(slice.Name, demo.Name+"."+cluster+".ipv") {
			t.Errorf("a slice of %s is called %q", cluster, slice.Name)
		}
		for _, address := range endpointsOf([]*discoveryv1.EndpointSlice{slice}) {
			if !strings.HasPrefix(address, cluster+"/") {
				t.Errorf("%s of %s has %s", slice.Name, cluster, address)
			}
			got = append(got, address)
		}
		if len(slice.Endpoints) > 4 {
			t.Errorf("%s has %d endpoints", slice.Name, len(slice.Endpoints))
		}
		checkPorts(t, merged, byID[cluster], slice)
	}
	slices.Sort(want)
	slices.Sort(got)
	equal(t, "endpoints", got, want)
}

func checkPorts(t *testing.T, merged merge.Merged, m merge.Member, slice *discoveryv1.EndpointSlice) {
	t.Helper()
	for _, exposed := range m.Service.Ports {
		agreed := slices.ContainsFunc(merged.Ports, func(p mcsv1beta1.ServicePort) bool {
			return p.Name == exposed.Name && p.Protocol == exposed.Protocol && p.Port == exposed.Port
		})
		led := slices.ContainsFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
			return *p.Name == exposed.Name && *p.Protocol == exposed.Protocol && *p.Port == exposed.Port+8000
		})
		if agreed != led {
			t.Errorf("%s: port %d/%s %q has endpoints: %v, is the import's: %v", slice.Name, exposed.Port, exposed.Protocol, exposed.Name, led, agreed)
		}
	}
}

func endpointsOf(all []*discoveryv1.EndpointSlice) []string {
	var addresses []string
	for _, slice := range all {
		for _, e := range slice.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
	}
	return addresses
}
