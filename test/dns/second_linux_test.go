package dns

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// TestCentral: a CoreDNS in no pod at all reads a cluster by a kubeconfig, as an account that has nothing but deploy/plugin/rights.
func TestCentral(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.pod = ""
		w.writeKubeconfig("nowhere", "member1") // a caller that ignores the context fails
		w.coreDNS(example("central"))
		w.hasImports()
		w.wants(outside+" A", "REFUSED")
	})
}

// writeKubeconfig puts a kubeconfig where the example and the manual have it, with a current context and those that there are.
func (w *world) writeKubeconfig(current string, contexts ...string) {
	w.Helper()
	config, _, err := w.cluster.ServiceAccount(w.Context(), "default", "central")
	w.must(err)
	text, err := w.api.Kubeconfig(config)
	w.must(err)
	file, err := clientcmd.Load(text)
	w.must(err)
	only := file.Contexts[file.CurrentContext]
	file.CurrentContext, file.Contexts = current, map[string]*api.Context{}
	for _, name := range contexts {
		file.Contexts[name] = only
	}
	w.must(clientcmd.WriteToFile(*file, "/var/run/secrets/multicluster/kubeconfig"))
}

// clusterIP is that of the second server, in the examples.
const clusterIP = "10.96.0.11"

// behind is where the second server is reached behind its Service, as a pod would be.
const behind = "10.99.0.7:1053"

// withKubeProxy makes ClusterIPs carry traffic.
func (w *world) withKubeProxy() {
	w.Helper()
	w.changes(`{apiVersion: v1, kind: Node, metadata: {name: node}}`)
	w.must(w.cluster.StartKubeProxy(w.Context()))
}

// secondServer runs what deploy/plugin/server applies, with its arguments, as its account. Its Service reaches it.
func (w *world) secondServer(corefile string) process {
	w.Helper()
	w.must(w.cluster.Apply(w.Context(), "", edited(w.kubectl("kustomize", "deploy/plugin/server"),
		"kind: Service\nmetadata:\n  labels:\n    app.kubernetes.io/name: multicluster-dns\n  name: multicluster-dns\n  namespace: multicluster-dns\nspec:\n",
		"kind: Service\nmetadata: {name: multicluster-dns, namespace: multicluster-dns}\nspec:\n  clusterIP: "+clusterIP+"\n")))
	ip, port, _ := strings.Cut(behind, ":")
	w.must(w.cluster.Apply(w.Context(), "", fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: multicluster-dns, namespace: multicluster-dns, labels: {kubernetes.io/service-name: multicluster-dns}}
addressType: IPv4
endpoints: [{addresses: [%s]}]
ports: [{name: dns, port: %[2]s, protocol: UDP}, {name: dns-tcp, port: %[2]s, protocol: TCP}]
`, ip, port)))
	second := w.at(behind)
	second.pod = "multicluster-dns/multicluster-dns"
	p := second.coreDNS(corefile)
	for _, address := range []string{behind, clusterIP + ":53"} {
		w.at(address).wants(foo+" A", "NOERROR 10.0.0.77")
	}
	return p
}

// withoutPorts is a Corefile without the plugins whose ports are the other server's: here, both are on one machine.
func withoutPorts(text string) string {
	return edited(text, "    health {\n        lameduck 5s\n    }\n", "", "    ready\n", "", "    prometheus :9153\n", "")
}

// TestSecondServer: the cluster's own server, in which our plugin has no block, forwards to the ClusterIP of a second one, which runs as
// deploy/plugin/server has it.
func TestSecondServer(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.withKubeProxy()
		w.run("forwarding the zone", testForwarding)
		w.run("forwarding all names that it does not have", testAliasForwarding)
	})
}

func testForwarding(w *world) {
	second := w.secondServer(example("second-server"))
	w.start(example("forwarding") + withoutPorts(stockAlone()))
	w.hasImports()
	w.wants(local+" A", "NOERROR 10.96.0.100")
	w.wants(outside+" A", "NOERROR 192.0.2.1")
	w.run("the cache holds no name back for long", func(w *world) {
		w.wants("new.default.svc.clusterset.local. A", "NXDOMAIN")
		w.apply(strings.Replace(anImport, "foo", "new", 1))
		w.wants("new.default.svc.clusterset.local. A", "NOERROR 10.0.0.77")
	})
	w.run("without the second, clusterset names are an error and others are not", func(w *world) {
		second.Stop()
		w.wants("other.default.svc.clusterset.local. A", "SERVFAIL")
		w.wants(local+" A", "NOERROR 10.96.0.100")
	})
}

func testAliasForwarding(w *world) {
	testOverlay(w)
	second := w.secondServer(withoutPorts(example("alias-second-server")))
	w.coreDNS(example("alias-forwarding"))
	w.run("clusterset.local", (*world).hasImports)
	w.run("imports under cluster.local", (*world).hasImportsAsLocal)
	w.run("the first server's own names", func(w *world) {
		w.wants(local+" A", "NOERROR 10.96.0.100")
		if m := w.ask("cluster.local. SOA"); len(m.Answer) != 1 || m.Answer[0].Header().Ttl != 30 {
			w.Errorf("%v; want the SOA record of the kubernetes plugin", m)
		}
	})
	w.run("a question is asked once at each", testNoLoop)
	w.run("without the second, a name that only it knows is an error and no denial, and the rest of the world is found", func(w *world) {
		second.Stop()
		w.wants(localFoo+" A", "SERVFAIL")
		w.wants(local+" A", "NOERROR 10.96.0.100")
		w.searches(podSearch)
		for name, want := range map[string]string{"www.example.org": "192.0.2.1", "local": "10.96.0.100"} {
			if got := w.getent(name); got != want {
				w.Errorf("%s is %s; want %s", name, got, want)
			}
		}
	})
}

// testOverlay: what the example says of deploy/plugin/server is true.
func testOverlay(w *world) {
	text := example("alias-second-server")
	const generator = "configMapGenerator: [{name: multicluster-dns, namespace: multicluster-dns, behavior: replace, files: [Corefile]}]"
	if !strings.Contains(text, generator) {
		w.Fatalf("the example does not say %s", generator)
	}
	overlay := w.TempDir()
	base, err := filepath.Rel(overlay, filepath.Join(binaries.Root(), "deploy/plugin/server"))
	w.must(err)
	write(w.T, filepath.Join(overlay, "kustomization.yaml"), "resources: ["+base+"]\n"+generator+"\n")
	write(w.T, filepath.Join(overlay, "Corefile"), text)
	rendered := w.kubectl("kustomize", overlay)
	if !strings.Contains(rendered, "    clusterset.local cluster.local {\n") || strings.Count(rendered, "name: multicluster-dns-") > 0 {
		w.Errorf("the overlay is\n%s", rendered)
	}
}

// testNoLoop counts the questions that arrive for names that the first server does not have.
func testNoLoop(w *world) {
	first, second := w.door(), w.at(behind).door()
	for _, name := range []string{localFoo, "bar.default.svc.cluster.local.", "www.example.org.default.svc.cluster.local."} {
		w.ask(name + " A")
		want := []dns.Question{{Name: name, Qtype: dns.TypeA, Qclass: dns.ClassINET}}
		if diff := cmp.Diff([][]dns.Question{want, want}, [][]dns.Question{first.questions(w), second.questions(w)}); diff != "" {
			w.Error(diff)
		}
	}
}
