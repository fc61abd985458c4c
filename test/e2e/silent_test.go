package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
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
	fault, mended := s.faultOf(c), false
	do := func(ctx context.Context) error {
		if mended {
			return nil
		}
		mended = true
		return fault(ctx, append([]string{back}, addresses...)...)
	}
	s.undo = append(s.undo, do)
	if err := fault(s.t.Context(), append([]string{verb}, addresses...)...); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		s.t.Helper()
		if err := do(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// leaseIs waits until a cluster's Lease of a peer has a label, and the message of the data path or of
// the connection has a word.
func (s *scene) leaseIs(at, peer *cluster, label, value, word string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("in %s, %s of %s is %s", at.id, label, peer.id, value), func(ctx context.Context) error {
		out, err := at.kubectl(ctx, "get", "lease", peer.id, "--namespace="+system, "-o", fmt.Sprintf(
			`jsonpath={.metadata.labels.clusterset-dns\.io/%s} {.metadata.annotations.clusterset-dns\.io/data-path-message} {.metadata.annotations.clusterset-dns\.io/message}`, label))
		if err == nil && (!strings.HasPrefix(out, value+" ") || !strings.Contains(out, word)) {
			err = errors.New(out)
		}
		return err
	})
}

// proven waits until each cluster has connected to endpoints that the others export now.
func (s *scene) proven(all ...*cluster) {
	s.t.Helper()
	since := time.Now().Add(12 * time.Second) // Endpoints to connect to are chosen every 10 s.
	for _, at := range all {
		for _, peer := range all {
			if at == peer {
				continue
			}
			s.eventually(fmt.Sprintf("%s has connected to endpoints of %s", at.id, peer.id), func(ctx context.Context) error {
				out, err := at.kubectl(ctx, "get", "lease", peer.id, "--namespace="+system, "-o",
					`jsonpath={.metadata.labels.clusterset-dns\.io/data-path} {.metadata.annotations.clusterset-dns\.io/data-path-message}`)
				if err != nil {
					return err
				}
				_, last, _ := strings.Cut(out, "the last one at ")
				if when, err := time.Parse(time.RFC3339, last); err != nil || when.Before(since) || !strings.HasPrefix(out, "Proven ") {
					return errors.New(out)
				}
				return nil
			})
		}
	}
}

// web runs a Service web in all clusters, which each exports, with lines of metadata of the export.
func (s *scene) web(metadata string) {
	s.t.Helper()
	for _, c := range s.clusters {
		s.deploy(c, workload{name: "web", replicas: 2})
		s.expose(c, "web", plainly)
		s.apply(c, "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata:\n  name: web\n"+metadata)
	}
}

// webEverywhere runs web in all clusters, and a client in each that all of them answer. It returns
// when each cluster has connected to endpoints of the others.
func (s *scene) webEverywhere() map[*cluster]*clientPod {
	s.t.Helper()
	s.web("")
	clients := map[*cluster]*clientPod{}
	for _, c := range s.clusters {
		clients[c] = s.client(c, "client")
		clients[c].reachesAll(s.fqdn("web"), s.clusters...)
	}
	s.proven(s.clusters...)
	return clients
}

// address returns the clusterset IP of web in a cluster. Requests to it need no DNS server: a lost
// packet of a resolver, which asks again after 5 s, would look like a failed request.
func (s *scene) address(c *cluster) string {
	s.t.Helper()
	return s.kubectl(c, "get", "serviceimport", "web", "-o", "jsonpath={.spec.ips[0]}")
}

// without waits until only these clusters answer a client.
func (p *clientPod) without(name string, rest []*cluster) {
	p.scene.t.Helper()
	p.scene.eventually(fmt.Sprintf("%s in %s is answered by %v alone", name, p.cluster.id, ids(rest)), func(ctx context.Context) error {
		got, err := p.fetch(ctx, name, 30)
		if err != nil {
			return err
		}
		return got.only(ids(rest)...)
	})
}

