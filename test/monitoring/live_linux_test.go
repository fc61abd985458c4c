package monitoring

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/test/interop/beside"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

// TestAlertsLive: a real Prometheus scrapes the controllers of two clusters and the DNS server of one, home, while faults happen there.
// It evaluates the rules that users get, with shorter times. Each alert fires, reaches a receiver, and clears. Afterwards each query of
// the dashboard has data.
//
// It has a network of its own, because the endpoint of the peer needs an address that is not on loopback.
func TestAlertsLive(t *testing.T) {
	kube.InNetNS(t, func(t *testing.T) {
		s := newStage(t)
		s.firing("nothing is wrong")
		seen := map[string]bool{}
		for _, phase := range s.phases() {
			var want []string
			for _, f := range phase {
				t.Logf("%s: %s", f.alert, f.name)
				f.begin()
				want = append(want, f.alert)
				seen[f.alert] = true
			}
			s.firing("while "+phase[0].name, want...)
			for _, f := range phase {
				f.end()
			}
			s.firing("after " + phase[0].name)
			s.export(phase[0].alert)
		}
		for name, a := range alerts(t) {
			if !seen[name] {
				t.Errorf("no fault was injected for %s", name)
			}
			s.received.check(t, name, a)
		}
		if points := s.queries(); os.Getenv("DASHBOARD") == "write" {
			s.record(points)
		}
	})
}

// trouble is a fault in home.
type trouble struct {
	name, alert string
	begin, end  func()
}

type stage struct {
	*world.World
	home, east *world.Cluster
	controller *kube.Program // of home
	coredns    *kube.Program
	toEast     *faultproxy.API   // between the controller of home and the API server of east
	toHome     *faultproxy.Proxy // between CoreDNS and the API server of home
	endpoint   string            // of the Service web in east
	listener   net.Listener      // at endpoint

	metrics    map[string]string // addresses by their names
	prometheus string            // its URL
	received   *receiver
	began      time.Time
}

func newStage(t *testing.T) *stage {
	s := &stage{World: world.Joined(t, "home", "east"), metrics: map[string]string{}, received: &receiver{}}
	s.home, s.east = s.Cluster("home"), s.Cluster("east")
	for _, name := range []string{"home", "east", "coredns", "dns", "prometheus", "pprof"} {
		s.metrics[name] = beside.FreeAddress(t)
	}
	s.endpoint = net.JoinHostPort(kube.NodeIP, portOf(beside.FreeAddress(t)))
	s.listen()
	var err error
	s.toEast, err = faultproxy.Before(s.east.Config)
	s.Must(err)
	t.Cleanup(func() { _ = s.toEast.Close() })
	s.toHome, err = faultproxy.Listen(strings.TrimPrefix(s.home.Config.Host, "https://"))
	s.Must(err)
	t.Cleanup(func() { _ = s.toHome.Close() })

	s.export("web")
	s.Must(s.east.Lose(t.Context(), "home")) // home's faults are not those of a peer
	s.giveToken()
	_ = s.start(s.east)
	s.controller = s.start(s.home, "--pprof-bind-address", s.metrics["pprof"])
	s.startCoreDNS()
	s.startPrometheus()
	s.Until("web resolves in home", s.ask)
	s.sees("the endpoint of the peer answers", `multicluster_peer_data_path{cluster="home",peer="east",verdict="Proven"} == 1`)
	s.sees("the peer announces its version", `multicluster_peer_info{cluster="home",version!=""} and on (version) multicluster_build_info{cluster="east"}`)
	go s.asking()
	for address, want := range map[string]bool{"pprof": true, "home": false} {
		if _, err := binaries.Get(t.Context(), "http://"+s.metrics[address]+"/debug/pprof/cmdline"); (err == nil) != want {
			t.Errorf("profiles at the address of %s: %v", address, err)
		}
	}
	return s
}

// service is a Service with its export: its name, and more of its spec.
const service = `
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {%[2]s ports: [{name: http, port: 80}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: %[1]s}`

// export exports a Service with an endpoint from east, so that the queries about delays have data.
func (s *stage) export(name string) {
	s.Helper()
	name = strings.ToLower(name)
	s.apply(s.east, fmt.Sprintf(service, name, "")+fmt.Sprintf(`
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: %[1]s-1
  labels: {kubernetes.io/service-name: %[1]s, endpointslice.kubernetes.io/managed-by: test}
  annotations: {endpoints.kubernetes.io/last-change-trigger-time: %[2]q}
addressType: IPv4
ports: [{name: http, port: %[3]s}]
endpoints: [{addresses: [%[4]s], conditions: {ready: true}}]
`, name, time.Now().UTC().Format(time.RFC3339Nano), portOf(s.endpoint), kube.NodeIP))
}

