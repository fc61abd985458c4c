package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// slice returns a slice with a TCP port 80 and one endpoint for each address. Addresses can have a
// node: "10.0.0.1@node".
func slice(family discoveryv1.AddressType, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: family, Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}}, ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	for _, text := range addresses {
		e := discoveryv1.Endpoint{Addresses: []string{text}}
		for i, c := range text {
			if c == '@' {
				e.Addresses[0], e.NodeName = text[:i], new(text[i+1:])
			}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func v4(addresses ...string) *discoveryv1.EndpointSlice {
	return slice(discoveryv1.AddressTypeIPv4, addresses...)
}

// with returns a copy of a slice with one change.
func with(s *discoveryv1.EndpointSlice, change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	s = s.DeepCopy()
	change(s)
	return s
}

func none(Target) bool { return false }

func TestTargets(t *testing.T) {
	port := func(p discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
		return with(v4("10.0.0.1"), func(s *discoveryv1.EndpointSlice) { s.Ports = []discoveryv1.EndpointPort{p} })
	}
	for name, c := range map[string]struct {
		services [][]*discoveryv1.EndpointSlice
		want     []string
	}{
		"nothing":               {},
		"a Service without any": {services: [][]*discoveryv1.EndpointSlice{{v4()}}},
		"all endpoints of few Services": {
			services: [][]*discoveryv1.EndpointSlice{{v4("10.0.0.2", "10.0.0.1")}, {v4("10.0.1.1")}},
			want:     []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.1.1:80"},
		},
		"both families": {
			services: [][]*discoveryv1.EndpointSlice{{v4("10.0.0.1"), slice(discoveryv1.AddressTypeIPv6, "fd00::1")}},
			want:     []string{"10.0.0.1:80", "[fd00::1]:80"},
		},
		"two Services of one pod": {services: [][]*discoveryv1.EndpointSlice{{v4("10.0.0.1")}, {v4("10.0.0.1")}}, want: []string{"10.0.0.1:80"}},
		"an endpoint that is not ready": {services: [][]*discoveryv1.EndpointSlice{{with(v4("10.0.0.1", "10.0.0.2"), func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Conditions.Ready = new(false)
		})}}, want: []string{"10.0.0.2:80"}},
		"UDP":             {services: [][]*discoveryv1.EndpointSlice{{port(discoveryv1.EndpointPort{Port: new(int32(53)), Protocol: new(corev1.ProtocolUDP)})}}},
		"SCTP":            {services: [][]*discoveryv1.EndpointSlice{{port(discoveryv1.EndpointPort{Port: new(int32(53)), Protocol: new(corev1.ProtocolSCTP)})}}},
		"appProtocol":     {services: [][]*discoveryv1.EndpointSlice{{port(discoveryv1.EndpointPort{Port: new(int32(80)), AppProtocol: new("h2c")})}}},
		"no port":         {services: [][]*discoveryv1.EndpointSlice{{port(discoveryv1.EndpointPort{})}}},
		"no port number":  {services: [][]*discoveryv1.EndpointSlice{{port(discoveryv1.EndpointPort{Port: new(int32(1 << 16))})}}},
		"a negative port": {services: [][]*discoveryv1.EndpointSlice{{port(discoveryv1.EndpointPort{Port: new(int32(-1))})}}},
		"the second port": {services: [][]*discoveryv1.EndpointSlice{{with(v4("10.0.0.1"), func(s *discoveryv1.EndpointSlice) {
			s.Ports = []discoveryv1.EndpointPort{{Port: new(int32(53)), Protocol: new(corev1.ProtocolUDP)}, {Port: new(int32(443)), Protocol: new(corev1.ProtocolTCP)}}
		})}}, want: []string{"10.0.0.1:443"}},
		"addresses of this host, of the link, of groups, and none": {services: [][]*discoveryv1.EndpointSlice{
			{v4("127.0.0.1", "169.254.169.254", "0.0.0.0", "255.255.255.255", "224.0.0.1", "x")},
			{slice(discoveryv1.AddressTypeIPv6, "::1", "fe80::1", "fe80::1%eth0", "ff02::1", "::", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "")},
		}},
		"an endpoint without addresses": {services: [][]*discoveryv1.EndpointSlice{{with(v4("10.0.0.1"), func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Addresses = nil
		})}}},
		"host names": {services: [][]*discoveryv1.EndpointSlice{{slice(discoveryv1.AddressTypeFQDN, "10.0.0.1")}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, target := range Targets(slices.Values(c.services), none) {
				got = append(got, target.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Of many endpoints, those of as many Services and nodes as possible are chosen, regardless of the
// order.
func TestTargetsOfManyServices(t *testing.T) {
	for _, c := range []struct{ services, endpoints, nodes, want, wantNodes int }{
		{1, 1000, 20, fewTargets, fewTargets},
		{3, 2, 1, 6, 1},
		{20, 5, 3, 20, 3}, // one of each Service
		{5000, 3, 10, MaxTargets, 10},
	} {
		t.Run(fmt.Sprintf("%d Services of %d endpoints on %d nodes", c.services, c.endpoints, c.nodes), func(t *testing.T) {
			var all [][]*discoveryv1.EndpointSlice
			nodes := map[Target]string{}
			for i := range c.services {
				var addresses []string
				for j := range c.endpoints {
					n := i*c.endpoints + j
					address := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
					node := fmt.Sprint("node-", n%c.nodes)
					if c.want == 20 {
						node = fmt.Sprint("node-", j%c.nodes) // the first of each Service is on one node
					}
					nodes[netip.AddrPortFrom(address, 80)] = node
					addresses = append(addresses, address.String()+"@"+node)
				}
				all = append(all, []*discoveryv1.EndpointSlice{v4(addresses...)})
			}
			got := Targets(slices.Values(all), none)
			used := map[string]bool{}
			for _, target := range got {
				used[nodes[target]] = true
			}
			if len(got) != c.want || len(used) != c.wantNodes {
				t.Errorf("%d endpoints on %d nodes, want %d on %d", len(got), len(used), c.want, c.wantNodes)
			}
			slices.Reverse(all)
			left := Targets(slices.Values(all), func(at Target) bool { return at == got[0] })
			if slices.Contains(left, got[0]) || len(left) != min(len(got), c.services*c.endpoints-1) {
				t.Errorf("without %v, there are %v", got[0], left)
			}
			if again := Targets(slices.Values(all), none); !slices.Equal(got, again) {
				t.Error("another order of the Services gives other endpoints")
			}
		})
	}
}
