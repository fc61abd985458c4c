package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// patience is how long the end of a scenario, or of a load, may take: far more than it takes.
const patience = 2 * time.Minute

// scene is one scenario's namespace, the same in all clusters.
type scene struct {
	*set
	t         *testing.T
	namespace string
	measured  []string                      // lines of the report
	undo      []func(context.Context) error // at the end, after what a person would look at is in the log
}

// scenario runs what needs the clusters for itself.
func scenario(t *testing.T, how *resolving, title string, run func(*scene)) {
	t.Helper()
	run(need(t, how).newScene(t, title))
}

// part is one of several scenarios of one kind.
type part struct {
	name, title string
	run         func(*scene)
}

// together runs scenarios at the same time that need the same way to resolve, and leave alone what they share.
func together(t *testing.T, how *resolving, parts ...part) {
	t.Helper()
	s := need(t, how)
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			if !measure() {
				t.Parallel()
			}
			p.run(s.newScene(t, p.title))
		})
	}
}

// besides are the scenarios that run at the same time.
var besides sync.WaitGroup

// beside runs a scenario at the same time as others of this kind, after all that are not. They leave alone what all share: DNS, the
// controllers and the nodes.
func beside(t *testing.T, title string, run func(*scene)) {
	t.Helper()
	if !measure() {
		besides.Add(1)
		t.Cleanup(besides.Done)
		t.Parallel()
	}
	scenario(t, anyhow, title, run)
}

// last runs a scenario when all others have ended.
func last(t *testing.T, how *resolving, title string, run func(*scene)) {
	t.Helper()
	if !measure() {
		t.Parallel()
		besides.Wait()
	}
	scenario(t, how, title, run)
}

// measure says whether the times are for the documents: then each scenario runs alone, several times where a median counts, and the
// controllers have their defaults.
func measure() bool { return os.Getenv("E2E_MEASURE") != "" }

// interval is that of the controllers' heartbeats, and of their connections to endpoints.
func interval() time.Duration {
	if measure() {
		return 30 * time.Second
	}
	return 3 * time.Second
}

// rounds is how often something is measured.
func rounds() int {
	if measure() {
		return 5
	}
	return 1
}

// linger is how long a server of pods that end continues: longer than all clusters need to use others.
const linger = 8 * time.Second

