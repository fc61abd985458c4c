package beside

import (
	"context"
	"fmt"
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		controller.Stop()
		if t.Failed() {
			t.Logf("the controller ended with:\n%s", kube.Tail(controller.Log()))
		}
	})
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