func except(all []*cluster, one *cluster) []*cluster {
	return slices.DeleteFunc(slices.Clone(all), func(c *cluster) bool { return c == one })
}

// TestClustersAreCutOff: each cluster in turn loses its network, without a last message, as if its
// power had failed, and comes back. The others stop using its endpoints, and return to them.
func TestClustersAreCutOff(t *testing.T) {
	s := newScene(t, bySearch, "each of three clusters in turn loses its network, and comes back")
	s.faultOf(s.clusters[0])
	clients := s.webEverywhere()
	var last []time.Duration
	for i, dies := range s.clusters {
		last = append(last, s.cutOff(clients, dies)...)
		// From the second loss of a peer on, its endpoints return later. Those that are lost next were
		// lost once.
		if i == 0 {
			s.reportReturn(clients)
		}
	}
	slices.Sort(last)
	t.Logf("from the cut until the last request that failed: %v", last)
	s.report("from the cut until the last request that failed (median of six)", last[len(last)/2])
	s.report("from the cut until the last request that failed (longest of six)", last[len(last)-1])
	if longest := last[len(last)-1]; longest > time.Minute { // --peer-timeout is 5 minutes
		t.Errorf("the last request failed after %v", longest)
	}
	for _, client := range clients {
		client.reachesAll(s.fqdn("web"), s.clusters...)
	}
}

var returned time.Time // when the network of a cluster came back

// cutOff cuts a cluster from the network until the others use none of its endpoints. It returns for
// each of the others how long requests failed.
func (s *scene) cutOff(clients map[*cluster]*clientPod, dies *cluster) (last []time.Duration) {
	s.t.Helper()
	staying := except(s.clusters, dies)
	running := map[*cluster]flows{}
	for _, c := range staying {
		s.eventually(c.id+" uses endpoints of "+dies.id, func(ctx context.Context) error {
			if s.withoutEndpoints(ctx, c, "web", dies) == nil {
				return errors.New("it uses none")
			}
			return nil
		})
		running[c] = clients[c].flows(2, s.address(c), time.Second)
	}
	began := time.Duration(time.Now().UnixNano())
	mend := s.fail(dies, "cut", "reconnect")
	clean := map[*cluster]time.Duration{}
	for _, c := range staying {
		s.eventually("no endpoint of "+dies.id+" is left in "+c.id, func(ctx context.Context) error { return s.withoutEndpoints(ctx, c, "web", dies) })
		clients[c].without(s.fqdn("web"), staying)
		clean[c] = time.Duration(time.Now().UnixNano())
		s.leaseIs(c, dies, "data-path", "Dead", "silent")
	}
	for _, c := range staying {
		running[c][0].goesOn(100)
		requests := running[c].stop()
		first, end := failures(requests, s.clusters...)
		if first == 0 || end > clean[c] {
			s.t.Errorf("in %s, requests: %v; want failures after the cut, and none more than %v after it: %q", c.id, tally(requests), clean[c]-began, others(requests, s.clusters...))
		}
		last = append(last, end-began)
		s.t.Logf("%s is cut off: in %s, requests failed until %v after the cut: %v", dies.id, c.id, end-began, tally(requests))
	}
	returned = time.Now()
	mend()
	return last
}

// reportReturn waits until all clusters answer everywhere.
func (s *scene) reportReturn(clients map[*cluster]*clientPod) {
	s.t.Helper()
	for _, client := range clients {
		client.reachesAll(s.fqdn("web"), s.clusters...)
	}
	s.report("from the return of the network until all clusters answer everywhere", time.Since(returned))
}

