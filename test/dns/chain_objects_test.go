package dns

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// served is the imports whose answers are known. The import «ticker» beside them changes all the time.
var served = []service{
	{name: "v4", ips: []string{"10.0.0.11"}, ports: []port{{"http", "tcp", 80}, {"dns", "udp", 53}}},
	{name: "v6", ips: []string{"fd00::11"}, ports: []port{{"https", "tcp", 443}}},
	{name: "dual", ips: []string{"10.0.0.12", "fd00::12"}, ports: []port{{"http", "tcp", 80}, {"grpc", "tcp", 9000}, {"metrics", "tcp", 9090}}},
	{name: "pair", ips: []string{"10.0.0.13", "10.0.0.14"}, ports: []port{{"http", "tcp", 80}}},
	{name: "noports", ips: []string{"10.0.0.15"}},
	{name: "noips", ports: []port{{"http", "tcp", 80}}},
	{name: "few", headless: true, slices: []slice{
		{"east", []port{{"pg", "tcp", 5432}}, []endpoint{{"db-0", "10.1.0.1"}, {"db-1", "10.1.0.2"}}},
		{"east", []port{{"pg", "tcp", 5432}}, []endpoint{{"db-0", "fd01::1"}}},
		{"west.example", []port{{"pg", "tcp", 5433}, {"admin", "tcp", 8080}}, []endpoint{{"", "10.1.1.1"}, {"db-0", "10.1.1.2"}}},
	}},
	{name: "some", headless: true, slices: []slice{
		{"east", []port{{"pg", "tcp", 5432}}, hosts(40, "10.2.0.%d")},
		{"west.example", []port{{"pg", "tcp", 5432}}, hosts(20, "fd02::%d")},
	}},
	// submariner-operator#3218: a big headless answer is truncated over UDP, and whole over TCP.
	{name: "many", headless: true, slices: []slice{
		{"east", []port{{"pg", "tcp", 5432}}, hosts(100, "10.3.0.%d")},
		{"west.example", []port{{"pg", "tcp", 5432}}, hosts(100, "10.3.1.%d")},
		{"north", nil, hosts(150, "10.3.2.%d")}, // without ports, so that the SRV answer fits into a message when it is signed
	}},
	{name: "empty", headless: true},
}

type service struct {
	name     string
	headless bool
	ips      []string
	ports    []port
	slices   []slice
}

type slice struct {
	cluster   string
	ports     []port
	endpoints []endpoint
}

type port struct {
	name, protocol string
	number         int
}

type endpoint struct{ hostname, ip string }

// hosts is n endpoints; every second one has a hostname.
func hosts(n int, format string) []endpoint {
	all := make([]endpoint, n)
	for i := range all {
		all[i].ip = fmt.Sprintf(format, i+1)
		if i%2 == 0 {
			all[i].hostname = fmt.Sprintf("host-%d", i)
		}
	}
	return all
}

// host is the name of an endpoint below its service.
func (s slice) host(e endpoint) string {
	label := e.hostname
	if label == "" {
		label = strings.NewReplacer(".", "-", ":", "-").Replace(e.ip)
	}
	return label + "." + s.cluster
}

func (s service) addresses() (all []string) {
	all = append(all, s.ips...)
	for _, slice := range s.slices {
		for _, e := range slice.endpoints {
			all = append(all, e.ip)
		}
	}
	return all
}

// question is one that has a known answer. In the texts of its records, @ stands for the name that was asked, $ for the service's
// part of it and ~ for the zone's, since the reply has them in the case of the question.
type question struct {
	below        string // the name below the zone
	service      string // its last labels, those of the service; "" where it is in none
	qtype        uint16
	rcode        int
	answer, glue []string
}

const negative = "~ SOA ns.dns.~"

