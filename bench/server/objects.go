package main

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// The first imports are in a namespace of their own, and so are the next: a server that watches fewer namespaces has fewer imports. All
// names are of one length: it is part of what a query costs.
const (
	fewNamespace      = "bench-a"
	someNamespace     = "bench-b"
	manyNamespace     = "bench-c"
	headlessNamespace = "bench-h"
)

var namespaces = []string{fewNamespace, someNamespace, manyNamespace, headlessNamespace}

// sliceSize is what Kubernetes' own controllers put into one EndpointSlice at most.
const sliceSize = 100

type key struct{ namespace, name string }

func (k key) dnsName() string { return k.name + "." + k.namespace + ".svc.clusterset.local." }

// importKey is the import number i, from 0.
func (p plan) importKey(i int) key {
	name := fmt.Sprintf("service-%06d", i)
	switch {
	case i < p.imports.few:
		return key{fewNamespace, name}
	case i < p.imports.some:
		return key{someNamespace, name}
	default:
		return key{manyNamespace, name}
	}
}

func headlessKey(endpoints, i int) key {
	return key{headlessNamespace, fmt.Sprintf("pods%03d-%06d", endpoints, i)}
}

func ipOf(network, i int) string {
	return netip.AddrFrom4([4]byte{10, byte(network + i>>16), byte(i >> 8), byte(i)}).String()
}

func hostname(i int) string { return fmt.Sprintf("pod-%04d", i) }

// clusterOf is the cluster that an endpoint runs in: each has one slice of a service.
func clusterOf(endpoint int) string { return fmt.Sprintf("member-%d", endpoint/sliceSize+1) }

var ports = []struct {
	name   string
	number int32
}{{"http", 80}, {"metrics", 9090}}

func newImport(k key, kind mcsv1beta1.ServiceImportType, ips ...string) *mcsv1beta1.ServiceImport {
	made := &mcsv1beta1.ServiceImport{ObjectMeta: k.meta(), Spec: mcsv1beta1.ServiceImportSpec{Type: kind, IPs: ips}}
	for _, p := range ports {
		made.Spec.Ports = append(made.Spec.Ports, mcsv1beta1.ServicePort{Name: p.name, Protocol: corev1.ProtocolTCP, Port: p.number})
	}
	return made
}

func (k key) meta() metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: k.namespace, Name: k.name} }

// clusterSetIPs are imports from a number on.
func (p plan) clusterSetIPs(from int) func(int) []client.Object {
	return func(i int) []client.Object {
		return []client.Object{newImport(p.importKey(from+i), mcsv1beta1.ClusterSetIP, ipOf(0, from+i))}
	}
}

// headlessOf is headless services with so many endpoints each. Every endpoint has a hostname, and an address of its own.
func headlessOf(endpoints int) func(int) []client.Object {
	return func(i int) []client.Object {
		k := headlessKey(endpoints, i)
		objects := []client.Object{newImport(k, mcsv1beta1.Headless)}
		all := make([]int, endpoints)
		for e := range all {
			all[e] = e
		}
		for part := range slices.Chunk(all, sliceSize) {
			objects = append(objects, newSlice(k, part, i*endpoints))
		}
		return objects
	}
}

func newSlice(k key, endpoints []int, addresses int) *discoveryv1.EndpointSlice {
	cluster, ready := clusterOf(endpoints[0]), true
	made := &discoveryv1.EndpointSlice{ObjectMeta: k.meta(), AddressType: discoveryv1.AddressTypeIPv4}
	made.Name += "-" + cluster
	made.Labels = map[string]string{mcsv1beta1.LabelServiceName: k.name, mcsv1beta1.LabelSourceCluster: cluster}
	for _, p := range ports {
		protocol := corev1.ProtocolTCP
		made.Ports = append(made.Ports, discoveryv1.EndpointPort{Name: &p.name, Protocol: &protocol, Port: &p.number})
	}
	for _, e := range endpoints {
		host := hostname(e)
		made.Endpoints = append(made.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{ipOf(128, addresses+e)}, Hostname: &host, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return made
}
