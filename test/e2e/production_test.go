package e2e

import (
	"context"
	"time"
)

func (s *scene) databaseMoves() {
	t := s.t
	a, b, at := s.clusters[0], s.clusters[1], s.clusters[len(s.clusters)-1]
	for c, replicas := range map[*cluster]int{a: 1, b: 0} {
		s.deploy(c, workload{name: "db", replicas: replicas})
		s.expose(c, "db", plainly)
		s.export(c, "db")
	}
	client := s.client(at, "client")
	client.leadsTo(s.fqdn("db"), a)
	f := client.flow(s.fqdn("db"), time.Second)
	s.kubectl(a, "scale", "deployment/db", "--replicas=0")
	s.kubectl(a, "wait", "--for=delete", "pod", "-l", "app=db", "--timeout=2m")
	s.kubectl(b, "scale", "deployment/db", "--replicas=1")
	s.kubectl(b, "rollout", "status", "deployment/db", "--timeout=5m")
	began := time.Now()
	s.eventually("a request is answered by "+b.id, func(ctx context.Context) error {
		got, err := client.fetch(ctx, s.fqdn("db"), 1)
		if err != nil {
			return err
		}
		return got.only(b.id)
	})
	after := time.Since(began)
	client.reaches(s.fqdn("db"), b.id)
	f.goesOn(5)
	requests := f.stop()
	got := tally(requests)
	t.Logf("requests: %v", got)
	if got[a.id] == 0 || got[b.id] == 0 {
		t.Errorf("requests: %v; want answers of both clusters", got)
	}
	s.report("longest time without an answer, with the end of one pod and the start of the other", longestGap(requests, a, b))
	s.report("from the new pod's being ready to an answer of it, by the test's clock", after)
}
