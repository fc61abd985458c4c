package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/cli/explain/chain"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

// fault is one thing that can be wrong, in a namespace of its own.
type fault struct {
	name string // of the namespace and of the golden file
	want string // the ID of the cause
	// live means that the small form of the tests makes the fault, too: there is one for each kind of facts.
	live bool
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
	// cleanup removes what the next fault must not see.
	cleanup func(*lab)
	// also is a problem beside a chain that is whole. want is empty then.
	also string
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

// is reports whether a chain is as the fault makes it.
func (f fault) is(report *chain.Report) bool {
	if f.want != "" {
		return report.Cause != nil && report.Cause.ID == f.want
	}
	also := ""
	for _, p := range report.Also {
		also += p.ID
	}
	return report.Result == chain.ResultWhole && also == f.also
}

// TestExplain looks at a name that works, in some ways that are no faults. Then it makes faults: it looks at the one cause and its golden
// output, does what is printed, and sees the chain whole. The full form makes all faults, and the small one compares the others with what
// was recorded (TestRecordedFaults).
func TestExplain(t *testing.T) {
	l := newLab(t)
	l.shop(base)
	l.shows(fault{name: base})
	t.Run("a tenant", func(t *testing.T) { l.with(t).tenant() })
	t.Run("a cached answer", func(t *testing.T) { l.with(t).cached() })
	t.Run("a proxy", func(t *testing.T) { l.with(t).proxied() })
	t.Run("an impostor", func(t *testing.T) { l.with(t).impostor() })
	for _, f := range faults {
		if f.live || kube.Full() {
			t.Run(f.name, func(t *testing.T) { l.with(t).try(f) })
		}
	}
}

// ofPeer reports whether the fault is in the connection of the two clusters.
func (f fault) ofPeer() bool { return strings.HasPrefix(f.want, "Peer") }

// TestEachReasonIsAFault compares the reasons of the controller with the faults.
func TestEachReasonIsAFault(t *testing.T) {
	var tried []string
	for _, f := range faults {
		tried = append(tried, f.want)
	}
	for file, prefix := range map[string]string{"controller/peers/condition.go": "Peer", "controller/desired/reasons.go": ""} {
		text, err := os.ReadFile(filepath.Join(binaries.Root(), file))
		if err != nil {
			t.Fatal(err)
		}
		conditions, _, _ := strings.Cut(string(text), "// Reasons of events.")
		reasons := regexp.MustCompile(`(?m)^\t\w+ += (?:"|string\(mcsv1beta1\.ServiceImportReason)(\w+)`).FindAllStringSubmatch(conditions, -1)
		if len(reasons) < 10 {
			t.Errorf("%s has %d reasons: the pattern of this test is out of date", file, len(reasons))
		}
		for _, found := range reasons {
			id := prefix + found[1]
			if renamed := map[string]string{"Pending": "ImportPending"}[id]; renamed != "" {
				id = renamed
			}
			if id == "PeerStale" {
				continue // It takes a minute to come. TestFaultyAnswersRemoveNothing has it.
			}
			if id != "PeerConnected" && id != "Ready" && !slices.Contains(tried, id) {
				t.Errorf("no fault has the cause %s, of %s", id, file)
			}
		}
	}
}

// tenant asks as a user with few rights: what cannot be read is unknown, and is never an absent object.
func (l *lab) tenant() {
	l.Helper()
	l.shop("tenant")
	l.whole("foo.tenant.svc.clusterset.local")
	l.apply("member2", "tenant", `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tenant}
rules:
  - {apiGroups: ["", discovery.k8s.io, multicluster.x-k8s.io], resources: [services, pods, endpointslices, serviceimports], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}
subjects: [{kind: ServiceAccount, name: tenant, namespace: tenant}]
`)
	l.Cleanup(l.As("tenant", "member2", "tenant", "tenant"))
	var last world.Result
	kube.Eventually(l, "the tenant's rights are in effect", func() error {
		if last = l.World.Run("explain", "foo.tenant.svc.clusterset.local", "--context", "tenant"); !strings.Contains(last.Out, "ClusterSetIP") {
			return errors.New(last.Out + last.Err)
		}
		return nil
	})
	if last.Status != 1 || strings.Contains(last.Out, "BROKEN") {
		l.Errorf("status %d", last.Status)
	}
	golden(l.T, "tenant", steady(last.Out))
}

// cached mends a name of which the DNS servers have just answered that it does not exist. They are not stale.
func (l *lab) cached() {
	l.Helper()
	l.Namespace("cached", "member1", "member2")
	l.apply("member1", "cached", service+"---"+endpoints)
	const name = "foo.cached.svc.clusterset.local"
	explained := func() error {
		report := l.report(name)
		if report.Result == chain.ResultWhole {
			return nil
		}
		if report.Cause != nil && report.Cause.ID == chain.StaleDNSServer {
			l.Fatalf("the answer is from a cache: %+v", report.Links)
		}
		return fmt.Errorf("%+v", report.Links)
	}
	if explained() == nil {
		l.Fatal("it is whole without an export")
	}
	l.apply("member1", "cached", export)
	kube.Eventually(l, name+" is whole", explained)
}

// proxied asks through the proxy-url of the kubeconfig, also the DNS servers over port-forwards.
func (l *lab) proxied() {
	l.Helper()
	proxy := l.BehindProxy(l.T, "member1", "member2")
	l.shop("proxy")
	golden(l.T, "proxy", steady(l.whole("foo.proxy.svc.clusterset.local").Out))
	if proxy.Taken() == 0 {
		l.Error("no connection used the proxy")
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
	if f.ofPeer() { // A peer that is lost again and again waits longer each time until its endpoints return.
		l.leave()
		l.sh("kubectl multicluster join member1 member2")
	}
	if !f.bare {
		l.shop(f.name)
		l.whole(named("", f.name))
	}
	f.cause(l, f.name)
	if f.cleanup != nil {
		l.Cleanup(func() { f.cleanup(l) })
	}
	report := l.shows(f)
	if f.also != "" {
		return
	}
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
}

func args(all []string, namespace string) []string {
	found := make([]string, len(all))
	for i, one := range all {
		found[i] = strings.ReplaceAll(one, "NAMESPACE", namespace)
	}
	return found
}

var faults = []fault{
	{name: "no-export", live: true, want: "NoExport", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member1", "member2")
		l.apply("member1", ns, service+"---"+endpoints)
	}},
	{name: "no-namespace", want: "NamespaceMissing", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member1")
		l.apply("member1", ns, service+"---"+endpoints+"---"+export)
	}},
	{name: "no-forward-block", want: "NoForwardBlock", cause: func(l *lab, _ string) { l.corefile("coredns", ownCorefile) }},
	{name: "forward-elsewhere", want: "ForwardElsewhere", cause: func(l *lab, _ string) {
		l.corefile("coredns", ownCorefile+strings.ReplaceAll(forwardBlock, secondDNS, "192.0.2.99"))
	}},
	{name: "foreign-service", live: true, want: "ForeignService", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member2")
		l.apply("member2", ns, strings.ReplaceAll(service, "name: foo", "name: derived-foo"))
		l.Namespace(ns, "member1")
		l.apply("member1", ns, service+"---"+endpoints+"---"+export)
	}},
	{name: "no-service", live: true, want: "NoService", cause: func(l *lab, ns string) {
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
	{name: "unready-endpoints", live: true, want: "NoReadyEndpoints", cause: func(l *lab, ns string) {
		l.apply("member1", ns, strings.ReplaceAll(endpoints, "ready: true", "ready: false"))
	}, advice: func(l *lab, ns string) { l.apply("member1", ns, endpoints) }},
	{name: "no-endpoints", want: "NoPods", cause: func(l *lab, ns string) {
		l.apply("member1", ns, before(endpoints, "endpoints:")+"endpoints: []")
	},
		advice: func(l *lab, ns string) { l.apply("member1", ns, endpoints) }},
	{name: "no-endpoint-ports", want: "NoEndpointPorts", cause: func(l *lab, ns string) {
		l.apply("member1", ns, strings.ReplaceAll(endpoints, "ports: [{name: http, port: 80}]", "ports: []"))
	}, advice: func(l *lab, ns string) { l.apply("member1", ns, endpoints) }},
	{name: "wrong-port-name", want: "UnknownPort", ask: "_web._tcp.FOO.svc.clusterset.local", mended: "_http._tcp.FOO.svc.clusterset.local", cause: func(*lab, string) {}},
	{name: "no-search-entry", want: "NoSearchEntry", ask: "FOO.svc", args: []string{"--namespace", "NAMESPACE"}, cause: func(*lab, string) {}},
	{name: "local-service", want: "LocalService", ask: "FOO.svc", cause: func(l *lab, ns string) { l.apply("member2", ns, service) },
		advice: func(l *lab, ns string) { l.remove("member2", ns, service) }, mended: "FOO.svc.clusterset.local"},
	{name: "node-local", want: "NodeLocalNoStanza", cause: func(l *lab, _ string) {
		l.apply("member2", "kube-system", nodeLocal)
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
	}, cleanup: func(l *lab) {
		l.Kubectl("member2", "-n", "kube-system", "delete", "configmap,daemonset", "node-local-dns")
	}},
	{name: "to-clusters", want: "NotForThisCluster", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member1", "member2")
		l.apply("member1", ns, service+"---"+endpoints+"---"+strings.ReplaceAll(export, "name: foo", "name: foo, annotations: {clusterset-dns.io/to-clusters: member9}"))
	}},
	{name: "token-revoked", live: true, want: "PeerUnauthorized", cause: func(l *lab, _ string) {
		l.Kubectl("member1", "-n", "multicluster-system", "delete", "secret", "multicluster-peer-member2")
		l.restart("member2")
	}},
	{name: "token-expired", want: "PeerTokenExpired", cause: func(l *lab, _ string) {
		l.editPeer(func(config *api.Config) {
			for _, user := range config.AuthInfos {
				user.Token = l.expiredToken()
			}
		})
	}},
	{name: "peer-unreachable", want: "PeerUnreachable", cause: func(l *lab, _ string) {
		l.editPeer(func(config *api.Config) {
			for _, cluster := range config.Clusters {
				cluster.Server = "https://" + closed
			}
		})
	}, advice: func(l *lab, _ string) {
		l.sh("kubectl multicluster join member2 --from member1 --server " + l.Config.Clusters["member1"].Server)
	}},
	{name: "peer-forbidden", want: "PeerForbidden", cause: func(l *lab, _ string) {
		l.Kubectl("member1", "delete", "clusterrolebinding", "multicluster-peer")
		l.restart("member2")
	}},
	{name: "peer-kubeconfig", want: "PeerInvalidKubeconfig", cause: func(l *lab, _ string) {
		l.Kubectl("member2", "-n", "multicluster-system", "patch", "secret", "member1", "-p", `{"data": {"kubeconfig": "Z2FyYmFnZQ=="}}`)
	}},
	{name: "peer-limits", want: "PeerInvalidLimits", cause: func(l *lab, _ string) {
		l.Kubectl("member2", "-n", "multicluster-system", "annotate", "secret", "member1", "clusterset-dns.io/max-services=many")
	}, advice: func(l *lab, _ string) {
		l.Kubectl("member2", "-n", "multicluster-system", "annotate", "secret", "member1", "clusterset-dns.io/max-services-")
	}},
	{name: "peer-secret", want: "PeerSecretMissing", cause: func(l *lab, _ string) {
		l.Kubectl("member2", "-n", "multicluster-system", "delete", "secret", "member1")
	}},
	{name: "peer-syncing", want: "PeerSyncing", cause: func(l *lab, _ string) {
		slow, end := context.WithCancel(l.all.Context())
		l.before(func(http.ResponseWriter, *http.Request) { <-slow.Done() })
		resume := l.resume
		l.resume = func() { resume(); end() }
	}, advice: func(l *lab, _ string) { l.resume() }, cleanup: func(l *lab) { l.resume() }},
	{name: "peer-too-large", want: "PeerTooLarge", cause: func(l *lab, _ string) {
		l.before(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			zeros := bytes.Repeat([]byte("0"), 1<<20)
			_, err := io.WriteString(w, `{"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": {"resourceVersion": "`)
			for range 512 { // MiB, if a fault of the controller reads all of it
				if err == nil {
					_, err = w.Write(zeros)
				}
			}
		})
	}, advice: func(l *lab, _ string) { l.resume() }},
	{name: "peer-leaving", want: "PeerLeaving", cause: func(l *lab, ns string) {
		l.shop(ns + "-held")
		l.whole("foo." + ns + "-held.svc.clusterset.local")
		l.policy(ns+"-held", "serviceimports", "UPDATE, DELETE")
		l.markLeaving()
	}, cleanup: func(l *lab) { l.noPolicy("") }},
	{name: "peer-missing", want: "PeerMissing", cause: func(l *lab, _ string) { l.leave() }},
	{name: "peer-wrong-id", want: "PeerWrongID", cause: func(l *lab, _ string) { l.renamePeer("member9") }},
	{name: "peer-own-id", want: "PeerDuplicateID", cause: func(l *lab, _ string) { l.renamePeer("member2") }},
	{name: "peer-long-id", want: "PeerInvalidID", cause: func(l *lab, _ string) { l.renamePeer(strings.Repeat("m", 70)) }},
	{name: "peer-itself", want: "PeerDuplicateCluster", cause: func(l *lab, _ string) {
		l.editPeer(func(config *api.Config) {
			for _, cluster := range config.Clusters {
				cluster.Server = l.Clusters["member2"].Config.Host
				cluster.CertificateAuthorityData = l.Clusters["member2"].Config.CAData
			}
			for _, user := range config.AuthInfos {
				user.Token, user.ClientCertificateData, user.ClientKeyData = "", l.Clusters["member2"].Config.CertData, l.Clusters["member2"].Config.KeyData
			}
		})
	}},
	{name: "peer-no-controller", want: "PeerNoController", cause: func(l *lab, _ string) {
		l.StopController("member1")
		l.Kubectl("member1", "-n", "multicluster-system", "scale", "deployment/multicluster-controller", "--replicas=0")
		l.Kubectl("member1", "-n", "multicluster-system", "delete", "lease", "multicluster-member")
	}, after: func(l *lab, _ string) { l.start("member1") }},
	{name: "peer-namespaces", want: "PeerLimitNamespaces", bare: true, cause: func(l *lab, ns string) {
		l.Kubectl("member2", "-n", "multicluster-system", "annotate", "secret", "member1", "clusterset-dns.io/namespaces=other")
		l.shop(ns)
	}, cleanup: func(l *lab) {
		l.Kubectl("member2", "-n", "multicluster-system", "annotate", "secret", "member1", "clusterset-dns.io/namespaces-")
	}},
	{name: "peer-cidrs", want: "PeerLimitEndpoints", bare: true, cause: func(l *lab, ns string) {
		l.Kubectl("member2", "-n", "multicluster-system", "annotate", "secret", "member1", "clusterset-dns.io/endpoint-cidrs=192.0.2.0/24")
		l.shop(ns)
	}, advice: func(l *lab, _ string) {
		l.Kubectl("member2", "-n", "multicluster-system", "annotate", "--overwrite", "secret", "member1", "clusterset-dns.io/endpoint-cidrs=192.0.2.0/24, 10.1.0.0/16")
	}, cleanup: func(l *lab) {
		l.Kubectl("member2", "-n", "multicluster-system", "annotate", "secret", "member1", "clusterset-dns.io/endpoint-cidrs-")
	}},
	{name: "foreign-import", live: true, want: "ExportFailed", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member1", "member2")
		l.apply("member1", ns, userImport("ports: [{name: http, port: 80}]"))
		l.apply("member1", ns, service+"---"+endpoints+"---"+export)
	}},
	{name: "not-exported", want: "NamespaceNotExported", bare: true, cause: func(l *lab, ns string) {
		l.flag("member1", "--export-namespaces=visibility=public")
		l.shop(ns)
	}, cleanup: func(l *lab) { l.flag("member1", "") }},
	{name: "not-imported", want: "NamespaceNotChosen", bare: true, cause: func(l *lab, ns string) {
		l.flag("member2", "--import-namespaces=team=shop")
		l.shop(ns)
	}, cleanup: func(l *lab) { l.flag("member2", "") }},
	{name: "silent-here", want: "ControllerSilent", bare: true, cause: func(l *lab, ns string) {
		l.StopController("member2")
		l.Kubectl("member2", "-n", "multicluster-system", "patch", "lease", "multicluster-member", "--type=merge", "--patch", `{"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}`)
		l.shop(ns)
	}, after: func(l *lab, _ string) { l.start("member2") }},
	{name: "no-ports", want: "NoPorts", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member2")
		l.apply("member2", ns, userImport("ports: []")+"---"+userSlice)
	}, advice: func(l *lab, ns string) { l.apply("member2", ns, userImport("ports: [{name: http, port: 80}]")) }},
	{name: "no-family", want: "IPFamilyNotSupported", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member2")
		l.apply("member2", ns, userImport("ports: [{name: http, port: 80}], ipFamilies: [IPv6]")+"---"+userSlice)
	}, advice: func(l *lab, ns string) {
		l.apply("member2", ns, userImport("ports: [{name: http, port: 80}], ipFamilies: [IPv4]"))
	}},
	{name: "unknown-service-name", want: "InvalidName", cause: func(l *lab, ns string) {
		l.Kubectl("member2", "-n", ns, "annotate", "--overwrite", "serviceimport", "foo", "multicluster.kubernetes.io/derived-service=not_a_name")
	}},
	{name: "invalid-ips", want: "InvalidIPs", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member2")
		l.apply("member2", ns, userImport("ports: [{name: http, port: 80}], ips: [127.0.0.1]")+"---"+userSlice)
	}},
	{name: "unknown-type", want: "UnknownType", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member2")
		l.anyType(ns)
		l.apply("member2", ns, userSlice)
	}, advice: func(l *lab, ns string) {
		l.Kubectl("member2", "-n", ns, "patch", "serviceimport", "foo", "--type", "merge", "--patch", `{"spec":{"type":"ClusterSetIP"}}`)
	}, cleanup: func(l *lab) {
		l.Kubectl("member2", "apply", "--server-side", "--force-conflicts", "-k", filepath.Join(binaries.Root(), "deploy", "crd"))
	}},
	{name: "finalizer", want: "ImportPending", cause: func(l *lab, ns string) {
		l.Kubectl("member2", "-n", ns, "patch", "service", "derived-foo", "--patch", `{"metadata":{"finalizers":["example.org/billing"]}}`)
		l.Kubectl("member2", "-n", ns, "delete", "service", "derived-foo", "--wait=false")
	}, advice: func(l *lab, ns string) {
		l.Kubectl("member2", "-n", ns, "patch", "service", "derived-foo", "--patch", `{"metadata":{"finalizers":null}}`)
	}},
	{name: "service-refused", want: "ServiceRefused", bare: true, cause: func(l *lab, ns string) {
		l.Namespace(ns, "member1", "member2")
		l.policy(ns, "services", "CREATE")
		l.apply("member1", ns, service+"---"+endpoints+"---"+export)
	}, advice: func(l *lab, ns string) { l.noPolicy(ns) }},
	{name: "import-refused", want: "ImportRefused", cause: func(l *lab, ns string) {
		l.policy(ns, "serviceimports", "UPDATE")
		l.apply("member1", ns, strings.ReplaceAll(service, "port: 80", "port: 81"))
	}, advice: func(l *lab, ns string) { l.noPolicy(ns) }},
	{name: "contested", want: "Contested", cause: func(l *lab, ns string) {
		l.rival(ns)
	}, advice: func(l *lab, _ string) { l.stopRival() }},
	{name: "conflict", live: true, also: "Conflict", cause: func(l *lab, ns string) {
		l.apply("member2", ns, strings.ReplaceAll(service, "port: 80}", "port: 80, appProtocol: h2c}, {name: more, port: 81}")+"---"+
			strings.NewReplacer("10.1.0.5", "10.2.0.5", "port: 80}", "port: 80}, {name: more, port: 81}").Replace(endpoints)+"---"+export)
	}},
	{name: "ndots", also: "NDots", ask: "FOO.svc", args: []string{"--pod", "NAMESPACE/client"}, cause: func(l *lab, ns string) {
		l.client(ns, `dnsConfig: {searches: [clusterset.local], options: [{name: ndots, value: "1"}]}`)
	}},
	{name: "no-search-entry-of-pod", live: true, want: "NoSearchEntry", ask: "foo", args: []string{"--pod", "NAMESPACE/client"}, cause: func(l *lab, ns string) {
		l.apply("member2", ns, deployment)
		l.client(ns, "dnsConfig: {searches: [example.org]}")
	}, after: func(l *lab, ns string) { // the new pod of the Deployment
		l.ended(ns, "client")
		spec := l.Kubectl("member2", "-n", ns, "get", "deployment", "client", "-o", "jsonpath={.spec.template.spec.dnsConfig}")
		l.client(ns, "dnsConfig: "+spec)
	}},
	{name: "pod-dns", want: "PodDNS", args: []string{"--pod", "NAMESPACE/client"}, cause: func(l *lab, ns string) {
		l.client(ns, "dnsPolicy: Default")
	}, advice: func(l *lab, ns string) {
		l.ended(ns, "client")
		l.client(ns, "dnsPolicy: ClusterFirst")
	}},
	{name: "overlapping-networks", want: "OverlappingNetworks", cause: func(l *lab, _ string) {
		l.podNetwork("member1", "10.1.0.0/16")
		l.podNetwork("member2", "10.1.0.0/20")
	}, advice: func(l *lab, _ string) { l.podNetwork("member2", "10.2.0.0/16") }, cleanup: func(l *lab) {
		l.Kubectl("member1", "delete", "node", "worker")
		l.Kubectl("member2", "delete", "node", "worker")
	}},
	{name: "plugin-missing", live: true, want: "PluginMissing", cause: func(l *lab, _ string) {
		l.frozen = true
		l.corefile("coredns", strings.Replace(ownCorefile, "    forward .", "    multicluster clusterset.local\n    forward .", 1))
		l.crash("kube-system", "coredns-0", "/etc/coredns/Corefile:9 - Error during parsing: Unknown directive 'multicluster'\n")
	}, advice: func(l *lab, _ string) {
		l.corefile("coredns", ownCorefile+forwardBlock)
		l.frozen = false
		l.ended("kube-system", "coredns-0")
	}},
	{name: "plugin-rights", live: true, want: "PluginRights", cause: func(l *lab, _ string) {
		l.Kubectl("member2", "delete", "clusterrolebinding", "multicluster-dns")
		l.ended("multicluster-dns", "multicluster-dns-0")
		l.ended("multicluster-dns", "multicluster-dns-1")
	}},
	{name: "corefile-not-loaded", want: "CorefileNotLoaded", cause: func(l *lab, _ string) {
		l.corefile("coredns", ownCorefile)
		l.kubelet()
		l.frozen = true // Without the plugin reload, a server keeps its Corefile.
		l.corefile("coredns", ownCorefile+forwardBlock)
	}, after: func(l *lab, _ string) { l.frozen = false }},
	{name: "stale-server", want: "StaleDNSServer", bare: true, cause: func(l *lab, ns string) {
		var err error
		if l.gate, err = faultproxy.Listen(strings.TrimPrefix(l.Clusters["member2"].Config.Host, "https://")); err != nil {
			l.Fatal(err)
		}
		l.ended("multicluster-dns", "multicluster-dns-1")
		l.kubelet()
		if err := l.gate.Close(); err != nil {
			l.Fatal(err)
		}
		l.gate = nil
		l.shop(ns)
	}},
	{name: "peer-no-crd", live: true, want: "PeerNoCRD", cause: func(l *lab, ns string) {
		if err := l.Clusters["member1"].RemoveCRDs(l.all.Context()); err != nil {
			l.Fatal(err)
		}
		// The exports go with their CRD. What a controller that starts cannot read, it leaves as it is.
		l.Kubectl("member2", "-n", ns, "wait", "--for=delete", "serviceimport/foo", "--timeout=2m")
		l.restart("member2")
	}, after: func(l *lab, ns string) {
		l.restart("member1")
		l.apply("member1", ns, export)
	}},
	{name: "peer-silent", live: true, want: "PeerControllerSilent", cause: func(l *lab, _ string) {
		l.StopController("member1")
	}, after: func(l *lab, _ string) { l.start("member1") }},
}
