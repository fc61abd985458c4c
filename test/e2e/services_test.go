package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestTwoClustersServe: both clusters' pods serve one clusterset IP, and one of them can leave without a request that fails: its
// servers linger for longer than the others need to hear of it.
func TestTwoClustersServe(t *testing.T) {
	s := newScene(t, anyhow, "a Service in two clusters: both serve, and one leaves while requests go on")
	stays, leaves := s.clusters[0], s.clusters[1]
	for _, c := range []*cluster{stays, leaves} {
		s.deploy(c, workload{name: "web", replicas: 2, linger: 15 * time.Second})
		s.expose(c, "web", plainly)
		s.export(c, "web")
	}
	name := s.fqdn("web")
	clients := []*clientPod{s.client(stays, "client"), s.client(leaves, "client")}
	for _, client := range clients {
		s.eventually("web is answered by both clusters in "+client.cluster.id, func(ctx context.Context) error {
			got, err := client.fetch(ctx, name, 30)
			if err == nil && (len(got) != 2 || got[stays.id] == 0 || got[leaves.id] == 0) {
				err = fmt.Errorf("%v answered", got)
			}
			return err
		})
	}
	var flows []*flow
	for _, client := range clients {
		flows = append(flows, client.flow(name))
	}
	s.kubectl(leaves, "scale", "deployment/web", "--replicas=0")
	began := time.Now()
	for _, c := range []*cluster{stays, leaves} {
		s.eventually("no ready endpoint of "+leaves.id+" is left in "+c.id, func(ctx context.Context) error {
			return s.withoutEndpoints(ctx, c, "web", leaves)
		})
	}
	gone := time.Since(began)
	s.eventually("the pods of "+leaves.id+" are gone", func(ctx context.Context) error {
		left, err := leaves.kubectl(ctx, "get", "pods", "-l", "app=web", "-o", "name", "--namespace="+s.namespace)
		if err == nil && left != "" {
			err = fmt.Errorf("there are %q", left)
		}
		return err
	})
	for _, client := range clients {
		client.reaches(name, stays.id)
	}
	for i, f := range flows {
		got := f.stop()
		t.Logf("requests in %s: %v", clients[i].cluster.id, got)
		if got[stays.id] == 0 || got[leaves.id]+got[stays.id] != got.total() {
			t.Errorf("requests in %s while web left %s: %v; want answers of servers alone", clients[i].cluster.id, leaves.id, got)
		}
	}
	s.report("  from the scaling to 0 until no slice has its endpoints", fmt.Sprintf("%.2f s", gone.Seconds()))
}

// withoutEndpoints says whether a cluster's derived Service has ready endpoints of another cluster, or of itself.
func (s *scene) withoutEndpoints(ctx context.Context, at *cluster, name string, of *cluster) error {
	out, err := at.kubectl(ctx, "get", "endpointslices", "--namespace="+s.namespace,
		"-l", "multicluster.kubernetes.io/service-name="+name+",multicluster.kubernetes.io/source-cluster="+of.id,
		"-o", "jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.addresses[0]} {end}")
	if err == nil && strings.TrimSpace(out) != "" {
		err = fmt.Errorf("there are %s", out)
	}
	return err
}

// flow is one request after another in a pod.
type flow struct {
	client *clientPod
	marker string // the file whose presence ends it
	ended  chan error
	out    string
}

// flow begins requests, and returns at once. They end with stop.
func (p *clientPod) flow(name string) *flow {
	f := &flow{client: p, marker: "/tmp/stop-" + name, ended: make(chan error, 1)}
	go func() {
		var err error
		f.out, err = p.exec(p.scene.t.Context(), fmt.Sprintf("until [ -e %s ]; do curl -sS -m 5 http://%s/ || true; done", f.marker, name))
		f.ended <- err
	}()
	return f
}

// stop gives all answers.
func (f *flow) stop() answers {
	t := f.client.scene.t
	t.Helper()
	if _, err := f.client.exec(t.Context(), "touch "+f.marker); err != nil {
		t.Fatal(err)
	}
	if err := <-f.ended; err != nil {
		t.Fatalf("requests in %s: %v", f.client.cluster.id, err)
	}
	return count(f.out)
}

func (a answers) total() int {
	sum := 0
	for _, n := range a {
		sum += n
	}
	return sum
}

// TestStatefulSets: each pod of a headless Service by its host name and its cluster's id, from every cluster.
func TestStatefulSets(t *testing.T) {
	s := newScene(t, anyhow, "a StatefulSet in two clusters: each pod by <hostname>.<clusterid>")
	replicas := map[*cluster]int{s.clusters[0]: 2, s.clusters[1]: 1}
	for c, n := range replicas {
		s.expose(c, "db", "clusterIP: None\npublishNotReadyAddresses: false\nports: [{name: web, port: 8080}]")
		s.deploy(c, workload{name: "db", kind: "StatefulSet", replicas: n})
		s.export(c, "db")
	}
	for _, at := range []*cluster{s.clusters[0], s.clusters[1]} {
		client := s.client(at, "client")
		for c, n := range replicas {
			for i := range n {
				host := fmt.Sprintf("db-%d", i)
				name := host + "." + c.id + "." + s.fqdn("db")
				client.prints("curl -sS -m 5 http://"+name+":8080/", host+" "+c.id)
				client.prints("nslookup "+name, name, "-NXDOMAIN")
			}
		}
		client.prints("dig +short "+s.fqdn("db")+" | sort -u | wc -l", "3")
		client.prints("nslookup db-1."+s.clusters[1].id+"."+s.fqdn("db")+" || true", "NXDOMAIN")
	}
}
