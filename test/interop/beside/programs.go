package beside

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// StartController starts our controller on a cluster until the end of the test. If the test fails, the end of its log is shown.
func StartController(t *testing.T, c *kube.Cluster, flags ...string) {
	t.Helper()
	controller, err := binaries.StartController(t.Context(), c, flags...)
	untilEnd(t, controller, err)
}

// Run runs a program until the end of the test. If the test fails, the end of its log is shown.
func Run(t *testing.T, c *kube.Cluster, ready func(context.Context) error, path string, args ...string) *kube.Program {
	t.Helper()
	program, err := c.Beside(t.Context(), ready, path, args...)
	untilEnd(t, program, err)
	return program
}

func untilEnd(t *testing.T, program *kube.Program, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		program.Stop()
		if t.Failed() {
			t.Logf("%s ended with:\n%s", filepath.Base(program.Log()), kube.Tail(program.Log()))
		}
	})
}

// Page is ready when it has the status 200.
func Page(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := binaries.Get(ctx, url)
		return err
	}
}

// FreeAddress finds an address and port on loopback.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := kube.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}
