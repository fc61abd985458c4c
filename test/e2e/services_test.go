package e2e

import (
	"context"
	"fmt"
	"time"
)

func (s *scene) twoClustersServe() {
	t := s.t
	stays, leaves := s.clusters[0], s.clusters[1]
	for _, c := range []*cluster{stays, leaves} {
		s.deploy(c, workload{name: "web", replicas: 2, linger: linger})
		s.expose(c, "web", plainly)
		s.export(c, "web")
	}
	name := s.fqdn("web")
	clients := []*clientPod{s.client(stays, "client"), s.client(leaves, "client")}
	for _, client := range clients {
		client.leadsTo(name, stays, leaves)
	}
	var flows []*flow
	for _, client := range clients {
		flows = append(flows, client.flow(name, 10*time.Second))
	}
	s.kubectl(leaves, "scale", "deployment/web", "--replicas=0")
	began := time.Now()
	for _, c := range []*cluster{stays, leaves} {
		s.eventually("no ready endpoint of "+leaves.id+" is left in "+c.id, func(ctx context.Context) error {
			return s.withoutEndpoints(ctx, c, "web", leaves)
		})
	}
	gone := time.Since(began)
	s.shows(leaves, "no pod is left", equals(""), "get", "pods", "-l", "app=web", "-o", "name")
	for _, client := range clients {
		client.reaches(name, stays.id)
	}
	for i, f := range flows {
		requests := f.stop()
		got := tally(requests)
		t.Logf("requests in %s: %v", clients[i].cluster.id, got)
		if failed := others(requests, stays, leaves); got[stays.id] == 0 || len(failed) > 0 {
			t.Errorf("requests in %s while web left %s: %v; not answered: %q", clients[i].cluster.id, leaves.id, got, failed)
		}
	}
	s.report("from the scaling to 0 until no slice has its endpoints", gone)
}

// withoutEndpoints says whether a cluster's derived Service has ready endpoints of another cluster, or of itself.
func (s *scene) withoutEndpoints(ctx context.Context, at *cluster, name string, of *cluster) error {
	left, err := s.endpoints(ctx, at, name, of)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("there are %v", left)
	}
	return err
}
