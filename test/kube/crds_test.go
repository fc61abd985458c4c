package kube

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// TestCRDsAreServedAsRequested goes from each form to another, in place and after a removal.
func TestCRDsAreServedAsRequested(t *testing.T) {
	c := New(t, Options{})
	for step, form := range []CRDs{OldKarmada, BothVersions, OnlyV1Alpha1, OnlyV1Beta1, OldKarmada, OnlyV1Beta1, BothVersions} {
		t.Run(fmt.Sprintf("step %d, form %d", step, form), func(t *testing.T) {
			if err := c.InstallCRDs(t.Context(), form); err != nil {
				t.Fatal(err)
			}
			for _, version := range []string{alpha, beta} {
				_, err := importsIn(c, version, "").List(t.Context(), metav1.ListOptions{})
				if served := err == nil; served != form.serves(version) {
					t.Errorf("%s: %v", version, err)
				}
			}
		})
	}
	for range 2 { // removing what is not there is no error
		if err := c.RemoveCRDs(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := importsIn(c, beta, "").List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("list after the removal: %v; want not found", err)
	}
	if err := c.InstallCRDs(t.Context(), BothVersions); err != nil {
		t.Fatal(err)
	}
}

func TestKarmadasCRDKnowsOneIPAndNoFamilies(t *testing.T) {
	c := New(t, Options{})
	if err := c.InstallCRDs(t.Context(), OldKarmada); err != nil {
		t.Fatal(err)
	}
	client := importsIn(c, alpha, Namespace(t, c))
	if _, err := client.Create(t.Context(), twoIPs(alpha), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("two IPs: %v; want invalid", err)
	}
	object := twoIPs(alpha)
	set(t, object, []any{"192.0.2.1"}, "spec", "ips")
	set(t, object, []any{"IPv4"}, "spec", "ipFamilies")
	set(t, object, "Local", "spec", "internalTrafficPolicy")
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

func importsIn(c *Cluster, version, namespace string) dynamic.ResourceInterface {
	return dynamic.NewForConfigOrDie(c.Config).Resource(versioned(version, imports)).Namespace(namespace)
}

func set(t *testing.T, object *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}