// TestOnlyTheAPIServerIsSilent: the API server of a cluster accepts connections and answers nothing.
// Its pods serve, so everything stays, and no request fails.
func TestOnlyTheAPIServerIsSilent(t *testing.T) {
	s := newScene(t, bySearch, "only the API server of a cluster falls silent: all stays")
	home, frozen := s.clusters[0], s.clusters[len(s.clusters)-1]
	s.faultOf(frozen)
	s.web("")
	client := s.client(home, "client")
	client.reachesAll(s.fqdn("web"), s.clusters...)
	s.proven(s.clusters...)
	ips := s.kubectl(home, "get", "serviceimport", "web", "-o", "jsonpath={.spec.ips}")
	flow := client.flow(s.address(home), 5*time.Second)
	mend := s.fail(frozen, "freeze", "thaw")
	began := time.Now()
	for _, c := range except(s.clusters, frozen) {
		s.leaseIs(c, frozen, "data-path", "Cut", "API server is silent")
		s.leaseIs(c, frozen, "reason", "Unreachable", "")
	}
	s.report("from the silence until the peer's Lease reports that its endpoints answer", time.Since(began))
	s.explains(home, "web", "PeerUnreachable")
	for time.Since(began) < loadFor(t) {
		flow.goesOn(50)
		if left, err := s.endpoints(t.Context(), home, "web", frozen); err != nil || len(left) != 2 {
			t.Fatalf("after %v, the endpoints of %s are %v, %v", time.Since(began), frozen.id, left, err)
		}
	}
	s.leaseIs(home, frozen, "data-path", "Cut", "")
	client.reachesAll(s.fqdn("web"), s.clusters...)
	if now := s.kubectl(home, "get", "serviceimport", "web", "-o", "jsonpath={.spec.ips}"); now != ips {
		t.Errorf("ips were %s and are %s", ips, now)
	}
	lasted := time.Since(began)
	mend()
	back := time.Now()
	for _, c := range except(s.clusters, frozen) {
		s.leaseIs(c, frozen, "reason", "Connected", "")
		s.leaseIs(c, frozen, "data-path", "Proven", "")
	}
	s.report("from the return of the API server until the peer is connected", time.Since(back))
	requests := flow.stop()
	if failed := others(requests, s.clusters...); len(failed) > 0 {
		t.Errorf("%d of %d requests failed: %q", len(failed), len(requests), failed)
	}
	s.reportValue(fmt.Sprintf("requests in the %.0f s of silence (failed)", lasted.Seconds()), fmt.Sprintf("%d (%d)", len(requests), len(others(requests, s.clusters...))))
	s.kubectl(frozen, "wait", "--for=condition=Ready", "node", "--all", "--timeout=2m")
	s.kubectl(frozen, "wait", "--for=condition=Available", "deployment/web", "--timeout=2m")
}

// TestTwoClustersLoseEachOther: the network between two clusters is cut. Each goes on with what it
// reaches, and the third with all.
func TestTwoClustersLoseEachOther(t *testing.T) {
	s := newScene(t, bySearch, "the network between two of three clusters is cut: each uses what it reaches")
	if len(s.clusters) < 3 {
		t.Skip("needs three clusters")
	}
	a, b, third := s.clusters[0], s.clusters[1], s.clusters[2]
	s.faultOf(a)
	clients := s.webEverywhere()
	addresses := strings.Fields(s.kubectl(b, "get", "nodes", "-o", `jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`) + " " +
		s.kubectl(b, "get", "pods", "--all-namespaces", "-o", "jsonpath={.items[*].status.podIPs[*].ip}"))
	slices.Sort(addresses)
	far := clients[third].flow(s.address(third), 5*time.Second)
	mend := s.fail(a, "block", "unblock", slices.Compact(addresses)...)
	s.leaseIs(a, b, "data-path", "Dead", "")
	s.leaseIs(b, a, "data-path", "Dead", "")
	s.explains(a, "web", "PeerUnreachable")
	clients[a].without(s.fqdn("web"), []*cluster{a, third})
	clients[b].without(s.fqdn("web"), []*cluster{b, third})
	flows := map[*cluster]*flow{a: clients[a].flow(s.address(a), 5*time.Second), b: clients[b].flow(s.address(b), 5*time.Second)}
	for c, f := range flows {
		f.goesOn(200)
		if requests := f.stop(); len(others(requests, s.clusters...)) > 0 {
			t.Errorf("in %s: %q", c.id, others(requests, s.clusters...))
		}
	}
	if requests := far.stop(); len(others(requests, s.clusters...)) > 0 {
		t.Errorf("in %s: %q", third.id, others(requests, s.clusters...))
	}
	mend()
	for _, c := range s.clusters {
		clients[c].reachesAll(s.fqdn("web"), s.clusters...)
	}
}

