package e2e

import (
	"encoding/json"
	"fmt"
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
	for _, c := range []*cluster{a, b} {
		out, err := c.kubectl(t.Context(), "get", "namespaces", "-l", "clusterset-dns.io/verify", "-o", "name")
		if err != nil || strings.TrimSpace(out) != "" {
			t.Errorf("in %s: left are %q, %v", c.id, out, err)
		}
	}
}
