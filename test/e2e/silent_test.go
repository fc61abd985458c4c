package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// faultOf returns a function that makes a cluster fail in one way, or takes that back (README.md,
// E2E_FAULT). It skips the test where the clusters cannot be made to fail.
func (s *scene) faultOf(c *cluster) func(ctx context.Context, verb ...string) error {
	s.t.Helper()
	commands := filepath.SplitList(os.Getenv("E2E_FAULT"))
	at := slices.Index(s.clusters, c)
	if at >= len(commands) {
		s.t.Skip("makes clusters fail: only with E2E_FAULT, which `make e2e` sets")
	}
	return func(ctx context.Context, verb ...string) error {
		cmd := exec.CommandContext(ctx, "sh", "-c", commands[at]+" "+strings.Join(verb, " "))
		cmd.Dir = binaries.Root() // as with E2E_LOAD
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", cmd, err, out)
		}
		return nil
	}
}

// fail makes a cluster fail, until mend takes it back. The end of the test does so too.
func (s *scene) fail(c *cluster, verb, back string, addresses ...string) (mend func()) {
	s.t.Helper()
	fault := s.faultOf(c)
	mend = s.later(func(ctx context.Context) error { return fault(ctx, append([]string{back}, addresses...)...) })
	if err := fault(s.t.Context(), append([]string{verb}, addresses...)...); err != nil {
		s.t.Fatal(err)
	}
	return mend
}

// leaseIs waits until a cluster's Lease of a peer has a label, and the message of the data path or of
// the connection has a word.
func (s *scene) leaseIs(at, peer *cluster, label, value, word string) {
	s.t.Helper()
	s.shows(at, fmt.Sprintf("%s of %s is %s", label, peer.id, value), startsAndHas(value, word), "get", "lease", peer.id, "--namespace="+system, "-o", fmt.Sprintf(
		`jsonpath={.metadata.labels.clusterset-dns\.io/%s} {.metadata.annotations.clusterset-dns\.io/data-path-message} {.metadata.annotations.clusterset-dns\.io/message}`, label))
}

func startsAndHas(start, word string) func(string) bool {
	return func(out string) bool { return strings.HasPrefix(out, start+" ") && strings.Contains(out, word) }
}

// proven waits until each cluster has connected to endpoints that the others export now.
func (s *scene) proven(all ...*cluster) {
	s.t.Helper()
	since := time.Now().Add(interval()/3 + 2*time.Second) // that is the pause between two choices of endpoints to connect to
	for _, at := range all {
		for _, peer := range except(all, at) {
			s.eventually(fmt.Sprintf("%s has connected to endpoints of %s", at.id, peer.id), func(ctx context.Context) error {
				verdict, err := at.kubectl(ctx, "get", "lease", peer.id, "--namespace="+system, "-o", `jsonpath={.metadata.labels.clusterset-dns\.io/data-path}`)
				if err != nil {
					return err
				}
				last, err := lastAnswer(ctx, at, peer)
				if err != nil || last.Before(since) || verdict != "Proven" {
					return fmt.Errorf("it is %s, and an endpoint has answered at %v: %w", verdict, last, err)
				}
				return nil
			})
		}
	}
}

// lastAnswer returns when an endpoint of a peer last accepted a connection of a cluster's controller. Only the leader knows.
func lastAnswer(ctx context.Context, at, peer *cluster) (last time.Time, err error) {
	pods, err := at.kubectl(ctx, "get", "pods", "--namespace="+system, "-l", "app.kubernetes.io/name=multicluster-controller", "-o", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		return last, err
	}
	for _, pod := range strings.Fields(pods) {
		metrics, err := at.kubectl(ctx, "get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:8080/proxy/metrics", system, pod))
		if err != nil {
			return last, err
		}
		_, after, _ := strings.Cut(metrics, fmt.Sprintf("\nmulticluster_peer_last_answer_timestamp_seconds{peer=%q} ", peer.id))
		line, _, _ := strings.Cut(after, "\n")
		if seconds, err := strconv.ParseFloat(line, 64); err == nil {
			last = time.Unix(int64(seconds), 0)
		}
	}
	return last, nil
}

