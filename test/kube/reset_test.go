package kube

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const foo = "{apiVersion: v1, kind: Service, metadata: {name: foo}, spec: {clusterIP: 10.0.0.99, ports: [{port: 80}]}}"

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
		for _, err := range []error{
			first.Apply(t.Context(), "default", foo),
			first.Delete(t.Context(), "default", "{apiVersion: v1, kind: Service, metadata: {name: kubernetes}}"),
			first.Apply(t.Context(), "", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: cluster-admin, labels: {edited: \"yes\"}}}"),
		} {
			if err != nil {
				t.Fatal(err)
			}
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
		if err := second.Apply(t.Context(), "default", foo); err != nil {
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