// questions is everything that a client may ask.
func questions() []question {
	all := []question{
		{qtype: dns.TypeSOA, answer: []string{negative}},
		{qtype: dns.TypeNS, answer: []string{"@ NS ns.dns.~"}},
		{qtype: dns.TypeA},
		{below: "dns-version", qtype: dns.TypeTXT, answer: []string{`@ TXT "1.0.0"`}},
		{below: "svc", qtype: dns.TypeA},
		{below: "default.svc", qtype: dns.TypeAAAA},
		{below: "nowhere.svc", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{below: "nobody.default.svc", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{below: "nobody.default.svc", qtype: dns.TypeSRV, rcode: dns.RcodeNameError},
		{below: "nobody.v4.default.svc", qtype: dns.TypeA, rcode: dns.RcodeNameError},
		{below: "_http._udp.v4.default.svc", qtype: dns.TypeSRV, rcode: dns.RcodeNameError},
	}
	for _, s := range served {
		all = append(all, s.questions()...)
	}
	return all
}

func (s service) questions() []question {
	name := s.name + ".default.svc"
	if s.headless && len(s.slices) == 0 {
		return []question{{below: name, service: name, qtype: dns.TypeA, rcode: dns.RcodeNameError}}
	}
	all := []question{
		{qtype: dns.TypeA, answer: records(dns.TypeA, "@", s.addresses())},
		{qtype: dns.TypeAAAA, answer: records(dns.TypeAAAA, "@", s.addresses())},
		{qtype: dns.TypeTXT},
	}
	all = append(all, s.srvQuestions()...)
	all = append(all, s.hostQuestions()...)
	for i := range all {
		q := &all[i]
		q.service = name
		q.below = strings.TrimPrefix(q.below+"."+name, ".")
	}
	return all
}

// records is the records of one type that some addresses are.
func records(qtype uint16, owner string, ips []string) (all []string) {
	for _, ip := range ips {
		if netip.MustParseAddr(ip).Is4() == (qtype == dns.TypeA) {
			all = append(all, owner+" "+dns.TypeToString[qtype]+" "+ip)
		}
	}
	return all
}

// srvQuestions is one for each port, and one for the service's own name: its answer has the targets of all ports.
func (s service) srvQuestions() []question {
	targets := map[string][]target{}
	for _, p := range s.ports {
		targets[p.label()] = append(targets[p.label()], target{"$", p.number, s.ips})
	}
	for _, slice := range s.slices {
		for _, p := range slice.ports {
			targets[p.label()] = append(targets[p.label()], slice.targets(p)...)
		}
	}
	all := []question{}
	every := []target{}
	for _, label := range slices.Sorted(maps.Keys(targets)) {
		all = append(all, srvQuestion(label, targets[label]))
		every = append(every, targets[label]...)
	}
	return append(all, srvQuestion("", every))
}

func (p port) label() string { return "_" + p.name + "._" + p.protocol }

// target is where an SRV record leads.
type target struct {
	name string
	port int
	ips  []string
}

func (s slice) targets(p port) (all []target) {
	for _, e := range s.endpoints {
		all = append(all, target{s.host(e) + ".$", p.number, []string{e.ip}})
	}
	return all
}

// srvQuestion has each target and port once in its answer, and each address of a target once beside it.
func srvQuestion(below string, targets []target) question {
	q := question{below: below, qtype: dns.TypeSRV}
	to, glue := map[string]bool{}, map[string]bool{}
	for _, t := range targets {
		to[fmt.Sprintf("%d %s", t.port, t.name)] = true
		for _, g := range append(records(dns.TypeA, t.name, t.ips), records(dns.TypeAAAA, t.name, t.ips)...) {
			glue[g] = true
		}
	}
	for t := range to {
		q.answer = append(q.answer, fmt.Sprintf("@ SRV 0 %d %s", max(1, 100/len(to)), t))
	}
	for g := range glue {
		q.glue = append(q.glue, g)
	}
	return q
}

// hostQuestions is the first hosts of each slice, and the name above them, which exists and has nothing.
func (s service) hostQuestions() (all []question) {
	ips := map[string][]string{}
	for _, slice := range s.slices {
		for _, e := range slice.endpoints {
			ips[slice.host(e)] = append(ips[slice.host(e)], e.ip)
		}
		all = append(all, question{below: slice.cluster, qtype: dns.TypeA})
	}
	for _, slice := range s.slices {
		for _, e := range slice.endpoints[:min(2, len(slice.endpoints))] {
			host := slice.host(e)
			all = append(all,
				question{below: host, qtype: dns.TypeA, answer: records(dns.TypeA, "@", ips[host])},
				question{below: host, qtype: dns.TypeAAAA, answer: records(dns.TypeAAAA, "@", ips[host])})
		}
	}
	return all
}

// servedYAML is all of them as objects.
func servedYAML() string {
	all := []string{}
	for _, s := range served {
		all = append(all, s.yaml())
		for i, slice := range s.slices {
			all = append(all, slice.yaml(fmt.Sprintf("%s-%d", s.name, i), s.name))
		}
	}
	return strings.Join(all, "\n---\n")
}

func (s service) yaml() string {
	kind, ports := "ClusterSetIP", []string{}
	if s.headless {
		kind = "Headless"
	}
	for _, p := range s.ports {
		ports = append(ports, p.yaml())
	}
	return fmt.Sprintf(`{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: %s}, spec: {type: %s, ips: [%s], ports: [%s]}}`,
		s.name, kind, quoted(s.ips), strings.Join(ports, ", "))
}

// quoted is for IPv6 addresses, whose colons mean something else in YAML.
func quoted(texts []string) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprintf("%q", texts), "[]"), " ", ", ")
}

func (p port) yaml() string {
	return fmt.Sprintf("{name: %s, protocol: %s, port: %d}", p.name, strings.ToUpper(p.protocol), p.number)
}

func (s slice) yaml(name, service string) string {
	family, ports, endpoints := "IPv4", []string{}, []string{}
	for _, p := range s.ports {
		ports = append(ports, p.yaml())
	}
	for _, e := range s.endpoints {
		if strings.Contains(e.ip, ":") {
			family = "IPv6"
		}
		hostname := ""
		if e.hostname != "" {
			hostname = ", hostname: " + e.hostname
		}
		endpoints = append(endpoints, fmt.Sprintf("{addresses: [%q]%s}", e.ip, hostname))
	}
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %s, labels: {multicluster.kubernetes.io/service-name: %s, multicluster.kubernetes.io/source-cluster: %s}}
addressType: %s
ports: [%s]
endpoints: [%s]`, name, service, s.cluster, family, strings.Join(ports, ", "), strings.Join(endpoints, ", "))
}