// TestOnlyTheControllerIsSilent: the API server of a cluster answers, and its controller does not run.
// After --peer-timeout its endpoints leave, because they are no longer up to date.
func TestOnlyTheControllerIsSilent(t *testing.T) {
	s := newScene(t, resolving{"cluster.peerTimeout": "20s"}, "the controller of a cluster is silent: its endpoints leave after --peer-timeout (20s here), and return")
	home, mute := s.clusters[0], s.clusters[len(s.clusters)-1]
	s.web("")
	client := s.client(home, "client")
	client.reachesAll(s.fqdn("web"), s.clusters...)
	flow := client.flow(s.address(home), 5*time.Second)
	replicas := strings.TrimSpace(s.inSystem(mute, "get", "deployment", "multicluster-controller", "-o", "jsonpath={.spec.replicas}"))
	s.undo = append(s.undo, func(ctx context.Context) error {
		_, err := mute.kubectl(ctx, "--namespace="+system, "scale", "deployment/multicluster-controller", "--replicas="+replicas)
		return err
	})
	s.inSystem(mute, "scale", "deployment/multicluster-controller", "--replicas=0")
	flow.goesOn(100)
	s.leaseIs(home, mute, "connected", "True", "") // two heartbeats may be lost
	began := time.Now()
	for time.Since(began) < 100*time.Second { // how long a heartbeat is valid
		flow.goesOn(20)
	}
	s.leaseIs(home, mute, "reason", "ControllerSilent", "heartbeat")
	s.explains(home, "web", "PeerControllerSilent")
	s.eventually("no endpoint of "+mute.id+" is left", func(ctx context.Context) error { return s.withoutEndpoints(ctx, home, "web", mute) })
	client.without(s.fqdn("web"), except(s.clusters, mute))
	s.inSystem(mute, "scale", "deployment/multicluster-controller", "--replicas="+replicas)
	s.leaseIs(home, mute, "reason", "Connected", "")
	client.reachesAll(s.fqdn("web"), s.clusters...)
	if requests := flow.stop(); len(others(requests, s.clusters...)) > 0 {
		t.Errorf("requests that failed: %q", others(requests, s.clusters...))
	}
}

func (s *scene) inSystem(c *cluster, args ...string) string {
	s.t.Helper()
	out, err := c.kubectl(s.t.Context(), append([]string{"--namespace=" + system}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// TestOnePodIsUnreachable: a pod that is ready in its own cluster cannot be reached from another one.
// With the annotation, it gets no traffic from there; but the last one stays.
func TestOnePodIsUnreachable(t *testing.T) {
	beside(t)
	s := newScene(t, anyhow, "a pod that one cluster cannot reach gets no traffic from there (clusterset-dns.io/probe)")
	home, far := s.clusters[0], s.clusters[1]
	s.faultOf(home)
	s.deploy(far, workload{name: "web", replicas: 2})
	s.expose(far, "web", plainly)
	s.apply(far, "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata:\n  name: web\n  annotations: {clusterset-dns.io/probe: \"true\"}\n")
	client := s.client(home, "client")
	client.reachesAll(s.fqdn("web"), far)
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
	s.eventually("EndpointsProbed is "+reason, func(ctx context.Context) error {
		out, err := at.kubectl(ctx, "--namespace="+s.namespace, "get", "serviceimport", "web", "-o", `jsonpath={range .status.conditions[?(@.type=="EndpointsProbed")]}{.reason} {.message}{end}`)
		if err == nil && (!strings.HasPrefix(out, reason+" ") || !strings.Contains(out, word)) {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	})
}