// newScene makes the namespace, which goes with the test, in clusters as they are. The test's line for the report is written when it has passed.
func (s *set) newScene(t *testing.T, title string) *scene {
	t.Helper()
	made := &scene{set: s, t: t, namespace: "e2e-" + strings.ToLower(rand.Text()[:8])}
	began := time.Now()
	t.Cleanup(func() { made.end(title, time.Since(began)) })
	if err := s.each(t.Context(), func(ctx context.Context, c *cluster) error {
		_, err := c.kubectl(ctx, "create", "namespace", made.namespace)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return made
}

// end runs when the test's own context has ended. It does not wait for the deletion of the
// namespaces: no other test uses their names.
func (s *scene) end(title string, took time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
	defer cancel()
	if s.t.Failed() {
		s.t.Log(s.describe(ctx))
	}
	s.undo = append(s.undo, func(ctx context.Context) error {
		return s.each(ctx, func(ctx context.Context, c *cluster) error {
			_, err := c.kubectl(ctx, "delete", "namespace", s.namespace, "--wait=false")
			return err
		})
	})
	for _, undo := range s.undo {
		if err := undo(ctx); err != nil {
			s.t.Error(err)
		}
	}
	if !s.t.Failed() {
		s.writeReport(fmt.Sprintf("%s\t%.1f s\n", title, took.Seconds()) + strings.Join(s.measured, ""))
	}
}

// later does something at the end of the scene, unless now has done it before.
func (s *scene) later(do func(context.Context) error) (now func()) {
	done := false
	once := func(ctx context.Context) error {
		if done {
			return nil
		}
		done = true
		return do(ctx)
	}
	s.undo = append(s.undo, once)
	return func() {
		s.t.Helper()
		if err := once(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// describe is what a person would look at, where a scenario failed.
func (s *scene) describe(ctx context.Context) string {
	var text strings.Builder
	for _, c := range s.clusters {
		for _, args := range [][]string{
			{"get", "pods,services,serviceexports,serviceimports,endpointslices", "-o", "wide", "--namespace=" + s.namespace},
			{"get", "leases", "--namespace=" + system, "-l", "clusterset-dns.io/peer", "-L", "clusterset-dns.io/connected", "-L", "clusterset-dns.io/reason"},
			{"logs", "--namespace=" + system, "-l", "app.kubernetes.io/name=multicluster-controller", "--tail=15"},
			{"logs", "--namespace=kube-system", "-l", "k8s-app=kube-dns", "--tail=15"},
		} {
			out, err := c.kubectl(ctx, args...)
			fmt.Fprintf(&text, "%s $ kubectl %s\n%s", c.id, strings.Join(args, " "), out)
			if err != nil {
				fmt.Fprintln(&text, err)
			}
		}
	}
	text.WriteString(s.explainAll(ctx))
	return text.String()
}

// report adds to the report how long something took, or did not go: the mark puts it into the table of failover times.
func (s *scene) report(what string, measured time.Duration) {
	line := fmt.Sprintf("> %s\t%.2f s\n", what, measured.Seconds())
	s.t.Log(line)
	s.measured = append(s.measured, line)
}

// writeReport adds lines for docs/results/e2e.txt, where the run command asks for them.
func (s *scene) writeReport(lines string) {
	s.t.Logf("\n%s", lines)
	path := os.Getenv("E2E_REPORT")
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Error(err)
		return
	}
	_, err = file.WriteString(lines)
	if err := errors.Join(err, file.Close()); err != nil {
		s.t.Error(err)
	}
}

// pause is the time between two calls of a condition. Most conditions start kubectl, which takes a fifth
// of a second of a core, and scenarios run at the same time.
const pause = 250 * time.Millisecond

// eventually waits for a condition. A program that hangs is ended after the patience of kube.EventuallyEvery.
func (s *scene) eventually(what string, condition func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*patience)
	defer cancel()
	kube.EventuallyEvery(s.t, pause, what, func() error { return condition(ctx) })
}

// apply puts objects into a cluster; NAMESPACE in the text stands for the scene's.
func (s *scene) apply(c *cluster, text string) {
	s.t.Helper()
	if err := c.apply(s.t.Context(), s.namespace, strings.ReplaceAll(text, "NAMESPACE", s.namespace)); err != nil {
		s.t.Fatalf("in %s: %v", c.id, err)
	}
}

// kubectl runs kubectl in the scene's namespace.
func (s *scene) kubectl(c *cluster, args ...string) string {
	s.t.Helper()
	out, err := c.kubectl(s.t.Context(), append([]string{"--namespace=" + s.namespace}, args...)...)
	if err != nil {
		s.t.Fatalf("in %s: %v", c.id, err)
	}
	return out
}

// fqdn is the name of a Service of this scene in the clusterset.
func (s *scene) fqdn(name string) string { return name + "." + s.namespace + ".svc.clusterset.local" }

// shows waits until kubectl prints what is wanted, in the scene's namespace unless the arguments say otherwise.
func (s *scene) shows(c *cluster, what string, wanted func(out string) bool, args ...string) {
	s.t.Helper()
	s.eventually(what+" in "+c.id, func(ctx context.Context) error {
		out, err := c.kubectl(ctx, append([]string{"--namespace=" + s.namespace}, args...)...)
		if err == nil && !wanted(out) {
			err = fmt.Errorf("kubectl prints %q", out)
		}
		return err
	})
}

func equals(want string) func(string) bool { return func(out string) bool { return out == want } }

func contains(want string) func(string) bool {
	return func(out string) bool { return strings.Contains(out, want) }
}
