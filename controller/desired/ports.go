package desired

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

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
