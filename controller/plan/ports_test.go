package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/merge"
)

// unnamedPort makes the member export one port without a name, which a Service of one port can
// have.
func unnamedPort(m merge.Member, port int32) merge.Member {
	m.Service.Ports = []mcsv1beta1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: port}}
	for _, s := range m.Slices {
		s.Ports = []discoveryv1.EndpointPort{{Name: new(""), Protocol: new(corev1.ProtocolTCP), Port: new(port + 1)}}
	}
	return m
}

// TestNewcomerLeavesTheOldestItsUnnamedPort is a regression test: a new export with named ports
// caused a Service with several ports, which had no place for the unnamed port of the oldest export
// (C12). The unnamed port now continues to work at each moment, under its own name.
func TestNewcomerLeavesTheOldestItsUnnamedPort(t *testing.T) {
	for _, test := range []struct {
		name     string
		newcomer []mcsv1beta1.ServicePort
		want     string
	}{
		{"the same number, named, and another port", []mcsv1beta1.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}, {Name: "metrics", Protocol: "TCP", Port: 9090}},
			"unnamed-80-tcp 80, metrics 9090"},
		{"another number", []mcsv1beta1.ServicePort{{Name: "http", Protocol: "TCP", Port: 8080}}, "unnamed-80-tcp 80, http 8080"},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := unnamedPort(exporting("c1", 0, 80, "10.1.0.1"), 80)
			c := newName("c1", old)
			c.settle(t)
			newer := exporting("c2", 100, 80, "10.2.0.1")
			newer.Service.Ports = test.newcomer
			c.Members = []merge.Member{old, mirrored(newer)}
			c.settleWhile(t, func() { c.servesOldest(t) })
			var ports []string
			for _, p := range c.services["derived-foo"].Spec.Ports {
				ports = append(ports, fmt.Sprintf("%s %d", p.Name, p.Port))
			}
			equal(t, "ports of the derived Service", strings.Join(ports, ", "), test.want)
			equal(t, "the import's own port", c.imp.Spec.Ports[0].Name, "")
			equal(t, "conflict", meta.FindStatusCondition(c.Export.Status.Conditions, "Conflict").Reason, "PortConflict")
			c.Members = []merge.Member{old}
			c.settleWhile(t, func() { c.servesOldest(t) })
			equal(t, "port after the newcomer has left", c.services["derived-foo"].Spec.Ports[0].Name, "")
		})
	}
}

// settleWhile settles, with a check after the writes of the Service and after those of the slices.
func (c *oneName) settleWhile(t *testing.T, check func()) {
	t.Helper()
	for range 20 {
		changes := Plan(c.state())
		if changes.Empty() {
			return
		}
		mirrored := diff.Changes{CreateSlices: changes.CreateSlices, UpdateSlices: changes.UpdateSlices, DeleteSlices: changes.DeleteSlices}
		changes.CreateSlices, changes.UpdateSlices, changes.DeleteSlices = nil, nil, nil
		c.write(changes)
		check()
		c.write(mirrored)
		check()
	}
	t.Fatal("it plans forever")
}

// servesOldest checks that port 80 of the derived Service reaches the endpoints of c1.
func (c *oneName) servesOldest(t *testing.T) {
	t.Helper()
	for _, port := range c.services["derived-foo"].Spec.Ports {
		for _, s := range c.slices {
			named := slices.ContainsFunc(s.Ports, func(p discoveryv1.EndpointPort) bool { return *p.Name == port.Name })
			if port.Port == 80 && named && s.Labels[mcsv1beta1.LabelSourceCluster] == "c1" {
				return
			}
		}
	}
	t.Errorf("port 80 has no endpoint of the oldest export: the Service has %+v", c.services["derived-foo"].Spec.Ports)
}

// A port of one protocol and number has another name in each cluster. The import has the name of the oldest export, and leads to the
// endpoints of both clusters: in the newer one, in a third one that sees both, and in one that sees the newer one only.
func TestOnePortWithTwoNames(t *testing.T) {
	name := types.NamespacedName{Namespace: "default", Name: "foo"}
	exposing := func(cluster string, second int, ports ...string) merge.Member { // each "name protocol number", at ten times the number
		m := exporting(cluster, second, 80, "10.0.0.1")
		m.Service.Ports, m.Slices[0].Ports = nil, nil
		for _, text := range ports {
			var name string
			var protocol corev1.Protocol
			var number int32
			if _, err := fmt.Sscanf(text, "%s %s %d", &name, &protocol, &number); err != nil {
				t.Fatal(err)
			}
			name = strings.TrimPrefix(name, "-") // for none
			m.Service.Ports = append(m.Service.Ports, mcsv1beta1.ServicePort{Name: name, Protocol: protocol, Port: number})
			m.Slices[0].Ports = append(m.Slices[0].Ports, discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: new(10 * number)})
		}
		return m
	}
	for what, c := range map[string]struct{ older, newer, both, alone []string }{
		"swapped":                              {[]string{"dns UDP 53", "dns-tcp TCP 53"}, []string{"dns-udp UDP 53", "dns TCP 53"}, []string{"dns UDP 530", "dns-tcp TCP 530"}, []string{"dns TCP 530", "dns-udp UDP 530"}},
		"without a name":                       {[]string{"http TCP 80"}, []string{"- TCP 80"}, []string{"http TCP 800"}, []string{" TCP 800"}},
		"without a name, the older":            {[]string{"- TCP 80"}, []string{"http TCP 80"}, []string{" TCP 800"}, []string{"http TCP 800"}},
		"another number":                       {[]string{"http TCP 80"}, []string{"http TCP 81"}, nil, []string{"http TCP 810"}},
		"a name, and a number of another port": {[]string{"a TCP 1", "b TCP 2"}, []string{"a TCP 2", "b TCP 1"}, []string{"a TCP 10", "b TCP 20"}, []string{"a TCP 20", "b TCP 10"}},
	} {
		older, newer := exposing("c1", 0, c.older...), exposing("c2", 1, c.newer...)
		seen := func(home string, members ...merge.Member) []*discoveryv1.EndpointSlice {
			all := desired.ImportedSlices(home, name, merge.Merge(members), members, 100)
			return slices.DeleteFunc(all, func(s *discoveryv1.EndpointSlice) bool { return s.Labels[mcsv1beta1.LabelSourceCluster] != "c2" })
		}
		has := func(where string, all []*discoveryv1.EndpointSlice, want []string) {
			var ports []string
			for _, slice := range all {
				for _, p := range slice.Ports {
					ports = append(ports, fmt.Sprintf("%s %s %d", *p.Name, *p.Protocol, *p.Port))
				}
			}
			if !slices.Equal(ports, want) {
				t.Errorf("%s: %s, the newer cluster's slices have the ports %q, want %q", what, where, ports, want)
			}
		}
		own := seen("c2", older, newer)
		has("at home", own, c.both)
		newer.Slices = own
		has("in a cluster that sees both", seen("c3", older, newer), c.both)
		has("in a cluster that sees one", seen("c3", newer), c.alone)
	}
}
