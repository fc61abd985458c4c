package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUpgrade: an older commit (E2E_FROM, its checkout) serves, and each cluster gets the present one, goes back, and gets it again. Meanwhile
// a pod asks as fast as it is answered. No answer is lost but at the ends of servers, no request fails, and every object stays the same one.
func TestUpgrade(t *testing.T) {
	folder := os.Getenv("E2E_FROM")
	if folder == "" {
		t.Skip("needs a commit to upgrade from: make e2e-upgrade FROM=<commit>")
	}
	s := open(t)
	older, err := s.older(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	s.dns = nil
	if err := older.each(t.Context(), func(ctx context.Context, c *cluster) error { return c.install(ctx, twoServers) }); err != nil {
		t.Fatal(err)
	}
	if err := s.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.dns, s.joined = twoServers, true // so that nothing installs the present chart

	l := s.newScene(t, "an upgrade from "+older.tag()+", a rollback, and the upgrade again, while a pod asks").newLoad()
	client := l.client(l.at, "client")
	client.leadsTo(l.fqdn("web"), l.from, l.at)
	before := l.identities()
	requests := client.flow(l.fqdn("web"), resolverPatience+4*time.Second)
	steps := []step{l.upgrade(l.at), l.rollBack(l.at)}
	for _, c := range l.clusters {
		steps = append(steps, l.upgrade(c))
	}
	l.disturb(loadFor(t), steps)
	s.dns = nil // the load can end after the rollback: the next scene installs the present chart
	l.judge(tollOfSockets)
	l.judgeRequests(requests.stop())
	for object, uid := range l.identities() {
		if before[object] != uid {
			t.Errorf("%s is %s; before the upgrade it was %q", object, uid, before[object])
		}
		delete(before, object)
	}
	if len(before) > 0 {
		t.Errorf("the upgrade deleted %v", before)
	}
}

// older is the same clusters with the chart and the images of another checkout.
func (s *set) older(ctx context.Context, folder string) (*set, error) {
	tag, err := s.run(ctx, "", "git", "-C", folder, "describe", "--tags", "--always", "--abbrev=12")
	if err != nil {
		return nil, err
	}
	o := &set{dir: s.dir, kubectl: s.kubectl, helm: s.helm, chart: filepath.Join(folder, "deploy", "charts", "multicluster"), images: maps.Clone(s.images),
		chosen: map[string]bool{"coredns": true, "controller": true}}
	for _, image := range []string{"coredns", "controller"} {
		repository, _ := splitImage(s.images[image])
		o.images[image] = repository + ":" + strings.TrimSpace(tag)
	}
	for _, c := range s.clusters {
		o.clusters = append(o.clusters, &cluster{set: o, id: c.id})
	}
	return o, nil
}

// tag is that of the images.
func (s *set) tag() string {
	_, tag := splitImage(s.images["controller"])
	return tag
}

func (l *load) upgrade(c *cluster) step {
	return step{c.id + " upgraded", func() {
		l.t.Helper()
		if err := c.install(l.t.Context(), twoServers); err != nil {
			l.t.Fatal(err)
		}
	}}
}

func (l *load) rollBack(c *cluster) step {
	return step{c.id + " rolled back", func() {
		l.t.Helper()
		if _, err := l.run(l.t.Context(), "", l.helm, "rollback", release, "--kube-context="+c.id, "--namespace="+system, "--force-conflicts", "--wait", "--timeout=5m"); err != nil {
			l.t.Fatal(err)
		}
	}}
}

// identities are the UIDs of all objects of imports, and the addresses of the imports.
func (l *load) identities() map[string]string {
	l.t.Helper()
	all := map[string]string{}
	for _, c := range l.clusters {
		out := l.kubectl(c, "get", "serviceimports,services,endpointslices", "-l", "app.kubernetes.io/managed-by=multicluster-controller",
			"-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid} {.spec.ips}{"\n"}{end}`)
		for line := range strings.Lines(out) {
			words := strings.SplitN(strings.TrimSpace(line), " ", 3)
			all[fmt.Sprintf("%s: %s %s", c.id, words[0], words[1])] = words[2]
		}
	}
	if len(all) == 0 {
		l.t.Fatal("no object is there that the controller made")
	}
	return all
}
