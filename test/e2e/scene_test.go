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
)

// patience is how long a scenario waits for a condition: far more than it takes, so that only a condition that never comes fails.
const patience = 2 * time.Minute

// scene is one scenario's namespace, the same in all clusters.
type scene struct {
	*set
	t         *recorder
	namespace string
	measured  []string                      // lines of the report
	undo      []func(context.Context) error // at the end, after what a person would look at is in the log
	stock     bool                          // the clusters have a stock CoreDNS: see runStock
}

// besides are the scenarios that run at the same time.
var besides sync.WaitGroup

// beside lets a scenario run at the same time as others that call this, after all that do not. They leave alone what all share: DNS, the
// controllers and the nodes. Where times are measured for the documents, each runs alone: without E2E_BESIDE.
func beside(t *testing.T) {
	if os.Getenv("E2E_BESIDE") != "" {
		besides.Add(1)
		t.Cleanup(besides.Done)
		t.Parallel()
	}
}

// afterAll lets a scenario run when all others have ended.
func afterAll(t *testing.T) {
	if os.Getenv("E2E_BESIDE") != "" {
		t.Parallel()
		besides.Wait()
	}
}

// newScene makes the namespace, which goes with the test. The test's line for the report is written when it has passed.
func newScene(t *testing.T, how resolving, title string) *scene {
	t.Helper()
	return need(t, how).newScene(t, title)
}

// newScene is that in clusters as they are.
func (all *set) newScene(t *testing.T, title string) *scene {
	t.Helper()
	s := &scene{set: all, t: &recorder{T: t}, namespace: "e2e-" + strings.ToLower(rand.Text()[:8])}
	began := time.Now()
	t.Cleanup(func() { s.end(title, time.Since(began)) })
	if err := s.each(t.Context(), func(ctx context.Context, c *cluster) error {
		_, err := c.kubectl(ctx, "create", "namespace", s.namespace)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return s
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
	if s.t.Failed() {
		s.t.repeat()
	} else {
		s.writeReport(fmt.Sprintf("%s\t%.1f s\n", title, took.Seconds()) + strings.Join(s.measured, ""))
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

// eventually calls a condition until it returns nil. What it said last is in the failure.
func (s *scene) eventually(what string, condition func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var last error
	for {
		err := condition(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("%s: not in %v: %v", what, patience, last)
		case <-time.After(pause):
		}
	}
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
