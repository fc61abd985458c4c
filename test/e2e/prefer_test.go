package e2e

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// regions gives each cluster a ClusterProperty with its region, which goes with the scene.
func (s *scene) regions(names ...string) {
	s.t.Helper()
	for i, c := range s.clusters {
		s.apply(c, kube.AboutCRD)
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
	s.shows(c, "the region is announced", equals("region.topology.kubernetes.io="+region),
		"get", "namespace", system, "-o", `jsonpath={.metadata.annotations.clusterset-dns\.io/cluster-properties}`)
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
	s.shows(c, "the condition is: "+says, contains(says), "get", "serviceimport", name, "-o", `jsonpath={.status.conditions[?(@.type=="ClusterPreference")].message}`)
}

func (s *scene) clusterPreference() {
	t := s.t
	if len(s.clusters) < 3 {
		t.Skip("needs three clusters")
	}
	home, near, far := s.clusters[0], s.clusters[1], s.clusters[2]
	s.regions("eu", "eu", "us")
	for _, c := range s.clusters {
		s.deploy(c, workload{name: "foo", replicas: 1, linger: linger})
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
	client.leadsTo(s.fqdn("foo"), home)
	address := s.kubectl(home, "get", "serviceimport", "foo", "-o", "jsonpath={.spec.ips}")

	flow := client.flow(s.fqdn("foo"), 5*time.Second)
	var left []time.Time
	for range rounds() {
		left = append(left, s.ready(home, "foo", false))
		client.leadsTo(s.fqdn("foo"), near)
		s.ready(home, "foo", true)
		client.leadsTo(s.fqdn("foo"), home)
	}
	s.median(flow.stop(), left, near)
	s.preference(home, "foo", "entry 1 of 3, local, is used")

	flows := client.flows(8, s.fqdn("foo"), 5*time.Second)
	s.kubectl(home, "scale", "deployment/foo", "--replicas=0")
	client.leadsTo(s.fqdn("foo"), near)
	s.preference(home, "foo", "entry 2 of 3, topology.kubernetes.io/region, is used")
	s.kubectl(near, "scale", "deployment/foo", "--replicas=0")
	client.leadsTo(s.fqdn("foo"), far)
	s.preference(home, "foo", "entry 3 of 3, any, is used")
	flows[0].goesOn(200)
	s.kubectl(home, "wait", "--for=delete", "pod", "-l", "app=foo", "--timeout=2m")
	s.kubectl(near, "wait", "--for=delete", "pod", "-l", "app=foo", "--timeout=2m")
	s.answered("the last pods end", flows.stop(), 1000)

	s.kubectl(home, "scale", "deployment/foo", "--replicas=1")
	client.leadsTo(s.fqdn("foo"), home)
	if now := s.kubectl(home, "get", "serviceimport", "foo", "-o", "jsonpath={.spec.ips}"); now != address {
		t.Errorf("the address was %s and is %s", address, now)
	}
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
	s.report(fmt.Sprintf("the last local pod turns unready, until another cluster answers (median of %d)", len(took)), took[len(took)/2])
	s.answered("a pod turns unready, and ready", all, 1)
}
