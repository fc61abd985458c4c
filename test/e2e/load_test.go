package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/test/e2e/dnsload"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// The servers of the scenarios below.
var (
	twoServers = &resolving{values: values{"dns.replicas": "2", "controller.replicas": "2", "dns.drainSeconds": drain()}}
	oneServer  = &resolving{values: values{"dns.replicas": "1", "dns.drainSeconds": drain()}}
)

// drain is for how many seconds a server continues after its signal, before those of lameduck: the chart's default, or longer than
// resolverPatience and all that kube-proxy needs.
func drain() string {
	if measure() || kube.Full() {
		return "30"
	}
	return "10"
}

// resolverPatience is after how long a resolver asks again, glibc's and others: what had no answer shows as a pause of that length.
const resolverPatience = 5 * time.Second

// leastEnds is the number of servers that must end during a load.
const leastEnds = 2

// loadFor is how long the questions continue, at least until all disturbances have happened: see
// disturb.
func loadFor(t testing.TB) time.Duration {
	t.Helper()
	usual := "30s"
	if kube.Full() {
		usual = "5m"
	}
	d, err := time.ParseDuration(cmp.Or(os.Getenv("E2E_LOAD_FOR"), usual))
	if err != nil {
		t.Fatalf("E2E_LOAD_FOR: %v", err)
	}
	return d
}

func (s *scene) loadOnTwoServers() {
	l := s.newLoad()
	client := l.client(l.at, "client")
	client.leadsTo(l.fqdn("web"), l.from, l.at)
	// A request that asks again gets its answer, so that what took it so long shows as a pause: judgeRequests looks at each.
	requests := client.flow(l.fqdn("web"), resolverPatience+4*time.Second)
	l.disturb(loadFor(l.t), []step{
		l.rollDNS(),
		l.scale(3),
		l.roll(l.at, "controller", system, "multicluster-controller"),
		l.loseDNS(),
		l.scale(1),
		l.roll(l.from, "controller", system, "multicluster-controller"),
		l.lose(l.at, "controller", system, "multicluster-controller", "app.kubernetes.io/name=multicluster-controller"),
	})
	l.judge(tollOfSockets)
	l.judgeRequests(requests.stop())
}

func (s *scene) loadOnOneServer() {
	l := s.newLoad()
	l.disturb(min(loadFor(l.t), time.Minute), []step{l.rollDNS(), l.calm(), l.loseDNS(), l.calm()})
	l.judge(tollOfOne)
}

// load is one blast of questions, and what happened meanwhile.
type load struct {
	*scene
	from, at  *cluster   // the exporter, and the client
	asker     *clientPod // in at, as is checker, which asks for a second now and then
	checker   *clientPod
	server    string
	servers   *withdrawals
	questions []dnsload.Question
	began     time.Time
	result    dnsload.Result
	done      []done
}

// step is one restart or change. It returns when that is over.
type step struct {
	what string
	do   func()
}

// done is when a step was done.
type done struct {
	step
	began, ended time.Time
}