// broken is a ServiceImport without ports, which no Service can have.
const broken = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: broken}
spec: {type: ClusterSetIP, ports: []}`

// phases are the faults. Those of one phase happen together: none causes or hides the alert of another.
func (s *stage) phases() [][]trouble {
	return [][]trouble{
		{
			{"a cluster exports another type under the name", "MulticlusterExportsConflict",
				func() { s.apply(s.home, fmt.Sprintf(service, "web", "clusterIP: None,")) },
				func() { s.delete(s.home, fmt.Sprintf(service, "web", "clusterIP: None,")) }},
			{"a limit refuses the endpoint", "MulticlusterPeerRefused",
				func() { s.annotate(`{"clusterset-dns.io/endpoint-cidrs":"10.98.0.0/16"}`) },
				func() { s.annotate(`{"clusterset-dns.io/endpoint-cidrs":null}`) }},
			{"an import has no ports", "MulticlusterImportsNotReady",
				func() { s.apply(s.home, broken) },
				func() { s.delete(s.home, broken) }},
			s.contest(),
		},
		{
			{"a token is not renewed", "MulticlusterTokenExpiring", s.giveOldToken, s.giveToken},
		},
		{
			s.refused("the API server of the peer is cut off", "MulticlusterPeerDisconnected", func() *faultproxy.Proxy { return s.toEast.Proxy }),
			s.refused("the DNS server is cut off", "MulticlusterDNSCutOff", func() *faultproxy.Proxy { return s.toHome }),
		},
		{
			s.dead(),
			{"the DNS server ends", "MulticlusterDNSDown", func() { s.coredns.Stop() }, s.startCoreDNS},
		},
		{
			{"the controller ends", "MulticlusterControllerDown", func() {
				s.Must(syscall.Kill(s.controller.PID(), syscall.SIGTERM)) // it releases its Lease
				s.controller.Wait()
			}, func() { s.controller = s.start(s.home) }},
		},
	}
}

// refused lets a proxy refuse connections.
func (s *stage) refused(name, alert string, proxy func() *faultproxy.Proxy) trouble {
	var resume func() error
	return trouble{name, alert, func() {
		var err error
		resume, err = proxy().Refuse()
		s.Must(err)
	}, func() { s.Must(resume()) }}
}

// dead cuts off the API server and the endpoint of the peer.
func (s *stage) dead() trouble {
	cut := s.refused("the peer is dead", "MulticlusterPeerDataPath", func() *faultproxy.Proxy { return s.toEast.Proxy })
	return trouble{cut.name, cut.alert, func() {
		s.Must(s.listener.Close())
		cut.begin()
	}, func() {
		s.listen()
		cut.end()
	}}
}

// contest is another writer, which sets back the internalTrafficPolicy of the derived Service.
func (s *stage) contest() trouble {
	var ended sync.WaitGroup
	ctx, stop := context.WithCancel(s.Context())
	write := func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			derived := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "derived-web"}}
			_ = s.home.Admin.Patch(ctx, derived, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"internalTrafficPolicy":"Local"}}`)))
		}
	}
	return trouble{"another writer sets a field back", "MulticlusterContested", func() { ended.Go(write) }, func() {
		stop()
		ended.Wait()
	}}
}

// giveOldToken gives home a token for east whose claims are those of a token that expires soon. East accepts the client certificate
// beside it.
func (s *stage) giveOldToken() {
	now := time.Now()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Subject: "system:serviceaccount:multicluster-system:multicluster-peer", IssuedAt: jwt.NewNumericDate(now.Add(-3 * time.Hour)), ExpiresAt: jwt.NewNumericDate(now.Add(30 * time.Minute)),
	}).SignedString([]byte("no key of east"))
	s.Must(err)
	admin := s.east.Config
	kubeconfig, err := clientcmd.Write(api.Config{
		Clusters:  map[string]*api.Cluster{"east": {Server: admin.Host, CertificateAuthorityData: admin.CAData}},
		AuthInfos: map[string]*api.AuthInfo{"east": {Token: token, ClientCertificateData: admin.CertData, ClientKeyData: admin.KeyData}},
		Contexts:  map[string]*api.Context{"east": {Cluster: "east", AuthInfo: "east"}}, CurrentContext: "east",
	})
	s.Must(err)
	s.Must(s.home.Join(s.Context(), "east", kubeconfig))
}