// address returns the clusterset IP of web in a cluster. Requests to it need no DNS server: a lost
// packet of a resolver, which asks again after 5 s, would look like a failed request.
func (s *scene) address(c *cluster) string {
	s.t.Helper()
	return s.kubectl(c, "get", "serviceimport", "web", "-o", "jsonpath={.spec.ips[0]}")
}

// except are all clusters but one.
func except(all []*cluster, one *cluster) []*cluster {
	return slices.DeleteFunc(slices.Clone(all), func(c *cluster) bool { return c == one })
}

// peerTimeout is for what it ends: five minutes, the default, is long to wait for.
const peerTimeout = 30 * time.Second

var byImpatient = &resolving{values: values{"cluster.peerTimeout": peerTimeout.String()}}

// story is a clusterset in which one fault follows another. Each step begins and ends with clusters that are connected.
type story struct {
	*scene
	clients map[*cluster]*clientPod // in each cluster
	home    *cluster                // looks at what happens
	peer    *cluster                // where it happens
}

func (s *scene) peerFallsSilent() {
	y := &story{scene: s, clients: map[*cluster]*clientPod{}, home: s.clusters[0], peer: s.clusters[len(s.clusters)-1]}
	for _, c := range s.clusters {
		s.deploy(c, workload{name: "web", replicas: 2})
		s.expose(c, "web", plainly)
		s.export(c, "web")
		y.clients[c] = s.client(c, "client")
	}
	y.allServe()
	y.controllerIsSilent()
	s.faultOf(y.peer)
	s.proven(s.clusters...)
	y.apiServerIsSilent()
	need(y.t, bySearch) // the default of --peer-timeout, as users have it
	y.proven(y.clusters...)
	if len(s.clusters) > 2 {
		y.clustersLoseEachOther(s.clusters[0], s.clusters[1])
	}
	y.clustersAreCutOff()
	y.clusterDies()
}

// allServe waits until all clusters answer everywhere.
func (y *story) allServe() {
	y.t.Helper()
	for _, client := range y.clients {
		client.leadsTo(y.fqdn("web"), y.clusters...)
	}
}

// flow begins requests to web, as a client does that gives up after a while.
func (y *story) flow(c *cluster) *flow { return y.clients[c].flow(y.address(c), 5*time.Second) }

// noneFailed ends requests, and wants an answer to each.
func (y *story) noneFailed(what string, f *flow) []request {
	y.t.Helper()
	requests := f.stop()
	y.answered(what+": requests in "+f.client.cluster.id, requests, 1)
	return requests
}

// controllerIsSilent: the API server of a cluster answers, and its controller does not run. Two heartbeats may be lost. Its pods serve, so
// its endpoints stay, for longer than --peer-timeout, and no request fails.
func (y *story) controllerIsSilent() {
	y.t.Helper()
	flow := y.flow(y.home)
	replicas := strings.TrimSpace(y.inSystem(y.peer, "get", "deployment", "multicluster-controller", "-o", "jsonpath={.spec.replicas}"))
	begin := y.later(func(ctx context.Context) error {
		_, err := y.peer.kubectl(ctx, "--namespace="+system, "scale", "deployment/multicluster-controller", "--replicas="+replicas)
		return err
	})
	began := time.Now()
	y.inSystem(y.peer, "scale", "deployment/multicluster-controller", "--replicas=0")
	y.leaseIs(y.home, y.peer, "reason", "ControllerSilent", "has not renewed its Lease")
	if took := time.Since(began); took < 2*interval() {
		y.t.Errorf("the controller counts as silent after %v, and its heartbeats come every %v", took, interval())
	}
	y.leaseIs(y.home, y.peer, "data-path", "Cut", "the peer is ControllerSilent")
	y.explains(y.home, "web", "PeerControllerSilent")
	y.stays(time.Now(), flow)
	begin()
	y.leaseIs(y.home, y.peer, "reason", "Connected", "")
	y.allServe()
	y.noneFailed("the controller of "+y.peer.id+" was silent", flow)
}

// stays wants the endpoints of the peer until long after --peer-timeout.
func (y *story) stays(since time.Time, flow *flow) {
	y.t.Helper()
	for time.Since(since) < peerTimeout+5*time.Second {
		flow.goesOn(50)
		if left, err := y.endpoints(y.t.Context(), y.home, "web", y.peer); err != nil || len(left) != 2 {
			y.t.Fatalf("after %v, the endpoints of %s are %v, %v", time.Since(since), y.peer.id, left, err)
		}
	}
	y.leaseIs(y.home, y.peer, "data-path", "Cut", "")
	y.clients[y.home].leadsTo(y.fqdn("web"), y.clusters...)
}

