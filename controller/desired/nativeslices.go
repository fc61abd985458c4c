package desired

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// defaultPreference is for an own name without a list of clusters: its clients go on as before while
// one endpoint of their own cluster is ready.
const defaultPreference = "local, any"

// attached returns the slices to attach, as the choice between the clusters connects them. svc is
// the user's Service, or nil. notes describe the ports that svc lacks.
func (b builder) attached(svc *corev1.Service) (n Native, notes []string) {
	n.Slices, notes = b.nativeSlices(svc)
	own := b
	own.Slices, own.Preference = b.Native.Slices, b.NativePreference
	c := own.clustersOf(n.Slices)
	if svc != nil { // Otherwise they are what a deleted Service has left behind, and are evicted.
		c.addLocal(b.Native.Local)
	}
	n.Preferred = own.choose(&n.Slices, nativePolicy(preference.Read(b.Import.Annotations), b.merged.Preference), c)
	n.Again = n.Preferred.Choice.Again
	return n, notes
}

// nativePolicy returns the policy of an own name.
func nativePolicy(ofImport, ofExport preference.Texts) preference.Policy {
	p := preference.Resolve(ofImport, ofExport)
	if len(p.Entries) == 0 {
		p.Entries = preference.Resolve(preference.Texts{Clusters: defaultPreference}, preference.Texts{}).Entries
	}
	return p
}

// nativeSlices returns the slices to attach to the Service with the own name: one for each slice of
// another cluster. Kubernetes changes the Service's own endpoints without the controller. The next
// clusters are therefore in reserve: kube-proxy uses them at the moment at which the last local
// endpoint is no longer ready, and the controller follows.
func (b builder) nativeSlices(svc *corev1.Service) (s Slices, notes []string) {
	s = Slices{Service: b.Name, Home: b.homeID(), Awaited: b.awaited, Disconnect: true, Reserve: svc != nil, Complete: true}
	others := slices.DeleteFunc(slices.Clone(b.members), func(m merge.Member) bool { return m.Cluster == s.Home })
	m := &sliceBuilder{
		home: s.Home, name: b.name(), merged: b.merged, most: b.Clusterset.MaxEndpoints, service: svc, wanted: map[string]*discoveryv1.EndpointSlice{},
	}
	switch {
	case svc != nil:
		m.merged.Distribution = distributionOf(svc)
		notes = missingPorts(svc, others)
	case b.merged.Type == mcsv1beta1.ClusterSetIP:
		m.alias = aliasOfUnnamed(b.merged.Ports)
	}
	for _, slice := range m.of(others) {
		if svc != nil && len(svc.Spec.Ports) > 0 && len(slice.Ports) == 0 {
			continue // kube-proxy would not use it, and DNS would return its addresses.
		}
		for i := range slice.Endpoints {
			if svc != nil { // DNS would give the pods db-0 of two clusters one name.
				slice.Endpoints[i].Hostname = nil
			}
		}
		delete(slice.Labels, mcsv1beta1.LabelServiceName)
		slice.Labels[mcs.LabelNativeOf] = b.Name
		s.Associate(b.name(), slice)
		s.Wanted = append(s.Wanted, slice)
	}
	slices.SortFunc(s.Wanted, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return s, notes
}

func distributionOf(svc *corev1.Service) string {
	if svc.Spec.TrafficDistribution == nil {
		return ""
	}
	return *svc.Spec.TrafficDistribution
}

func hasPort(svc *corev1.Service, name string, protocol corev1.Protocol) bool {
	return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == name && p.Protocol == protocol })
}

// missingPorts returns notes on the ports of other clusters that a user's Service lacks.
func missingPorts(svc *corev1.Service, others []merge.Member) []string {
	var notes []string
	for _, m := range others {
		if !m.Exports() {
			continue
		}
		for _, p := range m.Service.Ports {
			if len(svc.Spec.Ports) == 0 || hasPort(svc, p.Name, p.Protocol) {
				continue
			}
			note := fmt.Sprintf("port %q (%s) of other clusters: Service %s has no port of this name and protocol", brief.Clip(p.Name), p.Protocol, svc.Name)
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	return notes
}