// giveToken lets home read east through the proxy.
func (s *stage) giveToken() {
	kubeconfig, err := s.toEast.Kubeconfig(s.east.Reader)
	s.Must(err)
	s.Must(s.home.Join(s.Context(), "east", kubeconfig))
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

func (s *stage) apply(c *world.Cluster, text string) {
	s.Helper()
	s.Must(c.Apply(s.Context(), "default", text))
}

func (s *stage) delete(c *world.Cluster, text string) {
	s.Helper()
	s.Must(c.Delete(s.Context(), "default", text))
}

// annotate changes the annotations of the Secret of the peer.
func (s *stage) annotate(annotations string) {
	s.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: world.SystemNamespace, Name: "east"}}
	s.Must(s.home.Admin.Patch(s.Context(), secret, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":%s}}`, annotations))))
}

// listen accepts connections at the endpoint of the peer.
func (s *stage) listen() {
	s.Helper()
	var err error
	s.listener, err = net.Listen("tcp", s.endpoint)
	s.Must(err)
	listener := s.listener
	s.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_ = c.Close()
			}
		}
	}()
}

func (s *stage) start(c *world.Cluster, flags ...string) *kube.Program {
	s.Helper()
	flags = append(flags, "--cluster-id", c.ID, "--metrics-bind-address", s.metrics[c.ID])
	b, err := binaries.StartController(s.Context(), c.Cluster, flags...)
	s.Must(err)
	s.Cleanup(b.Stop)
	return b
}

func (s *stage) startCoreDNS() {
	s.Helper()
	text, err := s.toHome.Kubeconfig(s.home.Config)
	s.Must(err)
	kubeconfig, conf := filepath.Join(s.TempDir(), "kubeconfig"), filepath.Join(s.TempDir(), "Corefile")
	s.Must(os.WriteFile(kubeconfig, text, 0o600))
	s.Must(os.WriteFile(conf, fmt.Appendf(nil, `clusterset.local:%s {
    bind 127.0.0.1
    errors
    prometheus %s
    multicluster {
        kubeconfig %s
    }
}
`, portOf(s.metrics["dns"]), s.metrics["coredns"], kubeconfig), 0o600))
	program, err := binaries.Program("coredns")
	s.Must(err)
	s.coredns, err = s.home.Beside(s.Context(), func(context.Context) error { return s.ask() }, program, "-conf", conf)
	s.Must(err)
	s.Cleanup(s.coredns.Stop)
}

// ask asks the DNS server of home for the Service of east.
func (s *stage) ask() error {
	answer, err := dns.Exchange(new(dns.Msg).SetQuestion("web.default.svc.clusterset.local.", dns.TypeA), s.metrics["dns"])
	if err == nil && len(answer.Answer) == 0 {
		err = fmt.Errorf("no address, %s", dns.RcodeToString[answer.Rcode])
	}
	return err
}

// asking asks until the end of the test, so that the queries about DNS have data.
func (s *stage) asking() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for s.Context().Err() == nil {
		<-tick.C
		_ = s.ask() // the DNS server is away for a while
	}
}

// short returns the rules of users, with times that a test can wait for.
func short(t testing.TB) string {
	t.Helper()
	rules := read(t, files, "alerts.yaml")
	for pattern, by := range map[string]string{`(?m)^( +for:) .*$`: "$1 2s", `\[30m\]`: "[10s]"} {
		found := regexp.MustCompile(pattern)
		if !found.MatchString(rules) {
			t.Fatalf("no rule has %s", pattern)
		}
		rules = found.ReplaceAllString(rules, by)
	}
	return rules
}

func (s *stage) startPrometheus() {
	s.Helper()
	program, _, err := Programs(s.Context())
	s.Must(err)
	receives := httptest.NewServer(s.received)
	s.Cleanup(receives.Close)
	dir := s.TempDir()
	s.Must(os.WriteFile(filepath.Join(dir, "alerts.yaml"), []byte(short(s)), 0o600))
	s.Must(os.WriteFile(filepath.Join(dir, "prometheus.yaml"), fmt.Appendf(nil, `
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [alerts.yaml]
alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}
scrape_configs:
- job_name: multicluster
  static_configs:
  - {targets: [%q, %q], labels: {cluster: home}}
  - {targets: [%q], labels: {cluster: east}}
`, strings.TrimPrefix(receives.URL, "http://"), s.metrics["home"], s.metrics["coredns"], s.metrics["east"]), 0o600))
	s.prometheus, s.began = "http://"+s.metrics["prometheus"], time.Now()
	b, err := s.home.Beside(s.Context(), beside.Page(s.prometheus+"/-/ready"), program, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+s.metrics["prometheus"], "--rules.alert.resend-delay=1s")
	s.Must(err)
	s.Cleanup(b.Stop)
}

// get reads from the API of Prometheus.
func (s *stage) get(data any, path string, values url.Values) error {
	text, err := binaries.Get(s.Context(), s.prometheus+"/api/v1/"+path+"?"+values.Encode())
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), &struct{ Data any }{data})
}

