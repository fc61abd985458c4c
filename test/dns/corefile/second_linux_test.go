package corefile

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

// TestCentral: a CoreDNS in no pod at all reads a cluster by a kubeconfig, as an account that has nothing but deploy/plugin/rights.
func TestCentral(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		apply(t, c, anImport)
		apply(t, c, aHeadlessImport)
		writeKubeconfig(t, c, "nowhere", "member1") // a caller that ignores the context fails
		start(t, c, "53", example("central"))
		getsReady(t)
		testImports(t)
		wants(t, "www.example.org.", dns.TypeA, "REFUSED")
	})
}

// writeKubeconfig puts a kubeconfig where the example and the manual have it, with a current context and those that there are.
func writeKubeconfig(t *testing.T, c *controlplane.Cluster, current string, contexts ...string) {
	t.Helper()
	kubectl(t, c, "apply", "-k", "deploy/plugin/rights")
	_, path, err := c.ServiceAccount(t.Context(), "default", "central")
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, "create", "clusterrolebinding", "central", "--clusterrole=multicluster-dns", "--serviceaccount=default:central")
	file, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	only := file.Contexts[file.CurrentContext]
	file.CurrentContext, file.Contexts = current, map[string]*api.Context{}
	for _, name := range contexts {
		file.Contexts[name] = only
	}
	mountRun(t)
	if err := clientcmd.WriteToFile(*file, "/var/run/secrets/multicluster/kubeconfig"); err != nil {
		t.Fatal(err)
	}
}

// TestSecondServer: the cluster's own server, in which our plugin has no block, forwards the zone to the ClusterIP of a second one,
// which runs as deploy/plugin/server has it.
func TestSecondServer(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{ServiceCIDRs: "10.96.0.0/24"})
		installCRDs(t, c)
		if err := c.StartKubeProxy(t.Context()); err != nil {
			t.Fatal(err)
		}
		apply(t, c, anImport)
		apply(t, c, aHeadlessImport)
		apply(t, c, strings.Replace(aLocalService, "10.0.0.100", "10.96.0.100", 1))
		startUpstream(t)

		second := startSecondServer(t, c, example("second-server"))
		getsReady(t)
		stock := withoutPorts(t, replaced(t, read(t, example("stock")), "\n    multicluster clusterset.local\n", "\n"))
		apply(t, c, binaries.KubeadmRights)
		asPod(t, c, "kube-system", "coredns")
		start(t, c, "53", temporary(t, read(t, example("forwarding"))+stock))

		testImports(t)
		wants(t, "local.default.svc.cluster.local.", dns.TypeA, "NOERROR 10.96.0.100")
		wants(t, "www.example.org.", dns.TypeA, "NOERROR 192.0.2.1")
		t.Run("the cache holds no name back for long", func(t *testing.T) {
			wants(t, "new.default.svc.clusterset.local.", dns.TypeA, "NXDOMAIN")
			apply(t, c, strings.Replace(anImport, "foo", "new", 1))
			wants(t, "new.default.svc.clusterset.local.", dns.TypeA, "NOERROR 10.0.0.77")
		})
		t.Run("without the second, clusterset names are an error and others are not", func(t *testing.T) {
			second.Stop()
			wants(t, "other.default.svc.clusterset.local.", dns.TypeA, "SERVFAIL")
			wants(t, "local.default.svc.cluster.local.", dns.TypeA, "NOERROR 10.96.0.100")
		})
	})
}

// withoutPorts is a Corefile without the plugins whose ports are the other server's: here, both are on one machine.
func withoutPorts(t *testing.T, text string) string {
	t.Helper()
	for _, served := range []string{"    health {\n        lameduck 5s\n    }\n", "    ready\n", "    prometheus :9153\n"} {
		text = replaced(t, text, served, "")
	}
	return text
}

// secondIP is where the second server is reached behind its Service, as a pod would be.
const secondIP = "10.99.0.7"

// startSecondServer runs what deploy/plugin/server applies, with its arguments, as its account. Its
// Service reaches it.
func startSecondServer(t *testing.T, c *controlplane.Cluster, corefile string) *controlplane.Beside {
	t.Helper()
	const clusterIP = "10.96.0.11" // of the examples
	rendered := kubectl(t, c, "kustomize", "deploy/plugin/server")
	apply(t, c, replaced(t, rendered, "kind: Service\nmetadata:\n  labels:\n    app.kubernetes.io/name: multicluster-dns\n  name: multicluster-dns\n  namespace: multicluster-dns\nspec:\n",
		"kind: Service\nmetadata: {name: multicluster-dns, namespace: multicluster-dns}\nspec:\n  clusterIP: "+clusterIP+"\n"))
	apply(t, c, fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: multicluster-dns, namespace: multicluster-dns, labels: {kubernetes.io/service-name: multicluster-dns}}
addressType: IPv4
endpoints: [{addresses: [%s]}]
ports: [{name: dns, port: 1053, protocol: UDP}, {name: dns-tcp, port: 1053, protocol: TCP}]
`, secondIP))
	asPod(t, c, "multicluster-dns", "multicluster-dns")
	server := start(t, c, "1053", corefile, "-dns.port=1053")
	wantsAt(t, "1053", foo, dns.TypeA, "NOERROR 10.0.0.77")
	controlplane.Eventually(t, "the ClusterIP reaches the second server", func() error {
		client := &dns.Client{Timeout: time.Second}
		m, _, err := client.Exchange(new(dns.Msg).SetQuestion(foo, dns.TypeA), net.JoinHostPort(clusterIP, "53"))
		if err == nil && short(m) != "NOERROR 10.0.0.77" {
			err = fmt.Errorf("it answers %s", short(m))
		}
		return err
	})
	return server
}
