package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// peerTimeout is how long endpoints of a cluster that is gone stay, where one dies here. 5m unless given; here, nobody wants to wait.
const peerTimeout = 20 * time.Second

// TestClusterDies is the last of all, by its file's name: the last cluster is no more then. That dies in a moment, API server, kubelet and pods. E2E_KILL has a
// line for the shell for each cluster, separated as paths are.
func TestClusterDies(t *testing.T) {
	kill := filepath.SplitList(os.Getenv("E2E_KILL"))
	if len(kill) == 0 {
		t.Skip("kills a cluster: only with those that `make e2e` starts")
	}
	how := maps.Clone(bySearch)
	how["cluster.peerTimeout"] = peerTimeout.String()
	s := newScene(t, how, "a cluster dies under load: its share moves to the others")
	stays, dies := s.clusters[0], s.clusters[len(s.clusters)-1]
	for _, c := range []*cluster{stays, dies} {
		s.deploy(c, workload{name: "web", replicas: 2})
		s.expose(c, "web", plainly)
		s.export(c, "web")
	}
	client := s.client(stays, "client")
	s.eventually("web is answered by both clusters", func(ctx context.Context) error {
		got, err := client.fetch(ctx, s.fqdn("web"), 30)
		if err == nil && (len(got) != 2 || got[stays.id] == 0 || got[dies.id] == 0) {
			err = fmt.Errorf("%v answered", got)
		}
		return err
	})
	f := client.flow(s.fqdn("web"), time.Second)
	s.clusters = s.clusters[:len(s.clusters)-1] // nobody asks it any more
	began := time.Now()
	killer := exec.CommandContext(t.Context(), "sh", "-c", kill[len(kill)-1])
	killer.Stderr = os.Stderr
	if err := killer.Start(); err != nil {
		t.Fatal(err)
	}
	s.eventually("the Lease says that "+dies.id+" is not connected", func(ctx context.Context) error {
		connected, err := stays.kubectl(ctx, "get", "lease", dies.id, "--namespace="+system, "-o", `jsonpath={.metadata.labels.clusterset-dns\.io/connected}`)
		if err == nil && connected != "False" {
			err = errors.New("connected: " + connected)
		}
		return err
	})
	s.report("from the kill until the peer's Lease said so", time.Since(began))
	s.eventually("no endpoint of "+dies.id+" is left", func(ctx context.Context) error {
		return s.withoutEndpoints(ctx, stays, "web", dies)
	})
	s.report(fmt.Sprintf("from the kill until its endpoints were out of the slices, with --peer-timeout=%v", peerTimeout), time.Since(began))
	if err := killer.Wait(); err != nil {
		t.Errorf("%s: %v", killer, err)
	}
	client.reaches(s.fqdn("web"), stays.id)
	requests := f.stop()
	t.Logf("requests: %v", tally(requests))
	first, last := failures(requests, stays, dies)
	if tally(requests)[dies.id] == 0 || first == 0 {
		t.Errorf("requests: %v; want answers of %s at first, and then failures", tally(requests), dies.id)
	}
	s.report("from the first request that failed to the last (an IP is asked for: no TTL counts)", last-first)
}

// failures are when the first and the last request failed.
func failures(all []request, clusters ...*cluster) (first, last time.Duration) {
	answered := map[string]bool{}
	for _, c := range clusters {
		answered[c.id] = true
	}
	for _, r := range all {
		if answered[r.who] {
			continue
		}
		if first == 0 {
			first = r.at
		}
		last = r.at
	}
	return first, last
}
