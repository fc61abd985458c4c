package measure

import (
	"fmt"
	"net/netip"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Name is that of an import.
type Name struct{ Namespace, Name string }

// DNS is the name in DNS.
func (n Name) DNS() string { return n.Name + "." + n.Namespace + ".svc.clusterset.local." }

// Meta is the head of the import.
func (n Name) Meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name}
}

// Host is the name in DNS of one endpoint of a headless import.
func (n Name) Host(endpoint int) string {
	return hostname(endpoint) + "." + clusterOf(endpoint) + "." + n.DNS()
}

func hostname(endpoint int) string { return fmt.Sprintf("pod-%04d", endpoint) }

// sliceSize is what Kubernetes' own controllers put into one EndpointSlice at most.
const sliceSize = 100

// clusterOf is the cluster that an endpoint runs in: each has one slice of an import.
func clusterOf(endpoint int) string { return fmt.Sprintf("member-%d", endpoint/sliceSize+1) }

// IP is an address, number i of a network in 10.0.0.0/8.
func IP(network, i int) string {
	return netip.AddrFrom4([4]byte{10, byte(network + i>>16), byte(i >> 8), byte(i)}).String()
}

// Ports are the ports of each import.
var Ports = []mcsv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}, {Name: "metrics", Protocol: corev1.ProtocolTCP, Port: 9090}}

// Import is an import with the ports.
func Import(n Name, kind mcsv1beta1.ServiceImportType, ips ...string) client.Object {
	return &mcsv1beta1.ServiceImport{ObjectMeta: n.Meta(), Spec: mcsv1beta1.ServiceImportSpec{Type: kind, IPs: ips, Ports: Ports}}
}

// Headless is a headless import and its EndpointSlices. Every endpoint has a hostname, and an address of its own, by its number from first on.
func Headless(n Name, endpoints, network, first int) []client.Object {
	all := []client.Object{Import(n, mcsv1beta1.Headless)}
	for from := 0; from < endpoints; from += sliceSize {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: n.Meta(), AddressType: discoveryv1.AddressTypeIPv4}
		slice.Name += "-" + clusterOf(from)
		slice.Labels = map[string]string{mcsv1beta1.LabelServiceName: n.Name, mcsv1beta1.LabelSourceCluster: clusterOf(from)}
		for _, p := range Ports {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &p.Port})
		}
		for e := from; e < min(from+sliceSize, endpoints); e++ {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{IP(network, first+e)}, Hostname: new(hostname(e)), Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			})
		}
		all = append(all, slice)
	}
	return all
}

// Question is a kind of question, with many names of it, that are asked in turn.
type Question struct {
	Title   string
	Names   []dns.Question
	Rcode   int
	Answers int    // records in the answer section of each reply
	Size    uint16 // of the replies that the client allows, by an OPT record; it has none for 0, as the questions of pods
}

// Ask adds names of a type, by their numbers.
func (q Question) Ask(qtype uint16, count int, name func(int) string) Question {
	for i := range count {
		q.Names = append(q.Names, dns.Question{Name: name(i), Qtype: qtype})
	}
	return q
}
