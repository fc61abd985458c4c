package e2e

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// clusterDies in a moment: API server, kubelet and pods.
func (y *story) clusterDies() {
	y.t.Helper()
	end := y.faultOf(y.peer)
	all, staying := y.clusters, except(y.clusters, y.peer)
	stays, dies, client := y.home, y.peer, y.clients[y.home]
	db := y.headlessInBoth(client, stays, dies)
	load := client.flows(4, y.fqdn("web"), time.Second)
	db.begin()
	y.clusters = staying // no client uses it any more
	began := time.Now()
	killed := make(chan error, 1)
	go func() { killed <- end(y.t.Context(), "end") }()
	y.leaseIs(stays, dies, "connected", "False", "")
	y.report("from the kill until the peer's Lease said so", time.Since(began))
	y.eventually("no endpoint of "+dies.id+" is left", func(ctx context.Context) error {
		return y.withoutEndpoints(ctx, stays, "web", dies)
	})
	y.report("from the kill until its endpoints were out of the slices", time.Since(began))
	if err := <-killed; err != nil {
		y.t.Error(err)
	}
	// kube-proxy follows the slices a moment later: until then, some requests still go to a pod that is no more.
	y.eventually("web reaches the remaining clusters", func(ctx context.Context) error {
		got, err := client.fetch(ctx, y.fqdn("web"), 20)
		if err != nil {
			return err
		}
		return got.only(ids(staying)...)
	})
	requests := load.stop()
	y.t.Logf("requests: %v", tally(requests))
	first, last := failures(requests, all...)
	if tally(requests)[dies.id] == 0 || first == 0 {
		y.t.Errorf("requests: %v; want answers of %s at first, and then failures", tally(requests), dies.id)
	}
	y.report("from the first request that failed to the last (an IP is asked for: no TTL counts)", last-first)
	db.judge(began)
}

// dying is a headless Service in the cluster that dies and in one that stays, and a client of it.
type dying struct {
	*scene
	client      *clientPod
	stays, dies *cluster
	address     string // of the pod in the cluster that dies
	lookups     *flow
	requests    *flow // as of a client that keeps addresses for their TTL
}

// headlessInBoth makes db, and waits until the client's server has both addresses.
func (s *scene) headlessInBoth(client *clientPod, stays, dies *cluster) *dying {
	s.t.Helper()
	for _, c := range []*cluster{stays, dies} {
		s.expose(c, "db", headless)
		s.deploy(c, workload{name: "db", kind: "StatefulSet", replicas: 1})
		s.export(c, "db")
	}
	d := &dying{scene: s, client: client, stays: stays, dies: dies, address: s.podIP(dies, "db-0")}
	client.prints("dig +short A "+s.fqdn("db"), s.podIP(stays, "db-0"), d.address)
	return d
}

func (d *dying) begin() {
	d.lookups = d.client.lookups(d.fqdn("db"))
	d.requests = d.client.flowByTTL(d.fqdn("db"), time.Second)
}

// judge wants the client to have met both clusters, and then failures, and an end to them.
func (d *dying) judge(killed time.Time) {
	d.t.Helper()
	d.client.prints("cat /tmp/addresses", d.fqdn("db"), "-"+d.address)
	d.requests.goesOn(5)
	at, ttl := d.lastOf(d.lookups.stop())
	d.report("from the kill until a headless name was answered with its address for the last time", at.Sub(killed))
	d.report("TTL of that answer: for as long may a client keep it", ttl)
	requests := d.requests.stop()
	got := tally(requests)
	d.t.Logf("requests to the headless name: %v", got)
	first, last := failures(requests, d.stays, d.dies)
	if got[d.stays.id] == 0 || got[d.dies.id] == 0 || first == 0 || last == requests[len(requests)-1].at {
		d.t.Errorf("requests to the headless name: %v; want answers of both clusters, then failures, and an end to them", got)
	}
	d.report("from the first request that failed to the last, of a client that keeps addresses for their TTL", last-first)
}

// lastOf is when the dead pod's address was given for the last time, and the TTL that it had then.
func (d *dying) lastOf(lookups []request) (at time.Time, ttl time.Duration) {
	d.t.Helper()
	for _, l := range lookups {
		for _, given := range strings.Fields(l.said) {
			seconds, ok := strings.CutPrefix(given, d.address+"/")
			if !ok {
				continue
			}
			n, err := strconv.Atoi(seconds)
			if err != nil {
				d.t.Fatalf("a lookup gave %q: %v", l.said, err)
			}
			at, ttl = time.Unix(0, int64(l.at)), time.Duration(n)*time.Second
		}
	}
	if at.IsZero() {
		d.t.Fatalf("none of %d lookups gave the address %s", len(lookups), d.address)
	}
	return at, ttl
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
