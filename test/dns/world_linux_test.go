package dns

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// server is where clients reach CoreDNS, without the port.
const server = "127.0.0.1"

// world is the network of one test.
type world struct {
	*testing.T
	cluster  *kube.Cluster     // shared by all tests
	api      *faultproxy.Proxy // by which each CoreDNS reaches the API server
	upstream *resolver.Upstream
	changed  *[]objects // that are not as they were

	address   string // that is asked
	pod       string // namespace and service account of the next CoreDNS; "" if it runs in no pod
	namespace string // of objects that do not say theirs
}

type objects struct{ namespace, text string }

// inNetwork runs a test in a network of its own.
func inNetwork(t *testing.T, body func(w *world)) {
	t.Helper()
	shared.InNetNS(t, func(t *testing.T, c *kube.Cluster) {
		api, err := faultproxy.Listen(strings.TrimPrefix(c.Config.Host, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		w := &world{T: t, cluster: c, api: api, changed: new([]objects), address: server + ":53", pod: "kube-system/coredns", namespace: "default"}
		w.ownFiles()
		w.upstream = resolver.NewUpstream(t, upstreamIP, "53", outside+" 30 IN A 192.0.2.1", "www.example. 30 IN A 192.0.2.4",
			"example. 30 IN A 192.0.2.5", "a.www.example.org. 30 IN A 192.0.2.6", "1.2.0.192.in-addr.arpa. 30 IN PTR "+outside)
		t.Cleanup(func() {
			if log, err := os.ReadFile(w.log()); t.Failed() && err == nil {
				t.Logf("CoreDNS said:\n%s", log)
			}
			for _, zone := range []string{"clusterset.local.", "cluster.local."} {
				if leaked := w.upstream.AskedBelow(zone); len(leaked) > 0 {
					t.Errorf("the cluster's names went upstream: %v", leaked)
				}
			}
			w.putBack()
		})
		body(w)
	})
}

// run is a subtest in the same network.
func (w *world) run(name string, body func(w *world)) {
	w.Helper()
	w.Run(name, func(t *testing.T) {
		inner := *w
		inner.T = t
		body(&inner)
	})
}

// at is the same network, for what happens at another server.
func (w *world) at(address string) *world {
	other := *w
	other.address = address
	return &other
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// apply creates and changes objects until the end of the test.
func (w *world) apply(text string) {
	w.Helper()
	w.changes(text)
	w.must(w.cluster.Apply(w.Context(), w.namespace, text))
}

func (w *world) remove(text string) {
	w.Helper()
	w.changes(text)
	w.must(w.cluster.Delete(w.Context(), w.namespace, text))
}

// changes notes objects that are put back at the end.
func (w *world) changes(text string) { *w.changed = append(*w.changed, objects{w.namespace, text}) }

func (w *world) putBack() {
	ctx := context.WithoutCancel(w.Context())
	for _, o := range slices.Backward(*w.changed) {
		if err := w.cluster.Delete(ctx, o.namespace, o.text); err != nil {
			w.Error(err)
		}
	}
	if err := w.cluster.Apply(ctx, "default", fixtures); err != nil {
		w.Error(err)
	}
}

// ownNamespace is for tests that run beside others: what they change is there.
func (w *world) ownNamespace() {
	w.Helper()
	w.namespace = kube.Namespace(w.T, w.cluster)
}

// imported is the name of an import there.
func (w *world) imported(service string) string {
	return service + "." + w.namespace + ".svc.clusterset.local."
}

func (w *world) kubectl(args ...string) string {
	w.Helper()
	out, err := binaries.Kubectl(w.Context(), w.cluster, args...)
	w.must(err)
	return out
}

// asPod lets programs find what a pod of the service account finds: its token, the API server's address, and the DNS servers that its
// node uses: the test's own.
func (w *world) asPod() {
	w.Helper()
	const folder = "/var/run/secrets/kubernetes.io/serviceaccount"
	if w.pod == "" {
		w.must(os.RemoveAll(folder))
		w.must(os.Unsetenv("KUBERNETES_SERVICE_HOST"))
		return
	}
	namespace, account, _ := strings.Cut(w.pod, "/")
	config, _, err := w.cluster.ServiceAccount(w.Context(), namespace, account)
	w.must(err)
	for name, text := range map[string]string{"token": config.BearerToken, "ca.crt": string(config.CAData), "namespace": namespace} {
		write(w.T, filepath.Join(folder, name), text)
	}
	host, port, _ := strings.Cut(w.api.Address(), ":")
	w.must(os.Setenv("KUBERNETES_SERVICE_HOST", host)) // of this process, which is the test's own
	w.must(os.Setenv("KUBERNETES_SERVICE_PORT", port))
	write(w.T, resolvConf, "nameserver "+upstreamIP+"\n")
}

// process is a CoreDNS that runs.
type process struct {
	*kube.Program
	corefile string // its path
}

var isReady = regexp.MustCompile(`(?m)^ +ready$`)

// coreDNS runs CoreDNS with a Corefile until the test's end, in a pod. It returns once it is ready, if the Corefile has that plugin.
func (w *world) coreDNS(corefile string) process {
	w.Helper()
	p := w.start(corefile)
	if isReady.MatchString(corefile) {
		w.getsReady()
	}
	return p
}

// start is coreDNS for one that need not get ready: it returns once it answers at all, whatever it answers.
func (w *world) start(corefile string) process {
	w.Helper()
	program, err := binaries.Program("coredns")
	if err != nil {
		w.Fatalf("run `make coredns` first: %v", err)
	}
	path := filepath.Join(w.TempDir(), "Corefile")
	write(w.T, path, corefile)
	w.asPod()
	port := w.address[strings.LastIndex(w.address, ":")+1:]
	p, err := w.cluster.Beside(w.Context(), w.answers, program, "-conf", path, "-dns.port="+port)
	if err != nil {
		w.Fatalf("%v\n%s", err, corefile)
	}
	w.Cleanup(p.Stop)
	return process{p, path}
}

func (w *world) log() string { return filepath.Join(filepath.Dir(w.cluster.Kubeconfig), "coredns.log") }

// answers says whether anything answers over UDP and TCP, whatever it answers. The question is for TXT: questionsCounted counts others,
// and a server counts a question after it has answered.
func (w *world) answers(context.Context) error {
	for _, network := range []string{"udp", "tcp"} {
		client := &dns.Client{Net: network, Timeout: 100 * time.Millisecond}
		if _, _, err := client.Exchange(new(dns.Msg).SetQuestion("is.anybody.there.", dns.TypeTXT), w.address); err != nil {
			return err
		}
	}
	return nil
}

// ask puts a question, such as "foo.default.svc.clusterset.local. A", over UDP.
func (w *world) ask(question string) *dns.Msg {
	w.Helper()
	m, err := resolver.Ask("udp", w.address, question)
	if err != nil {
		w.Fatalf("%s: %v", question, err)
	}
	return m
}

// wants waits until a question is answered so, over UDP and over TCP: with an rcode and the data of the records.
func (w *world) wants(question, want string) {
	w.Helper()
	w.eventually(question, func() error { return differs(w.address, question, want) })
}

func (w *world) eventually(what string, condition func() error) {
	w.Helper()
	kube.Eventually(w.T, what, condition)
}

// ready gives an error unless the plugin `ready` has that HTTP status.
func ready(want int) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: resolver.Patience}
	response, err := client.Get("http://" + server + ":8181/ready")
	if err != nil {
		return err
	}
	if response.StatusCode != want {
		err = fmt.Errorf("ready is %d; want %d", response.StatusCode, want)
	}
	return errors.Join(err, response.Body.Close())
}

// readyIs looks once.
func (w *world) readyIs(want int) {
	w.Helper()
	if err := ready(want); err != nil {
		w.Error(err)
	}
}

func (w *world) getsReady() {
	w.Helper()
	w.eventually("become ready", func() error { return ready(http.StatusOK) })
}

// example is the text of a file in corefile-examples.
func example(name string) string {
	text, err := os.ReadFile(filepath.Join(binaries.Root(), "corefile-examples", name+".Corefile"))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// edited is a text in which parts are replaced, each of which has to be there once: old and new in turn.
func edited(text string, parts ...string) string {
	for part := range slices.Chunk(parts, 2) {
		if strings.Count(text, part[0]) != 1 {
			panic(fmt.Sprintf("%q is not there once:\n%s", part[0], text))
		}
		text = strings.Replace(text, part[0], part[1], 1)
	}
	return text
}
