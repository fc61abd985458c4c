package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// regions gives each cluster a ClusterProperty with its region, which goes with the scene.
func (s *scene) regions(names ...string) {
	s.t.Helper()
	for i, c := range s.clusters {
		s.apply(c, controlplane.AboutCRD)
		s.undo = append(s.undo, func(ctx context.Context) error {
			_, err := c.kubectl(ctx, "delete", "crd", "clusterproperties.about.k8s.io", "--wait=false")
			return err
		})
		s.kubectl(c, "wait", "--for=condition=Established", "crd/clusterproperties.about.k8s.io", "--timeout=1m")
		s.eventually("a ClusterProperty in "+c.id, func(ctx context.Context) error {
			return c.apply(ctx, s.namespace, fmt.Sprintf(
				"apiVersion: about.k8s.io/v1\nkind: ClusterProperty\nmetadata: {name: region.topology.kubernetes.io}\nspec: {value: %s}\n", names[i]))
		})
	}
}

// announced waits until a cluster's controller has announced its region.
func (s *scene) announced(c *cluster, region string) {
	s.t.Helper()
	s.eventually(c.id+" announces its region", func(ctx context.Context) error {
		out, err := c.kubectl(ctx, "get", "namespace", system, "-o", `jsonpath={.metadata.annotations.clusterset-dns\.io/cluster-properties}`)
		if err == nil && out != "region.topology.kubernetes.io="+region {
			err = fmt.Errorf("it announces %q", out)
		}
		return err
	})
}

// ready makes the one server of a workload ready or not, and returns when its pod is.
func (s *scene) ready(c *cluster, name string, is bool) time.Time {
	s.t.Helper()
	command := "touch"
	if is {
		command = "rm"
	}
	s.kubectl(c, "exec", "deployment/"+name, "--", command, "/tmp/unready")
	s.kubectl(c, "wait", fmt.Sprintf("--for=condition=Ready=%t", is), "pod", "-l", "app="+name, "--timeout=1m")
	return time.Now()
}

// preference is what the condition of an import says of the choice.
func (s *scene) preference(c *cluster, name, says string) {
	s.t.Helper()
	s.eventually("the condition says: "+says, func(ctx context.Context) error {
		out, err := c.kubectl(ctx, "--namespace="+s.namespace, "get", "serviceimport", name, "-o", `jsonpath={.status.conditions[?(@.type=="ClusterPreference")].message}`)
		if err == nil && !strings.Contains(out, says) {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
}

// TestClusterPreference: the pods of the own cluster serve, then those of the own region, then any, as they go away one by one, and back.
// The address stays, and no request is lost while the last pod of a cluster is ending.
func TestClusterPreference(t *testing.T) {
	beside(t)
	s := newScene(t, anyhow, "cluster preference: local, region, any")
	if len(s.clusters) < 3 {
		t.Skip("needs three clusters")
	}
	home, near, far := s.clusters[0], s.clusters[1], s.clusters[2]
	s.regions("eu", "eu", "us")
	for _, c := range s.clusters {
		s.deploy(c, workload{name: "foo", replicas: 1, linger: 15 * time.Second})
		s.expose(c, "foo", plainly)
		s.apply(c, `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata:
  name: foo
  annotations:
    clusterset-dns.io/prefer-clusters: local, topology.kubernetes.io/region, any
    clusterset-dns.io/return-after: 2s
`)
	}
	s.announced(home, "eu")
	s.announced(near, "eu")
	s.announced(far, "us")
	client := s.client(home, "client")
	client.alone(s.fqdn("foo"), home.id)
	address := s.kubectl(home, "get", "serviceimport", "foo", "-o", "jsonpath={.spec.ips}")

	flow := client.flow(s.fqdn("foo"), 5*time.Second)
	var left []time.Time
	for range 5 {
		left = append(left, s.ready(home, "foo", false))
		client.alone(s.fqdn("foo"), near.id)
		s.ready(home, "foo", true)
		client.alone(s.fqdn("foo"), home.id)
	}
	s.median(flow.stop(), left, near)
	s.preference(home, "foo", "entry 1 of 3, local, is used")

	flows := client.flows(8, s.fqdn("foo"), 5*time.Second)
	s.kubectl(home, "scale", "deployment/foo", "--replicas=0")
	client.alone(s.fqdn("foo"), near.id)
	s.preference(home, "foo", "entry 2 of 3, topology.kubernetes.io/region, is used")
	s.kubectl(near, "scale", "deployment/foo", "--replicas=0")
	client.alone(s.fqdn("foo"), far.id)
	s.preference(home, "foo", "entry 3 of 3, any, is used")
	flows[0].goesOn(200)
	s.kubectl(home, "wait", "--for=delete", "pod", "-l", "app=foo", "--timeout=2m")
	s.kubectl(near, "wait", "--for=delete", "pod", "-l", "app=foo", "--timeout=2m")
	requests := flows.stop()
	if failed := others(requests, s.clusters...); len(failed) > 0 || len(requests) < 1000 {
		t.Errorf("%d of %d requests had no answer while the last pods were ending: %q", len(failed), len(requests), failed)
	}
	s.t.Logf("%d requests while the last pods were ending: %v", len(requests), tally(requests))

	s.kubectl(home, "scale", "deployment/foo", "--replicas=1")
	client.alone(s.fqdn("foo"), home.id)
	if now := s.kubectl(home, "get", "serviceimport", "foo", "-o", "jsonpath={.spec.ips}"); now != address {
		t.Errorf("the address was %s and is %s", address, now)
	}
}

// alone waits until many answers in a row come from one cluster: while a region is used, or until return-after is over, several answer,
// and a server that was asked before it knew the name keeps its denial for some seconds.
func (p *clientPod) alone(name, cluster string) {
	p.scene.t.Helper()
	p.scene.eventually(fmt.Sprintf("%s in %s leads to %s alone", name, p.cluster.id, cluster), func(ctx context.Context) error {
		got, err := p.fetch(ctx, name, 20)
		if err != nil {
			return err
		}
		return got.only(cluster)
	})
}

// median reports how long it took from each time until a cluster answered.
func (s *scene) median(all []request, since []time.Time, by *cluster) {
	s.t.Helper()
	var took []time.Duration
	for _, at := range since {
		began := time.Duration(at.UnixNano())
		i := slices.IndexFunc(all, func(r request) bool { return r.at >= began && r.who == by.id })
		if i < 0 {
			s.t.Fatalf("no answer from %s after %v", by.id, at)
		}
		took = append(took, all[i].at-began)
	}
	slices.Sort(took)
	s.t.Logf("from the last local pod that turns unready to the first answer from %s: %v", by.id, took)
	s.report("the last local pod turns unready, until another cluster answers (median of five)", took[len(took)/2])
	if failed := others(all, s.clusters...); len(failed) > 0 {
		s.t.Errorf("requests without an answer: %q", failed)
	}
}
