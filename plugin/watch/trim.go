package watch

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/plugin/index"
)

// trimmed is the kept part of an object.
type trimmed[T any] struct {
	head
	value    *T // nil: the object has no name that can be served
	problems []Problem
	more     int // problems beyond maxProblems
}

// head is what is kept of any object.
type head struct {
	namespace, name string
	version         uint64
	changed         time.Time // zero: unknown
}

func headOf(object metav1.Object) head {
	return head{object.GetNamespace(), object.GetName(), versionOf(object.GetResourceVersion()), lastChange(object)}
}

// versionOf returns a resource version as a number that grows with each change of a resource (KEP-5504), or 0 if it is none.
func versionOf(text string) uint64 {
	if version, err := strconv.ParseUint(text, 10, 64); err == nil {
		return version
	}
	return 0
}

// lastChange returns when an object last changed: the time of the Pod's or Service's change if the
// author of an EndpointSlice noted it, otherwise the time of the last write, which the API server
// notes in whole seconds.
func lastChange(object metav1.Object) (at time.Time) {
	if trigger, err := time.Parse(time.RFC3339Nano, object.GetAnnotations()[corev1.EndpointsLastChangeTriggerTime]); err == nil {
		return trigger
	}
	for _, written := range object.GetManagedFields() {
		if written.Time != nil && written.Time.After(at) {
			at = written.Time.Time
		}
	}
	return at
}

// Limits of one object. The API has no such limits, or larger ones: an EndpointSlice can have 1000
// endpoints of 100 addresses and 20000 ports, each with an SRV record for each address. No known
// Service comes near these numbers; Kubernetes itself writes slices of 100 endpoints with one
// address each.
const (
	maxPorts     = 256  // of an import or slice
	maxAddresses = 1000 // of a slice; the last endpoint can exceed it
	maxIPs       = 16   // of an import
)

// atMost returns the elements of a list that are used. The others are one problem.
func (t *trimmed[T]) atMost(field, list string, have, most int) int {
	if have > most {
		t.problem(field, "%s has %d elements, want at most %d: the others are left out", list, have, most)
	}
	return min(have, most)
}

// entryOf converts a trimmed ServiceImport to the State's form.
func entryOf(t *trimmed[index.Service]) *trimmed[index.Entry] {
	of := &trimmed[index.Entry]{head: t.head, problems: t.problems, more: t.more}
	if t.value != nil {
		entry := t.value.Entry()
		of.value = &entry
	}
	return of
}

// trimSlice keeps the ready endpoints of an EndpointSlice. A slice of the controller counts as
// deleted as soon as its deletion begins: the controller sets no finalizer, so a user who adds one
// could decide how long the slice is answered, and with which endpoints. Slices of others stay
// until they are deleted.
func trimSlice(in *discoveryv1.EndpointSlice) *trimmed[index.Slice] {
	t := &trimmed[index.Slice]{head: headOf(in)}
	slice := index.Slice{
		SliceID: index.SliceID{Namespace: in.Namespace, Name: in.Name},
		Service: in.Labels[mcsv1beta1.LabelServiceName],
		Managed: ownership.OfSlice(in),
		Cluster: interned(strings.ToLower(in.Labels[mcsv1beta1.LabelSourceCluster])),
	}
	slice.Standby = slice.Managed && in.Labels[mcs.LabelStandby] != ""
	if slice.Service == "" || in.AddressType == discoveryv1.AddressTypeFQDN || slice.Managed && in.DeletionTimestamp != nil {
		return t
	}
	t.value = &slice
	if errs := validation.IsDNS1123Subdomain(slice.Cluster); len(errs) > 0 {
		t.problem("cluster", "label %s is %q, want the id of the cluster that the endpoints are in: without it they have no host names and no SRV records",
			mcsv1beta1.LabelSourceCluster, slice.Cluster)
		slice.Cluster = ""
	}
	for _, p := range in.Ports[:t.atMost("ports", "ports", len(in.Ports), maxPorts)] {
		t.keepEndpointPort(&slice.Ports, p)
	}
	slice.Endpoints = slices.Grow(slice.Endpoints, min(len(in.Endpoints), maxAddresses))
	for _, e := range in.Endpoints {
		if len(slice.Endpoints) >= maxAddresses {
			t.problem("addresses", "the endpoints have more than %d addresses: the others are left out", maxAddresses)
			break
		}
		if ready := e.Conditions.Ready; ready == nil || *ready { // nil means ready (EndpointConditions)
			t.keepEndpoint(&slice.Endpoints, e)
		}
	}
	return t
}

func (t *trimmed[T]) keepEndpoint(endpoints *[]index.Endpoint, e discoveryv1.Endpoint) {
	hostname := ""
	if e.Hostname != nil && *e.Hostname != "" {
		hostname = strings.ToLower(*e.Hostname)
		if !isLabel(hostname) {
			t.problem("hostname", "an endpoint's hostname is %q, want a DNS label of at most 63 letters, digits and dashes", clip(*e.Hostname))
			return
		}
	}
	for _, text := range e.Addresses {
		ip, err := parseIP(text)
		if err != nil {
			t.problem("ip", "an endpoint has the address %q, want an IP address", clip(text))
			continue
		}
		*endpoints = append(*endpoints, index.Endpoint{Hostname: hostname, Addr: ip})
	}
}

func (t *trimmed[T]) keepEndpointPort(ports *[]index.Port, p discoveryv1.EndpointPort) {
	if p.Name == nil || p.Port == nil {
		return // a port without a name has no SRV record (SPEC 2.4.3); no port means every port
	}
	protocol := corev1.ProtocolTCP
	if p.Protocol != nil {
		protocol = *p.Protocol
	}
	t.keepPort(ports, *p.Name, protocol, *p.Port)
}

// keepPort keeps a named port. The protocol "" is TCP: the CRD has no default for it (A7).
func (t *trimmed[T]) keepPort(ports *[]index.Port, name string, protocol corev1.Protocol, number int32) {
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	switch {
	case number < 1 || number > 65535:
		t.problem("port", "the number of port %q is %d, want 1 to 65535", clip(name), number)
	case protocol != corev1.ProtocolTCP && protocol != corev1.ProtocolUDP && protocol != corev1.ProtocolSCTP:
		t.problem("protocol", "the protocol of port %q is %q, want TCP, UDP or SCTP", clip(name), clip(string(protocol)))
	case name == "": // no SRV record (SPEC 2.3.2)
	case !isLabel(name) || len(name) > 62: // a Service's port cannot have that name either; the underscore makes it 63
		t.problem("portname", "a port is called %q, want a DNS label of at most 62 lower case letters, digits and dashes", clip(name))
	default:
		*ports = append(*ports, index.Port{Name: interned(name), Protocol: interned(strings.ToLower(string(protocol))), Number: uint16(number)})
	}
}

// interned returns the single copy of a text that many objects contain: a cluster ID, the name of a
// port.
func interned(text string) string { return unique.Make(text).Value() }

func parseIP(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err == nil && ip.Zone() != "" {
		err = fmt.Errorf("%q has a zone", text)
	}
	return ip.Unmap(), err
}

func isLabel(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }
