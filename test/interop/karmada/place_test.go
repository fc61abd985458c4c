package karmada

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// place is a cluster that the test types commands for, as its administrator.
type place struct{ name, kubeconfig string }

// kubectl runs kubectl in the project's top folder, and gives its output.
func (p place) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.try(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (p place) try(ctx context.Context, args ...string) (string, error) {
	out, err := binaries.KubectlWith(ctx, p.kubeconfig, "", args...)
	if err != nil {
		err = fmt.Errorf("in %s: %w", p.name, err)
	}
	return out, err
}

// apply creates or changes objects. Those without a namespace go to default.
func (p place) apply(t *testing.T, text string) {
	t.Helper()
	if _, err := binaries.KubectlWith(t.Context(), p.kubeconfig, text, "apply", "--server-side", "--force-conflicts", "--filename", "-"); err != nil {
		t.Fatalf("in %s: %v", p.name, err)
	}
}

// get gives a part of an object, by a JSONPath. It is empty if there is no such object.
func (p place) get(ctx context.Context, object, path string) (string, error) {
	return p.try(ctx, "get", object, "--ignore-not-found", "--output", "jsonpath="+path)
}

// has waits until a part of an object is as wanted.
func (p place) has(t *testing.T, object, path, want string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s in %s has %s %q", object, p.name, path, want), func(ctx context.Context) error {
		got, err := p.get(ctx, object, path)
		if err == nil && got != want {
			err = fmt.Errorf("it has %q", got)
		}
		return err
	})
}

// eventually waits for a condition that starts a program each time.
func eventually(t *testing.T, what string, condition func(context.Context) error) {
	t.Helper()
	kube.EventuallyEvery(t, 200*time.Millisecond, what, func() error { return condition(t.Context()) })
}

// prints waits until a shell's line in the pod client of a cluster prints all of want, and none of what follows a dash.
func (p place) prints(t *testing.T, line string, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s in %s prints %q", line, p.name, want), func(ctx context.Context) error {
		out, err := p.try(ctx, "exec", "client", "--", "sh", "-c", line+" 2>&1")
		if err != nil {
			return err
		}
		for _, text := range want {
			unwanted, no := strings.CutPrefix(text, "-")
			if no && strings.Contains(out, unwanted) || !no && !strings.Contains(out, text) {
				return fmt.Errorf("it printed %q", out)
			}
		}
		return nil
	})
}
