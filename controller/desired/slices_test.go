package desired_test

import (
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

func endpointsOf(all []*discoveryv1.EndpointSlice) []string {
	var addresses []string
	for _, slice := range all {
		for _, e := range slice.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
	}
	return addresses
}

func sliceOf(name, address string, labels map[string]string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: labels},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}
}

// A peer chooses the names and labels of its slices. They only affect the slices of that peer
// (C32).
func TestHostilePeer(t *testing.T) {
	exported := &merge.Export{Created: noon}
	atHome := map[string]string{discoveryv1.LabelServiceName: demo.Name}
	atPeer := map[string]string{mcsv1beta1.LabelServiceName: demo.Name}
	home := merge.Member{Cluster: "a", Export: exported, Service: terms(), Slices: []*discoveryv1.EndpointSlice{sliceOf("demo-1", "10.1.0.1", atHome)}}
	honest := merge.Member{Cluster: "b.c", Export: exported, Service: terms(), Slices: []*discoveryv1.EndpointSlice{sliceOf("demo.b.c.ipv4-0123456789", "10.2.0.1", atPeer)}}
	members := []merge.Member{home, honest}
	clean := desired.ImportedSlices("a", demo, merge.Merge(members), members, 100)
	equal(t, "slices without it", len(clean), 2)

	hostile := merge.Member{Cluster: "b", Export: exported, Service: terms()}
	for _, name := range []string{
		clean[0].Name, clean[1].Name, // The names of the others' slices.
		"demo.b.c.ipv4-9999999999", "demo.b.ipv6-0123456789", "demo.b.ipv4-012345678g", "demo.b.ipv4-01234567890", "demo.b.ipv4-", "demo.b.ipv4-01234.6789",
		"another.b.ipv4-0123456789", "kubernetes", "", strings.Repeat("x", 1000), "../../x", "demo.B.ipv4-0123456789",
		"demo.b.ipv4-0123456789", // The only name that is valid for this peer.
	} {
		hostile.Slices = append(hostile.Slices, sliceOf(name, "10.66.0.1", atPeer))
	}
	replaced := desired.ImportedSlices("a", demo, merge.Merge(members), []merge.Member{{Cluster: "b", Export: exported, Service: terms(),
		Slices: []*discoveryv1.EndpointSlice{sliceOf("kubernetes", "10.66.0.1", atPeer)}}}, 100)[0].Name
	count := len(hostile.Slices)
	hostile.Slices = append(hostile.Slices,
		sliceOf(replaced, "10.66.0.2", atPeer), // The name that replaces "kubernetes".
		sliceOf("demo.b.ipv4-aaaaaaaaaa", "10.66.0.3", map[string]string{mcsv1beta1.LabelServiceName: "another"}),
		sliceOf("demo.b.ipv4-bbbbbbbbbb", "10.66.0.4", atHome),
		sliceOf("demo.b.ipv4-cccccccccc", "10.66.0.5", nil))

	members = append(members, hostile)
	var theirs, others []*discoveryv1.EndpointSlice
	for _, slice := range desired.ImportedSlices("a", demo, merge.Merge(members), members, 100) {
		if slice.Labels[mcsv1beta1.LabelSourceCluster] != "b" {
			others = append(others, slice)
			continue
		}
		theirs = append(theirs, slice)
		if hash, ok := strings.CutPrefix(slice.Name, "demo.b.ipv4-"); !ok || !ownership.IsHash(hash) {
			t.Errorf("a slice of b is called %q", slice.Name)
		}
	}
	equal(t, "slices of the others", others, clean)
	shown := desired.ImportedSlices("a", demo, merge.Merge(members), members, 100)
	slices.Reverse(hostile.Slices)
	equal(t, "slices, in another order", desired.ImportedSlices("a", demo, merge.Merge(members), members, 100), shown)
	equal(t, "slices of the hostile peer", len(theirs), count)
	kept := slices.ContainsFunc(theirs, func(s *discoveryv1.EndpointSlice) bool { return s.Name == "demo.b.ipv4-0123456789" })
	equal(t, "the name that is its own is kept", kept, true)
	for _, address := range []string{"10.66.0.3", "10.66.0.4", "10.66.0.5"} {
		equal(t, "slices of another Service", slices.Contains(endpointsOf(theirs), address), false)
	}
}

// The longest names fit. A name that cannot be a label value has no slices (C33, C34). Without a
// limit, no slice is split.
func TestSliceNames(t *testing.T) {
	source := sliceOf(strings.Repeat("s", 253), "10.1.0.1", nil)
	for _, test := range []struct {
		name, service, cluster string
		slices                 int
	}{
		{"the longest Service in the longest cluster", strings.Repeat("s", 63), strings.Repeat("c", 63), 1},
		{"a cluster id of several labels (C45)", "demo", "eu.west.1", 1},
		{"a name that is too long for a label", strings.Repeat("s", 64), "c", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			source.Labels = map[string]string{discoveryv1.LabelServiceName: test.service}
			members := []merge.Member{{Cluster: test.cluster, Export: &merge.Export{Created: noon}, Service: terms(), Slices: []*discoveryv1.EndpointSlice{source}}}
			mirrored := desired.ImportedSlices(test.cluster, types.NamespacedName{Namespace: "shop", Name: test.service}, merge.Merge(members), members, 0)
			equal(t, "slices", len(mirrored), test.slices)
			for _, slice := range mirrored {
				equal(t, "faults of the name", len(validation.IsDNS1123Subdomain(slice.Name)), 0)
				equal(t, "namespace", slice.Namespace, "shop")
			}
		})
	}
}

// The slices of one cluster for one name differ by source, address type and part. The name of a
// given slice never changes: a release with other names would replace all slices in all clusters.
func TestSliceNamesStay(t *testing.T) {
	m := merge.Member{Cluster: "a", Export: &merge.Export{Created: noon}, Service: terms()}
	for _, name := range []string{"demo-1", "demo-2"} {
		slice := sliceOf(name, "10.1.0.1", map[string]string{discoveryv1.LabelServiceName: demo.Name})
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.1.0.2"}})
		m.Slices = append(m.Slices, slice)
	}
	six := sliceOf("demo-1", "fd00::1", m.Slices[0].Labels)
	six.AddressType = discoveryv1.AddressTypeIPv6
	m.Slices = append(m.Slices, six)
	var names []string
	for _, slice := range desired.ImportedSlices("a", demo, merge.Merge([]merge.Member{m}), []merge.Member{m}, 1) {
		names = append(names, slice.Name)
	}
	equal(t, "names", names, []string{
		"demo.a.ipv4-389dfd057d", "demo.a.ipv4-4a5cb57b6b", "demo.a.ipv4-6a36eecfe6", "demo.a.ipv4-c8682f2c5e", "demo.a.ipv6-a58676603d",
	})
}
