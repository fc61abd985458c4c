package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// verifyReport is what `kubectl multicluster verify -o json` prints.
type verifyReport struct {
	Directions []struct {
		Server, Client      string
		Requests, Succeeded int
		Steps               []struct {
			Name    string
			OK      bool
			Seconds float64
		}
	}
}

func (s *scene) verify() {
	t := s.t
	a, b := s.clusters[0], s.clusters[1]
	args := []string{"verify", a.id, b.id, "--image", s.images["tools"], "--server", "serve --http 8080", "-o", "json"}
	out, err := s.run(t.Context(), "", s.plugin, args...)
	if err != nil {
		t.Fatal(err)
	}
	var r verifyReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(r.Directions) != 2 {
		t.Fatalf("%d directions: %s", len(r.Directions), out)
	}
	for _, d := range r.Directions {
		if d.Requests < 10 || d.Succeeded != d.Requests || len(d.Steps) != 5 {
			t.Errorf("%s to %s: %d of %d requests, %d steps", d.Client, d.Server, d.Succeeded, d.Requests, len(d.Steps))
		}
		for _, step := range d.Steps {
			s.report(fmt.Sprintf("verify, %s to %s: %s", d.Client, d.Server, step.Name), time.Duration(step.Seconds*float64(time.Second)))
		}
	}
	s.nothingIsLeft(a, b)

	// The image does not exist, so the command waits for its pods.
	interrupted := exec.CommandContext(t.Context(), s.plugin, "verify", a.id, b.id, "--image", "registry.invalid/none:1")
	interrupted.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig())
	if err := interrupted.Start(); err != nil {
		t.Fatal(err)
	}
	s.eventually("the pods of verify exist", func(ctx context.Context) error {
		for _, c := range []*cluster{a, b} {
			out, err := c.kubectl(ctx, "get", "pods", "-A", "-l", "clusterset-dns.io/verify", "-o", "name")
			if err != nil || out == "" {
				return errors.Join(err, fmt.Errorf("none in %s", c.id))
			}
		}
		return nil
	})
	if err := interrupted.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var status *exec.ExitError
	if err := interrupted.Wait(); !errors.As(err, &status) || status.ExitCode() != 1 {
		t.Errorf("after Ctrl-C: %v, want the exit status 1", err)
	}
	s.nothingIsLeft(a, b)
}

func (s *scene) nothingIsLeft(clusters ...*cluster) {
	s.t.Helper()
	for _, c := range clusters {
		out, err := c.kubectl(s.t.Context(), "get", "namespaces", "-l", "clusterset-dns.io/verify", "-o", "name")
		if err != nil || strings.TrimSpace(out) != "" {
			s.t.Errorf("in %s: left are %q, %v", c.id, out, err)
		}
	}
}
