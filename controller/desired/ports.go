package desired

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// usablePorts returns the import's ports that a Service can have, and a note on each port that is
// left out. A ServiceImport can contain ports that a Service cannot have (C15): the union of two
// exports can mix named and unnamed ports, and the CRD validates neither numbers nor names. One
// invalid port must not cost the others.
//
//  1. Each port is checked alone: protocol (empty is TCP, A7), number, name, appProtocol.
//  2. Of duplicates, the first stays: the older export comes first (C13). The only exception is an
//     unnamed port with the number of a named port: the named port stays, whichever comes first.
//  3. A Service with several ports needs a name for each: the unnamed port gets the name from
//     nameForUnnamed. It must not be left out, because it can be the oldest export's (C12).
func usablePorts(ports []mcsv1beta1.ServicePort) ([]corev1.ServicePort, []string) {
	valid, notes := validPorts(ports)
	named := map[portNumber]bool{}
	for _, p := range valid {
		if p.Name != "" {
			named[portNumber{p.Protocol, p.Port}] = true
		}
	}
	usable, names, numbers := make([]corev1.ServicePort, 0, len(valid)), map[string]bool{}, map[portNumber]bool{}
	for _, p := range valid {
		n := portNumber{p.Protocol, p.Port}
		switch {
		case p.Name == "" && named[n]:
			notes = append(notes, fmt.Sprintf("port %s has no name, and a named port has the same number", describe(p)))
		case names[p.Name]:
			notes = append(notes, fmt.Sprintf("port %s has the same name %q as an earlier port", describe(p), p.Name))
		case numbers[n]:
			notes = append(notes, fmt.Sprintf("port %s %q has the same number as an earlier port", describe(p), p.Name))
		default:
			names[p.Name], numbers[n] = true, true
			usable = append(usable, p)
		}
	}
	if at := slices.IndexFunc(usable, func(p corev1.ServicePort) bool { return p.Name == "" }); at >= 0 && len(usable) > 1 {
		usable[at].Name = nameForUnnamed(usable[at], names)
	}
	return usable, notes
}

type portNumber struct {
	protocol corev1.Protocol
	port     int32
}

const unnamedPrefix = "unnamed-"

// nameForUnnamed returns the name that an unnamed port has in a Service with several ports:
// unnamed-80-tcp. If another port has that name, a digit is added.
func nameForUnnamed(p corev1.ServicePort, taken map[string]bool) string {
	name := fmt.Sprintf("%s%d-%s", unnamedPrefix, p.Port, strings.ToLower(string(p.Protocol)))
	for taken[name] {
		name += "0"
	}
	return name
}

// aliasOfUnnamed returns the name that the derived Service gives to the import's unnamed port. It
// returns "" if that port stays unnamed, or if there is none.
func aliasOfUnnamed(ports []mcsv1beta1.ServicePort) string {
	if _, unnamed := mcs.PortNamed(ports, ""); !unnamed || len(ports) < 2 {
		return ""
	}
	usable, _ := usablePorts(ports)
	for _, p := range usable {
		if _, given := mcs.PortNamed(ports, p.Name); !given {
			return p.Name
		}
	}
	return ""
}

func validPorts(ports []mcsv1beta1.ServicePort) (valid []corev1.ServicePort, notes []string) {
	for _, in := range ports {
		p := corev1.ServicePort{Name: in.Name, Protocol: in.Protocol, Port: in.Port, AppProtocol: in.AppProtocol}
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		if fault := portFault(p); fault != "" {
			notes = append(notes, fmt.Sprintf("port %s %s", describe(p), fault))
			continue
		}
		if p.AppProtocol != nil && len(validation.IsQualifiedName(*p.AppProtocol)) > 0 {
			notes = append(notes, fmt.Sprintf("appProtocol of port %s is invalid", describe(p)))
			p.AppProtocol = nil
		}
		valid = append(valid, p)
	}
	return valid, notes
}

func portFault(p corev1.ServicePort) string {
	switch p.Protocol {
	case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
	default:
		return "has an unknown protocol"
	}
	switch {
	case len(validation.IsValidPortNum(int(p.Port))) > 0:
		return "has an invalid number"
	case p.Name != "" && len(validation.IsDNS1123Label(p.Name)) > 0:
		return fmt.Sprintf("has the invalid name %q", brief.Clip(p.Name))
	}
	return ""
}

func describe(p corev1.ServicePort) string {
	return fmt.Sprintf("%d/%s", p.Port, brief.Clip(string(p.Protocol)))
}

// mergePorts returns the wanted ports. It keeps what others set on the port that each of them
// replaces: the nodePort, and a targetPort that is not the API's default.
func mergePorts(current, wanted []corev1.ServicePort) []corev1.ServicePort {
	byName := make(map[string]corev1.ServicePort, len(current))
	for _, p := range current {
		byName[p.Name] = p
	}
	merged := make([]corev1.ServicePort, 0, len(wanted))
	for _, want := range wanted {
		if have, ok := byName[want.Name]; ok {
			want.NodePort = have.NodePort
			if have.Port == want.Port || have.TargetPort.IntVal != have.Port {
				want.TargetPort = have.TargetPort
			}
		}
		merged = append(merged, want)
	}
	return merged
}