// apiServerIsSilent: it accepts connections and answers nothing. The cluster's pods serve, so everything stays, for longer than
// --peer-timeout, and no request fails.
func (y *story) apiServerIsSilent() {
	y.t.Helper()
	ips := y.kubectl(y.home, "get", "serviceimport", "web", "-o", "jsonpath={.spec.ips}")
	flow := y.flow(y.home)
	mend := y.fail(y.peer, "freeze", "thaw")
	began := time.Now()
	for _, c := range except(y.clusters, y.peer) {
		y.leaseIs(c, y.peer, "data-path", "Cut", "API server is silent")
		y.leaseIs(c, y.peer, "reason", "Unreachable", "")
	}
	y.report("from the silence of an API server until the peer's Lease reports that its endpoints answer", time.Since(began))
	y.explains(y.home, "web", "PeerUnreachable")
	y.stays(began, flow)
	if now := y.kubectl(y.home, "get", "serviceimport", "web", "-o", "jsonpath={.spec.ips}"); now != ips {
		y.t.Errorf("ips were %s and are %s", ips, now)
	}
	lasted := time.Since(began)
	mend()
	back := time.Now()
	for _, c := range except(y.clusters, y.peer) {
		y.leaseIs(c, y.peer, "reason", "Connected", "")
		y.leaseIs(c, y.peer, "data-path", "Proven", "")
	}
	y.report("from the return of the API server until the peer is connected", time.Since(back))
	requests := y.noneFailed("the API server of "+y.peer.id+" was silent", flow)
	y.reportValue(fmt.Sprintf("requests in the %.0f s of silence (failed)", lasted.Seconds()), fmt.Sprintf("%d (%d)", len(requests), len(others(requests, y.clusters...))))
	y.kubectl(y.peer, "wait", "--for=condition=Ready", "node", "--all", "--timeout=2m")
	y.kubectl(y.peer, "wait", "--for=condition=Available", "deployment/web", "--timeout=2m")
}

// clustersLoseEachOther: the network between two clusters is cut. Each goes on with what it reaches, and the third with all.
func (y *story) clustersLoseEachOther(a, b *cluster) {
	y.t.Helper()
	addresses := strings.Fields(y.kubectl(b, "get", "nodes", "-o", `jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`) + " " +
		y.kubectl(b, "get", "pods", "--all-namespaces", "-o", "jsonpath={.items[*].status.podIPs[*].ip}"))
	slices.Sort(addresses)
	far := y.flow(y.clusters[2])
	mend := y.fail(a, "block", "unblock", slices.Compact(addresses)...)
	y.leaseIs(a, b, "data-path", "Dead", "")
	y.leaseIs(b, a, "data-path", "Dead", "")
	y.explains(a, "web", "PeerUnreachable")
	y.clients[a].leadsTo(y.fqdn("web"), except(y.clusters, b)...)
	y.clients[b].leadsTo(y.fqdn("web"), except(y.clusters, a)...)
	flows := []*flow{y.flow(a), y.flow(b)}
	for _, f := range flows {
		f.goesOn(200)
	}
	for _, f := range append(flows, far) {
		y.noneFailed(a.id+" and "+b.id+" have lost each other", f)
	}
	mend()
	y.allServe()
}

// clustersAreCutOff: a cluster, in the full form each in turn, loses its network, without a last message, as if its power had failed, and
// comes back. The others stop using its endpoints, and return to them.
func (y *story) clustersAreCutOff() {
	y.t.Helper()
	all := []*cluster{y.peer}
	if measure() || kube.Full() {
		all = append(all, except(y.clusters, y.peer)...)
	}
	var last []time.Duration
	for i, dies := range all {
		took, returned := y.cutOff(dies)
		last = append(last, took...)
		y.allServe()
		// From the second loss of a peer on, its endpoints return later. Those that are lost next were lost once.
		if i == 0 {
			y.report("from the return of the network until all clusters answer everywhere", time.Since(returned))
		}
	}
	slices.Sort(last)
	y.t.Logf("from the cut until the last request that failed: %v", last)
	longest := last[len(last)-1]
	y.report(fmt.Sprintf("from the cut until the last request that failed (median of %d)", len(last)), last[len(last)/2])
	y.report(fmt.Sprintf("from the cut until the last request that failed (longest of %d)", len(last)), longest)
	if longest > 30*time.Second {
		y.t.Errorf("the last request failed after %v, want 30 s at most", longest)
	}
}

