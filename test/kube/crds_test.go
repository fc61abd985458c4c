package kube

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

func TestKarmadasCRDKnowsOneIPAndNoFamilies(t *testing.T) {
	c := New(t, Options{})
	if err := c.InstallCRDs(t.Context(), OldKarmada); err != nil {
		t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(c.Config).Resource(versioned(alpha, imports)).Namespace(Namespace(t, c))
	if _, err := client.Create(t.Context(), twoIPs(alpha), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("two IPs: %v; want invalid", err)
	}
	object := twoIPs(alpha)
	spec := object.Object["spec"].(map[string]any)
	spec["ips"], spec["ipFamilies"], spec["internalTrafficPolicy"] = []any{"192.0.2.1"}, []any{"IPv4"}, "Local"
	made, err := client.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"ipFamilies", "internalTrafficPolicy"} {
		if kept, ok, _ := unstructured.NestedFieldNoCopy(made.Object, "spec", field); ok {
			t.Errorf("%s is kept: %v", field, kept)
		}
	}
}