// ports returns a slice's ports under the names that they have in the import, and those that are hidden: they receive none of the
// import's traffic, or have another name there. Both are sorted by name.
func (m *sliceBuilder) ports(member merge.Member, all []discoveryv1.EndpointPort) (kept, hidden []discoveryv1.EndpointPort) {
	seen := map[string]bool{}
	for _, p := range all {
		p := *p.DeepCopy()
		if p.Name == nil { // The API server sets the same defaults.
			p.Name = new("")
		}
		if p.Protocol == nil {
			p.Protocol = new(corev1.ProtocolTCP)
		}
		if isAlias(member, *p.Name) {
			continue
		}
		to, leads := m.leads(member, p)
		if !leads || *to.Name != *p.Name {
			hidden = append(hidden, p)
		}
		if leads && !seen[*to.Name] {
			seen[*to.Name] = true
			kept = append(kept, withAlias(to, m.alias)...)
		}
	}
	byName := func(a, b discoveryv1.EndpointPort) int { return cmp.Compare(*a.Name, *b.Name) }
	slices.SortFunc(kept, byName)
	slices.SortFunc(hidden, byName)
	return kept, hidden
}

// withAlias returns a port, and the same port under its alias if it has one.
func withAlias(p discoveryv1.EndpointPort, alias string) []discoveryv1.EndpointPort {
	if alias == "" || p.Name != nil && *p.Name != "" {
		return []discoveryv1.EndpointPort{p}
	}
	second := *p.DeepCopy()
	second.Name = new(alias)
	return []discoveryv1.EndpointPort{p, second}
}

// isAlias reports whether the peer's controller added a port under an alias. The alias can be
// different in this cluster.
func isAlias(member merge.Member, name string) bool {
	_, exposed := mcs.PortNamed(member.Service.Ports, name)
	return strings.HasPrefix(name, unnamedPrefix) && !exposed
}

// leads returns the port that the import leads to a member's port, and whether it does: the import's port that is the one which the
// member's Service exposes under that name, or one of the same protocol and number (C13, C14), with the definition that has won. A port
// that the Service does not contain is only of use to those who look at endpoints themselves, as with a headless name. A user's Service leads to the ports that have the name and the protocol of
// its own: kube-proxy finds endpoints by them, and the number does not matter.
func (m *sliceBuilder) leads(member merge.Member, p discoveryv1.EndpointPort) (discoveryv1.EndpointPort, bool) {
	if m.service != nil {
		return p, hasPort(m.service, *p.Name, *p.Protocol)
	}
	exposed, known := mcs.PortNamed(member.Service.Ports, *p.Name)
	switch {
	case !known:
		return p, m.merged.Type == mcsv1beta1.Headless // otherwise, no port of a Service leads to it
	case exposed.Protocol != *p.Protocol:
		return p, false // the Service does not lead to it
	}
	same := func(port mcsv1beta1.ServicePort) bool {
		return port.Protocol == exposed.Protocol && port.Port == exposed.Port
	}
	if merged, ok := mcs.PortNamed(m.merged.Ports, *p.Name); ok && same(merged) {
		return p, true
	}
	i := slices.IndexFunc(m.merged.Ports, same)
	if i < 0 {
		return p, false
	}
	p.Name, p.AppProtocol = new(m.merged.Ports[i].Name), m.merged.Ports[i].AppProtocol
	return p, true
}

// peerPorts returns the ports of a peer's slice, under the names that the peer's Service has. Its controller gave some of them the name of
// an import's port: which that is depends on the clusters that it sees.
func peerPorts(member merge.Member, source *discoveryv1.EndpointSlice) []discoveryv1.EndpointPort {
	hidden := slices.DeleteFunc(hiddenPorts(source), func(p discoveryv1.EndpointPort) bool {
		exposed, known := mcs.PortNamed(member.Service.Ports, deref(p.Name, ""))
		return known && exposed.Protocol != deref(p.Protocol, corev1.ProtocolTCP) // no controller writes that
	})
	renamed := func(p discoveryv1.EndpointPort) bool {
		_, known := mcs.PortNamed(member.Service.Ports, deref(p.Name, ""))
		return slices.ContainsFunc(hidden, func(h discoveryv1.EndpointPort) bool {
			sameNumber := deref(h.Port, 0) == deref(p.Port, 0) && deref(h.Protocol, corev1.ProtocolTCP) == deref(p.Protocol, corev1.ProtocolTCP)
			return deref(h.Name, "") == deref(p.Name, "") || !known && sameNumber
		})
	}
	return append(slices.DeleteFunc(slices.Clone(source.Ports), renamed), hidden...)
}

func deref[T any](pointer *T, otherwise T) T {
	if pointer == nil {
		return otherwise
	}
	return *pointer
}

// hiddenPorts returns the ports that the peer's controller left out or renamed. It ignores ports that are
// invalid in an EndpointSlice.
func hiddenPorts(slice *discoveryv1.EndpointSlice) []discoveryv1.EndpointPort {
	text := slice.Annotations[mcs.AnnotationHiddenPorts]
	var hidden []discoveryv1.EndpointPort
	if text == "" || json.Unmarshal([]byte(text), &hidden) != nil {
		return nil
	}
	return slices.DeleteFunc(hidden, func(p discoveryv1.EndpointPort) bool {
		return p.Name != nil && *p.Name != "" && len(validation.IsDNS1123Label(*p.Name)) > 0 ||
			p.Protocol != nil && !slices.Contains([]corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}, *p.Protocol) ||
			p.AppProtocol != nil && len(validation.IsQualifiedName(*p.AppProtocol)) > 0
	})
}