// firing waits until exactly these alerts fire, all in home.
func (s *stage) firing(when string, want ...string) {
	s.Helper()
	began := time.Now()
	slices.Sort(want)
	kube.EventuallyEvery(s, 100*time.Millisecond, fmt.Sprintf("%s, %q fire", when, want), func() error {
		var of struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
		if err := s.get(&of, "alerts", nil); err != nil {
			return err
		}
		var got []string
		for _, a := range of.Alerts {
			if a.State == "firing" {
				got = append(got, a.Labels["alertname"])
			}
			if a.Labels["cluster"] != "home" {
				return fmt.Errorf("an alert has the labels %v", a.Labels)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("%q fire", got)
		}
		return nil
	})
	s.Logf("%s: %q fire after %v", when, want, time.Since(began).Round(100*time.Millisecond))
}

// sees waits until an expression has a result.
func (s *stage) sees(what, expr string) {
	s.Helper()
	kube.EventuallyEvery(s, 100*time.Millisecond, what, func() error {
		var of struct{ Result []any }
		err := s.get(&of, "query", url.Values{"query": {expr}})
		if err == nil && len(of.Result) == 0 {
			err = errors.New("no result")
		}
		return err
	})
}

// receiver accepts what Prometheus sends to an Alertmanager.
type receiver struct {
	mu  sync.Mutex
	got map[string]alert // the first of each name
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var sent []alert
	if request.URL.Path != "/api/v2/alerts" || json.NewDecoder(request.Body).Decode(&sent) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.got == nil {
		r.got = map[string]alert{}
	}
	for _, a := range sent {
		if name := a.Labels["alertname"]; r.got[name].Labels == nil {
			r.got[name] = a
		}
	}
}

// check checks that an alert was received, with texts that are filled in.
func (r *receiver) check(t *testing.T, name string, rule alert) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got[name]
	grade := rule.Labels["severity"]
	if strings.Contains(grade, "{") { // with the worse of the two faults
		grade = "critical"
	}
	if got.Labels["severity"] != grade || got.Annotations["runbook_url"] != rule.Annotations["runbook_url"] {
		t.Errorf("%s was received as %+v", name, got)
	}
	for key, text := range got.Annotations {
		if text == "" || strings.Contains(text, "<") || strings.Contains(text, "unknown") || strings.Contains(text, "{{") {
			t.Errorf("%s of %s is %q", key, name, text)
		}
	}
	t.Logf("%s: %s", name, got.Annotations["description"])
}

// point is a value of a series.
type point struct {
	panel, series  string
	seconds, value float64
}

// queries evaluates each query of the dashboard over the whole run: each has data of a series. It returns the points of all.
func (s *stage) queries() (all []point) {
	s.Helper()
	for _, panel := range panels(s) {
		for _, target := range panel.Targets {
			expr := strings.NewReplacer("$cluster", ".*", "$__rate_interval", "5s").Replace(target.Expr)
			points := s.evaluate(panel.Title, expr, target.LegendFormat)
			if len(points) == 0 {
				s.Errorf("%s: %s has no data", panel.Title, expr)
			}
			all = append(all, points...)
		}
	}
	return all
}

// evaluate returns the values of an expression over the whole run. legend is the name of a series, with its labels in braces.
func (s *stage) evaluate(panel, expr, legend string) (points []point) {
	s.Helper()
	var of struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any // a number of seconds, and a text
		}
	}
	values := url.Values{"query": {expr}, "step": {"1"}, "start": {unix(s.began)}, "end": {unix(time.Now())}}
	if err := s.get(&of, "query_range", values); err != nil {
		s.Errorf("%s: %s: %v", panel, expr, err)
	}
	for _, series := range of.Result {
		name := label.ReplaceAllStringFunc(legend, func(key string) string { return series.Metric[strings.Trim(key, "{}")] })
		for _, value := range series.Values {
			number, err := strconv.ParseFloat(value[1].(string), 64)
			s.Must(err)
			if !math.IsNaN(number) {
				points = append(points, point{panel, cmp.Or(name, series.Metric["alertname"]), value[0].(float64) - float64(s.began.Unix()), number})
			}
		}
	}
	return points
}

// record writes the points for the picture in docs/operations/metrics.md.
func (s *stage) record(points []point) {
	s.Helper()
	var text bytes.Buffer
	to := csv.NewWriter(&text)
	for _, p := range points {
		if p.series != "" { // series of tables have no name
			s.Must(to.Write([]string{p.panel, p.series, strconv.FormatFloat(p.seconds, 'f', -1, 64), strconv.FormatFloat(p.value, 'g', 4, 64)}))
		}
	}
	to.Flush()
	s.Must(os.WriteFile(path(s, "docs/results/monitoring.csv"), text.Bytes(), 0o644))
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
