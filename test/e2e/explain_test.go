package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// explanation is what `kubectl multicluster explain -o json` prints.
type explanation struct {
	Result string
	Cause  problem
	Also   []problem
}

type problem struct{ ID, What string }

// explains waits until `kubectl multicluster explain` names a problem of a Service's name: as the cause, or beside one.
func (s *scene) explains(at *cluster, service, want string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("explain %s in %s names %s", service, at.id, want), func(ctx context.Context) error {
		out, failed := s.run(ctx, "", s.plugin, "explain", s.fqdn(service), "--context", at.id, "-o", "json")
		var e explanation
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			return fmt.Errorf("%w, %w: %s", failed, err, out)
		}
		for _, p := range append(e.Also, e.Cause) {
			if p.ID == want {
				return nil
			}
		}
		return fmt.Errorf("it is %s: %+v, also %+v", e.Result, e.Cause, e.Also)
	})
}

// explainAll is what a user would ask first, where a scenario failed.
func (s *scene) explainAll(ctx context.Context) string {
	var text strings.Builder
	for _, c := range s.clusters {
		names, err := c.kubectl(ctx, "get", "serviceexports,serviceimports", "--namespace="+s.namespace, "-o", "jsonpath={.items[*].metadata.name}")
		if err != nil {
			fmt.Fprintln(&text, err)
		}
		for _, name := range slices.Compact(slices.Sorted(strings.FieldsSeq(names))) {
			out, err := s.run(ctx, "", s.plugin, "explain", s.fqdn(name), "--context", c.id)
			fmt.Fprintf(&text, "%s $ kubectl multicluster explain %s\n%s", c.id, s.fqdn(name), out)
			if out == "" && err != nil {
				fmt.Fprintln(&text, err)
			}
		}
	}
	return text.String()
}
