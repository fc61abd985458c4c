package command_test

import (
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/cli/explain/chain"
)

// fault is one thing that can be wrong, in a namespace of its own.
type fault struct {
	name string // of the namespace and of the golden file
	want string // the ID of the cause
	// ask is the name, "foo.NAMESPACE.svc.clusterset.local" unless given. FOO stands for foo.NAMESPACE.
	ask  string
	args []string
	// bare means that the fault makes namespaces, Service and export itself.
	bare bool
	// cause makes the fault. advice does what the advice says, if there are no commands. after does what the machinery of a cluster does after
	// the commands. mended is the name to ask for then, if it is the name that was wrong.
	cause, advice, after func(*lab, string)
	mended               string
	mendedArgs           []string
}

const service = `
apiVersion: v1
kind: Service
metadata: {name: foo}
spec: {selector: {app: foo}, ports: [{name: http, port: 80}]}
`

const endpoints = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: foo-1, labels: {kubernetes.io/service-name: foo, endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [10.1.0.5], conditions: {ready: true}}]
`

const export = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: foo}
`

// shop makes what a name needs.
func (l *lab) shop(namespace string) {
	l.Helper()
	l.Namespace(namespace, "member1", "member2")
	l.apply("member1", namespace, service+"---"+endpoints+"---"+export)
}

// named says that the fault is in what the namespace has, so that the name itself does not matter.
func named(text, namespace string) string {
	if text == "" {
		text = "FOO.svc.clusterset.local"
	}
	return strings.ReplaceAll(text, "FOO", "foo."+namespace)
}

// TestFaults makes each fault, looks at the one cause and its golden output, does what is printed, and sees the chain whole.
func TestFaults(t *testing.T) {
	l := newLab(t)
	l.shop("whole")
	golden(t, "whole", steady(l.whole("foo.whole.svc.clusterset.local").Out))
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) { l.with(t).try(f) })
	}
}

// with is the lab for a test within the test. Programs that it starts end with the whole.
func (l *lab) with(t *testing.T) *lab {
	inner := *l
	inner.T = t
	return &inner
}

func (l *lab) try(f fault) {
	l.Helper()
	if !f.bare {
		l.shop(f.name)
	}
	f.cause(l, f.name)
	report, text := l.broken(named(f.ask, f.name), f.want, args(f.args, f.name)...)
	golden(l.T, f.name, text)
	for _, command := range report.Cause.Fix {
		l.sh(command)
	}
	if f.advice != nil {
		if report.Cause.Advice == "" {
			l.Error("the cause has no advice")
		}
		f.advice(l, f.name)
	}
	if len(report.Cause.Fix) == 0 && f.advice == nil && f.mended == "" {
		l.Fatal("the cause has neither commands nor advice that the test follows")
	}
	if f.after != nil {
		f.after(l, f.name)
	}
	ask, with := f.ask, f.args
	if f.mended != "" {
		ask = f.mended
	}
	if f.mendedArgs != nil {
		with = f.mendedArgs
	}
	l.whole(named(ask, f.name), args(with, f.name)...)
	for _, link := range report.Links {
		if link.State == chain.Broken && report.Cause == nil {
			l.Errorf("%s is broken without a cause", link.Link)
		}
	}
}

func args(all []string, namespace string) []string {
	found := make([]string, len(all))
	for i, one := range all {
		found[i] = strings.ReplaceAll(one, "NAMESPACE", namespace)
	}
	return found
}

var faults = []fault{
	{name: "no-export", want: "NoExport", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member1", "member2")
		l.apply("member1", ns, service+"---"+endpoints)
	}},
	{name: "no-namespace", want: "NamespaceMissing", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member1")
		l.apply("member1", ns, service+"---"+endpoints+"---"+export)
	}},
	{name: "no-forward-block", want: "NoForwardBlock", cause: func(l *lab, _ string) { l.corefile("coredns", ownCorefile) }},
	{name: "forward-elsewhere", want: "ForwardElsewhere", cause: func(l *lab, _ string) {
		l.corefile("coredns", ownCorefile+strings.ReplaceAll(forwardBlock, secondDNS, "10.0.0.99"))
	}},
	{name: "foreign-service", want: "ForeignService", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member2")
		l.apply("member2", ns, strings.ReplaceAll(service, "name: foo", "name: derived-foo"))
		l.Namespace(ns, "member1")
		l.apply("member1", ns, service+"---"+endpoints+"---"+export)
	}},
	{name: "no-service", want: "NoService", cause: func(l *lab, ns string) {
		l.remove("member1", ns, service)
		l.remove("member1", ns, endpoints)
	}, advice: func(l *lab, ns string) { l.apply("member1", ns, service+"---"+endpoints) }},
	{name: "external-name", want: "InvalidServiceType", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member1", "member2")
		l.apply("member1", ns, export+`---
apiVersion: v1
kind: Service
metadata: {name: foo}
spec: {type: ExternalName, externalName: example.org}`)
	}, advice: func(l *lab, ns string) {
		l.remove("member1", ns, service)
		l.apply("member1", ns, service+"---"+endpoints)
	}},
	{name: "unready-endpoints", want: "NoReadyEndpoints", cause: func(l *lab, ns string) {
		l.apply("member1", ns, strings.ReplaceAll(endpoints, "ready: true", "ready: false"))
	}, advice: func(l *lab, ns string) { l.apply("member1", ns, endpoints) }},
	{name: "no-endpoints", want: "NoPods", cause: func(l *lab, ns string) { l.remove("member1", ns, endpoints) },
		advice: func(l *lab, ns string) { l.apply("member1", ns, endpoints) }},
	{name: "wrong-port-name", want: "UnknownPort", ask: "_web._tcp.FOO.svc.clusterset.local", mended: "_http._tcp.FOO.svc.clusterset.local", cause: func(*lab, string) {}},
	{name: "no-search-entry", want: "NoSearchEntry", ask: "FOO.svc", args: []string{"--namespace", "NAMESPACE"}, cause: func(*lab, string) {}},
	{name: "local-service", want: "LocalService", ask: "FOO.svc", cause: func(l *lab, ns string) { l.apply("member2", ns, service) },
		advice: func(l *lab, ns string) { l.remove("member2", ns, service) }, mended: "FOO.svc.clusterset.local"},
	{name: "node-local", want: "NodeLocalNoStanza", cause: func(l *lab, _ string) {
		l.corefile("node-local-dns", `cluster.local:53 {
    errors
    bind 169.254.20.10
    forward . 10.0.0.12 {
        force_tcp
    }
}
.:53 {
    errors
    bind 169.254.20.10
    forward . /etc/resolv.conf
}
`)
	}},
	{name: "to-clusters", want: "NotForThisCluster", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member1", "member2")
		l.apply("member1", ns, service+"---"+endpoints+"---"+strings.ReplaceAll(export, "name: foo", "name: foo, annotations: {clusterset-dns.io/to-clusters: member9}"))
	}},
	{name: "token-revoked", want: "PeerUnauthorized", cause: func(l *lab, _ string) {
		l.Kubectl("member1", "-n", "multicluster-system", "delete", "secret", "multicluster-peer-member2")
		l.restart("member2")
	}},
}

// restart ends a controller and starts it again, so that it asks its peers again.
func (l *lab) restart(id string, flags ...string) {
	l.Helper()
	l.StopController(id)
	l.StartController(id, flags...)
}