// newLoad gets all ready, until every answer is right.
func (s *scene) newLoad() *load {
	s.t.Helper()
	l := &load{scene: s, from: s.clusters[0], at: s.clusters[1]}
	address, err := l.at.dnsAddress(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	l.server = net.JoinHostPort(address, "53")
	l.servers = l.watchServers()
	l.exportAll()
	l.asker, l.checker = s.client(l.at, "asker"), s.client(l.at, "checker")
	program := l.asker.program("./test/e2e/dnsload/run")
	for _, pod := range []*clientPod{l.asker, l.checker} {
		pod.bring(program, "/tmp/dnsload")
	}
	l.questions = l.rightAnswers()
	l.answersAll("before anything restarts")
	return l
}

// answersAll waits for a second in which each answer comes, and is right.
func (l *load) answersAll(when string) {
	l.t.Helper()
	l.eventually("all answers are right "+when, func(ctx context.Context) error {
		r, err := l.blast(ctx, l.checker, time.Second)
		if err == nil && len(r.Failures) > 0 {
			err = fmt.Errorf("%d wrong, missing %v: %v", r.Wrong, r.Unanswered, r.Failures[0])
		}
		return err
	})
}

const headless = "clusterIP: None\nports: [{name: http, port: 8080}]"

// exportAll makes what is asked for: web has a clusterset IP, and pods in both clusters, and db is headless, with pods in both; kv is
// headless, and there is none in the cluster that asks.
func (l *load) exportAll() {
	for _, c := range []*cluster{l.from, l.at} {
		l.expose(c, "web", plainly)
		l.expose(c, "db", headless)
		// It lingers for longer than it takes a controller to take over from another, and to tell.
		l.deploy(c, workload{name: "web", replicas: 1, linger: 20 * time.Second})
		l.deploy(c, workload{name: "db", kind: "StatefulSet", replicas: 1})
		l.export(c, "web")
		l.export(c, "db")
	}
	l.expose(l.from, "kv", headless)
	l.deploy(l.from, workload{name: "kv", kind: "StatefulSet", replicas: 1})
	l.export(l.from, "kv")
}

// rightAnswers are the questions: names of both domains, and those that a pod's search path makes of kv.<namespace>.svc.
func (l *load) rightAnswers() []dnsload.Question {
	yes := func(kind, name string, data ...string) dnsload.Question {
		return dnsload.Question{Name: name, Type: kind, Rcode: "NOERROR", Data: data}
	}
	no := func(name string) dnsload.Question { return dnsload.Question{Name: name, Type: "A", Rcode: "NXDOMAIN"} }
	l.kubectl(l.at, "wait", "--for=create", "serviceimport/web", "--timeout=2m")
	l.kubectl(l.at, "wait", "--for=condition=Ready", "serviceimport/web", "--timeout=2m")
	ip := l.kubectl(l.at, "get", "serviceimport", "web", "-o", "jsonpath={.spec.ips[0]}")
	local := l.kubectl(l.at, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	web, db, kv := l.fqdn("web"), l.fqdn("db"), l.fqdn("kv")
	db1, db2, kv1 := l.podIP(l.from, "db-0"), l.podIP(l.at, "db-0"), l.podIP(l.from, "kv-0")
	base := l.namespace + ".svc."
	return []dnsload.Question{
		yes("A", web, ip), yes("AAAA", web), yes("SRV", "_http._tcp."+web, "0 100 80 "+web+"."),
		{Name: db, Type: "A", Rcode: "NOERROR", Data: []string{db1, db2}, More: true}, yes("AAAA", db),
		yes("A", "db-0."+l.from.id+"."+db, db1), yes("A", "db-0."+l.at.id+"."+db, db2),
		yes("SRV", "_http._tcp."+kv, "0 100 8080 kv-0."+l.from.id+"."+kv+"."),
		no("kv." + base + base + "cluster.local"), no("kv." + base + "svc.cluster.local"), no("kv." + base + "cluster.local"), yes("A", kv, kv1),
		yes("A", "web."+base+"cluster.local", local), no("nobody." + base + "cluster.local"), no("nobody." + base + "clusterset.local"),
		yes("TXT", "dns-version.clusterset.local", `"1.0.0"`),
	}
}

func (s *scene) podIP(c *cluster, pod string) string {
	s.t.Helper()
	return s.kubectl(c, "get", "pod", pod, "-o", "jsonpath={.status.podIP}")
}

// disturb makes one step after another for some time, while questions continue. If not all required
// steps have happened by then, it continues for a while: a short load has fewer questions, and the
// same disturbances.
func (l *load) disturb(d time.Duration, steps []step) {
	l.t.Helper()
	l.began = time.Now()
	over := make(chan error, 1)
	go func() {
		var err error
		l.result, err = l.blast(l.t.Context(), l.asker, d+3*patience) // ended by hand: this is longer than the last step takes
		over <- err
	}()
	goesOn := func() bool {
		took := time.Since(l.began)
		return len(over) == 0 && (took < d || took < d+patience && l.missing(steps) != "")
	}
	for i := 0; goesOn(); i++ {
		began := time.Now()
		steps[i%len(steps)].do()
		l.done = append(l.done, done{steps[i%len(steps)], began, time.Now()})
	}
	_, err := l.asker.exec(l.t.Context(), "kill -INT $(cat /tmp/dnsload.pid) || true")
	if err = errors.Join(err, <-over); err != nil {
		l.t.Fatal(err)
	}
	l.tell(steps)
	if missing := l.missing(steps); missing != "" {
		l.t.Errorf("in %.0f s of load %s", time.Since(l.began).Seconds(), missing)
	}
}

// missing is what has not happened yet of all that has to, or nothing.
func (l *load) missing(steps []step) string {
	var all []string
	if ends := len(l.servers.since(l.began)); ends < leastEnds {
		all = append(all, fmt.Sprintf("%d servers ended, want %d at least", ends, leastEnds))
	}
	for _, s := range steps {
		if !slices.ContainsFunc(l.done, func(d done) bool { return d.what == s.what }) {
			all = append(all, "never: "+s.what)
		}
	}
	return strings.Join(all, "; ")
}

// TestUnitMissing: a load is not over before every step was taken, and servers have ended.
func TestUnitMissing(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	steps := []step{{what: "a"}, {what: "b"}, {what: "a"}}
	l := &load{began: noon, servers: &withdrawals{at: []time.Time{noon.Add(-time.Second), noon}}, done: []done{{step: steps[0]}}}
	if got, want := l.missing(steps), "1 servers ended, want 2 at least; never: b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	l.servers.at = append(l.servers.at, noon.Add(time.Second))
	l.done = append(l.done, done{step: steps[1]})
	if got := l.missing(steps); got != "" {
		t.Errorf("%q, want nothing", got)
	}
}

// roll restarts all pods of a Deployment, as that does it.
func (l *load) roll(c *cluster, who, namespace, deployment string) step {
	return step{who + " of " + c.id + " rolled", func() {
		l.inNamespace(c, namespace, "rollout", "restart", "deployment/"+deployment)
		l.inNamespace(c, namespace, "rollout", "status", "deployment/"+deployment, "--timeout=2m")
	}}
}

// lose deletes one pod of a Deployment: the oldest that is not ending already.
func (l *load) lose(c *cluster, who, namespace, deployment, labels string) step {
	return step{"a pod of " + who + " of " + c.id + " deleted", func() {
		pods := l.inNamespace(c, namespace, "get", "pods", "-l", labels, "--sort-by=.metadata.creationTimestamp",
			"-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.deletionTimestamp}{"\n"}{end}`)
		staying := slices.DeleteFunc(strings.Split(pods, "\n"), func(pod string) bool { return len(strings.Fields(pod)) != 1 })
		if len(staying) == 0 {
			l.t.Fatalf("no pod of %s in %s is there to be deleted:\n%s", deployment, c.id, pods)
		}
		l.inNamespace(c, namespace, "delete", "pod", strings.TrimSpace(staying[0]), "--wait=false")
		l.inNamespace(c, namespace, "rollout", "status", "deployment/"+deployment, "--timeout=2m")
	}}
}

func (l *load) rollDNS() step { return l.roll(l.at, "CoreDNS", "kube-system", "coredns") }

func (l *load) loseDNS() step {
	return l.lose(l.at, "CoreDNS", "kube-system", "coredns", "k8s-app=kube-dns")
}

// calm lets no restart follow another until all is as before.
func (l *load) calm() step {
	return step{"waited for a second in which all was answered", func() { l.answersAll("after a restart") }}
}

func (l *load) inNamespace(c *cluster, namespace string, args ...string) string {
	l.t.Helper()
	out, err := c.kubectl(l.t.Context(), append([]string{"--namespace=" + namespace}, args...)...)
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// scale gives web and db so many pods in the cluster that exports, and waits until the other one has heard of it.
func (l *load) scale(replicas int) step {
	return step{fmt.Sprintf("web and db of %s scaled to %d", l.from.id, replicas), func() {
		l.kubectl(l.from, "scale", "deployment/web", "statefulset/db", fmt.Sprintf("--replicas=%d", replicas))
		for _, name := range []string{"web", "db"} {
			l.eventually(fmt.Sprintf("%s has %d endpoints of %s in %s", name, replicas, l.from.id, l.at.id), func(ctx context.Context) error {
				got, err := l.endpoints(ctx, l.at, name, l.from)
				if err == nil && len(got) != replicas {
					err = fmt.Errorf("it has %v", got)
				}
				return err
			})
		}
	}}
}

// endpoints are the addresses of ready endpoints of an import, those from one cluster.
func (s *scene) endpoints(ctx context.Context, at *cluster, name string, of *cluster) ([]string, error) {
	out, err := at.kubectl(ctx, "get", "endpointslices", "--namespace="+s.namespace,
		"-l", "multicluster.kubernetes.io/service-name="+name+",multicluster.kubernetes.io/source-cluster="+of.id,
		"-o", "jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.addresses[0]} {end}")
	return strings.Fields(out), err
}

// tell writes what was measured into the report.
func (l *load) tell(steps []step) {
	r := l.result
	l.reportValue("questions", fmt.Sprintf("%d in %.0f s: %.0f a second", r.Asked, r.Took.Seconds(), float64(r.Asked)/r.Took.Seconds()))
	l.reportValue("answers", listed(r.Rcodes))
	l.reportValue("wrong answers", fmt.Sprint(r.Wrong))
	for _, way := range dnsload.Ways {
		l.reportValue(fmt.Sprintf("without an answer over «%s»", way), fmt.Sprintf("%d of %d", r.Unanswered[way], r.AskedBy(way)))
	}
	l.reportValue("of all those, answered when asked again", fmt.Sprint(r.Retried))
	l.reportValue("half of the answers within, 99 %, all", fmt.Sprintf("%.1f ms, %.1f ms, %.0f ms", milliseconds(r.P50), milliseconds(r.P99), milliseconds(r.Longest)))
	times := map[string]int{}
	for _, d := range l.done {
		times[d.what]++
	}
	for _, s := range steps {
		if times[s.what] > 0 { // and was not told yet: one may be there twice
			l.reportValue(s.what, fmt.Sprintf("%d times", times[s.what]))
			delete(times, s.what)
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// listed is such as «NOERROR 12, NXDOMAIN 5».
func listed(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// judge wants the right answer to every question, except for the known losses at the ends of
// servers, and no fault after the last end.
func (l *load) judge(c toll) {
	l.t.Helper()
	r, ends := l.result, l.servers.since(l.began)
	l.reportValue("servers of "+l.at.id+" that ended meanwhile", fmt.Sprint(len(ends)))
	if all := c.complaints(r, ends); len(all) > 0 {
		l.t.Errorf("of %d questions %d had a wrong answer, and %v none (answered when asked again: %d), while %d servers ended:\n%s\nall failures: %s",
			r.Asked, r.Wrong, r.Unanswered, r.Retried, len(ends), strings.Join(all[:min(30, len(all))], "\n"), l.explain(r.Failures))
	} else if len(r.Failures) > 0 {
		l.t.Logf("lost: %s", l.explain(r.Failures))
	}
	l.answersAll("after all")
}

// pauses are the times of resolverPatience and more between the begins of two requests.
func pauses(all []request) (long []dnsload.Failure) {
	for i := 1; i < len(all); i++ {
		if gap := all[i].at - all[i-1].at; gap >= resolverPatience {
			long = append(long, dnsload.Failure{At: time.Unix(0, int64(all[i-1].at)), Took: gap, What: fmt.Sprintf("the next request began after %v", gap)})
		}
	}
	return long
}

// judgeRequests wants every request answered, and none that waited for its resolver's second try; but see tollOfResolver.
func (l *load) judgeRequests(all []request) {
	l.t.Helper()
	got := tally(all)
	failed := others(all, l.from, l.at)
	l.reportValue("HTTP requests through the clusterset IP meanwhile (failed)", fmt.Sprintf("%d (%d)", len(all), len(failed)))
	gap := longestGap(all, l.from, l.at)
	l.reportValue("longest time from the begin of one to that of the next", fmt.Sprintf("%.2f s", gap.Seconds()))
	waited := pauses(all)
	l.reportValue("of these, longer than the 5 s after which a resolver asks again", fmt.Sprint(len(waited)))
	for _, f := range waited {
		l.t.Logf("%s: %s; %s", clock(f.At), f.What, l.during(f.At))
	}
	for _, f := range tollOfResolver.unexplained(waited, l.servers.since(l.began)) {
		l.t.Errorf("%s: %s; no server's end explains it", clock(f.At), f.What)
	}
	if len(failed) > 0 || got[l.from.id] == 0 || got[l.at.id] == 0 {
		l.t.Errorf("requests: %v; want answers of both clusters and nothing else", got)
	}
	for _, r := range all {
		if r.who != l.from.id && r.who != l.at.id {
			l.t.Logf("%s at %s", r.said, l.during(time.Unix(0, int64(r.at))))
		}
	}
}

// explain says of each failure during what it was.
func (l *load) explain(failures []dnsload.Failure) string {
	var text strings.Builder
	for i, f := range failures {
		if i == 30 {
			fmt.Fprintf(&text, "\nand so on: %d were noted", len(failures))
			break
		}
		fmt.Fprintf(&text, "\n%s (%s): %s after %.0f ms, at %s", f.Question, f.Way, f.What, milliseconds(f.Took), l.during(f.At))
	}
	return text.String()
}

// during is a time, and how long before it the last steps had begun.
func (l *load) during(at time.Time) string {
	text := clock(at)
	for _, d := range l.done {
		if since := at.Sub(d.began); since >= 0 && since < 20*time.Second {
			text += fmt.Sprintf("; %.1f s before: %s", since.Seconds(), d.what)
		}
	}
	return text
}