// cutOff cuts a cluster from the network until the others use none of its endpoints. It returns for
// each of the others how long requests failed, and when the network came back.
func (y *story) cutOff(dies *cluster) (last []time.Duration, returned time.Time) {
	y.t.Helper()
	staying := except(y.clusters, dies)
	running := map[*cluster]flows{}
	for _, c := range staying {
		running[c] = y.clients[c].flows(2, y.address(c), time.Second)
	}
	began := time.Duration(time.Now().UnixNano())
	mend := y.fail(dies, "cut", "reconnect")
	clean := map[*cluster]time.Duration{}
	for _, c := range staying {
		y.eventually("no endpoint of "+dies.id+" is left in "+c.id, func(ctx context.Context) error { return y.withoutEndpoints(ctx, c, "web", dies) })
		y.clients[c].leadsTo(y.fqdn("web"), staying...)
		clean[c] = time.Duration(time.Now().UnixNano())
		y.leaseIs(c, dies, "data-path", "Dead", "silent")
	}
	for _, c := range staying {
		running[c][0].goesOn(100)
		requests := running[c].stop()
		first, end := failures(requests, y.clusters...)
		if first == 0 || end > clean[c] {
			y.t.Errorf("in %s, requests: %v; want failures after the cut, and none more than %v after it: %q", c.id, tally(requests), clean[c]-began, others(requests, y.clusters...))
		}
		last = append(last, end-began)
		y.t.Logf("%s is cut off: in %s, requests failed until %v after the cut: %v", dies.id, c.id, end-began, tally(requests))
	}
	returned = time.Now()
	mend()
	return last, returned
}

func (s *scene) inSystem(c *cluster, args ...string) string {
	s.t.Helper()
	out, err := c.kubectl(s.t.Context(), append([]string{"--namespace=" + system}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func (s *scene) onePodIsUnreachable() {
	t := s.t
	home, far := s.clusters[0], s.clusters[1]
	s.faultOf(home)
	s.deploy(far, workload{name: "web", replicas: 2})
	s.expose(far, "web", plainly)
	s.apply(far, "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata:\n  name: web\n  annotations: {clusterset-dns.io/probe: \"true\"}\n")
	client := s.client(home, "client")
	client.leadsTo(s.fqdn("web"), far)
	s.probed(home, "AllAccept", "")
	pods := strings.Fields(s.kubectl(far, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}"))
	mend := s.fail(home, "block", "unblock", pods[0])
	began := time.Now()
	s.probed(home, "SomeFail", far.id+" "+pods[0]+":8080")
	s.report("a pod becomes unreachable, until a probed name does not use it", time.Since(began))
	client.reaches(s.fqdn("web"), far.id)
	flow := client.flow(s.address(home), time.Second)
	flow.goesOn(200)
	if requests := flow.stop(); len(others(requests, far)) > 0 {
		t.Errorf("requests that failed: %q", others(requests, far))
	}
	both := s.fail(home, "block", "unblock", pods[1])
	s.probed(home, "NoneAccepts", pods[1])
	s.eventually("both endpoints stay", func(ctx context.Context) error {
		left, err := s.endpoints(ctx, home, "web", far)
		if err == nil && len(left) != 2 {
			err = fmt.Errorf("there are %v", left)
		}
		return err
	})
	both()
	mend()
	s.probed(home, "AllAccept", "")
	client.reaches(s.fqdn("web"), far.id)
}

// probed waits until the condition EndpointsProbed of web has a reason, and its message a word.
func (s *scene) probed(at *cluster, reason, word string) {
	s.t.Helper()
	s.shows(at, "EndpointsProbed is "+reason, startsAndHas(reason, word),
		"get", "serviceimport", "web", "-o", `jsonpath={range .status.conditions[?(@.type=="EndpointsProbed")]}{.reason} {.message}{end}`)
}
