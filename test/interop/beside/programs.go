package beside

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// Derived returns the only Service that an import owns. With none or several, it returns an error.
func Derived(ctx context.Context, api client.Client, namespace, imp string) (*corev1.Service, error) {
	var all corev1.ServiceList
	if err := api.List(ctx, &all, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	all.Items = slices.DeleteFunc(all.Items, func(svc corev1.Service) bool {
		return !slices.ContainsFunc(svc.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.Name == imp })
	})
	if len(all.Items) != 1 {
		return nil, fmt.Errorf("%d derived Services", len(all.Items))
	}
	return &all.Items[0], nil
}
