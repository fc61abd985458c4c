package kube

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestNewGivesAClusterAsItWasAtItsBeginning: the second test has the cluster of the first one, without what that one made, changed and deleted.
func TestNewGivesAClusterAsItWasAtItsBeginning(t *testing.T) {
	var first *Cluster
	t.Run("first", func(t *testing.T) {
		first = New(t, Options{})
		if err := first.InstallCRDs(t.Context(), BothVersions); err != nil {
			t.Fatal(err)
		}
		if err := first.StartControllers(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := edit(t.Context(), first); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("second", func(t *testing.T) {
		second := New(t, Options{})
		if second != first {
			t.Fatal("it is another cluster")
		}
		client := kubernetes.NewForConfigOrDie(second.Config)
		if _, err := client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}); err != nil {
			t.Errorf("a deleted Service is not back: %v", err)
		}
		if _, err := client.CoreV1().Services("default").Get(t.Context(), "foo", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a Service of the test before: %v; want none", err)
		}
		if admin, err := client.RbacV1().ClusterRoles().Get(t.Context(), "cluster-admin", metav1.GetOptions{}); err != nil || admin.Labels["edited"] != "" {
			t.Errorf("an edited role has %v, %v", admin.Labels, err)
		}
		if groups, err := second.groups(); err != nil || len(groups) != len(first.first.groups) {
			t.Errorf("groups %q, %v; want those of the beginning", groups, err)
		}
		// The address of the Service before is free again, and CRDs are served again.
		if err := second.InstallCRDs(t.Context(), BothVersions); err != nil {
			t.Error(err)
		}
		if _, err := client.CoreV1().Services("default").Create(t.Context(), fooAt("10.0.0.99"), metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		second.StopAPIServer()
	})
	t.Run("third", func(t *testing.T) {
		if New(t, Options{}) == first {
			t.Error("it is a cluster whose API server was stopped")
		}
		if New(t, Options{ServiceCIDRs: "10.0.1.0/24"}) == first {
			t.Error("it is a cluster with other options")
		}
	})
}

func fooAt(address string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "foo"}, Spec: corev1.ServiceSpec{ClusterIP: address, Ports: []corev1.ServicePort{{Port: 80}}}}
}

// edit creates, changes and deletes an object.
func edit(ctx context.Context, c *Cluster) error {
	client := kubernetes.NewForConfigOrDie(c.Config)
	if _, err := client.CoreV1().Services("default").Create(ctx, fooAt("10.0.0.99"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := client.CoreV1().Services("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil {
		return err
	}
	role, err := client.RbacV1().ClusterRoles().Get(ctx, "cluster-admin", metav1.GetOptions{})
	if err != nil {
		return err
	}
	role.Labels["edited"] = "yes"
	_, err = client.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
	return err
}
