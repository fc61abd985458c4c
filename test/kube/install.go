package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
)

// InstallCRDs brings the ServiceImport and ServiceExport CRDs into a form, also from another one in place, and waits until the API
// server answers accordingly: in its discovery, to lists, and in what it checks.
func (c *Cluster) InstallCRDs(ctx context.Context, form CRDs) error {
	definitions, err := form.definitions()
	if err != nil {
		return err
	}
	w, err := newCRDWriter(c)
	if err != nil {
		return err
	}
	for _, d := range definitions {
		if err := w.put(ctx, d); err != nil {
			return fmt.Errorf("install %s: %w", d.Name, err)
		}
	}
	return Poll(ctx, crdPoll, func(ctx context.Context) error {
		if err := w.check(ctx, form.serves); err != nil {
			return err
		}
		return w.checkIPs(ctx, form)
	})
}

// RemoveCRDs deletes both CRDs with all their objects, and waits until the API server no longer
// serves them. Objects with finalizers that no controller removes keep it from ending.
func (c *Cluster) RemoveCRDs(ctx context.Context) error {
	w, err := newCRDWriter(c)
	if err != nil {
		return err
	}
	for _, resource := range resources {
		err := w.definitions.Delete(ctx, resource+"."+group, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove %s: %w", resource, err)
		}
	}
	return Poll(ctx, crdPoll, func(ctx context.Context) error { return w.check(ctx, func(string) bool { return false }) })
}

// crdPoll is slower than other polls: each one is a handful of requests.
const crdPoll = 25 * time.Millisecond

type crdWriter struct {
	definitions apiextensions.CustomResourceDefinitionInterface
	objects     dynamic.Interface
	discovery   discovery.DiscoveryInterface
}

func newCRDWriter(c *Cluster) (*crdWriter, error) {
	definitions, err := apiextensions.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	known, err := discovery.NewDiscoveryClientForConfig(c.Config)
	return &crdWriter{definitions.CustomResourceDefinitions(), objects, known}, err
}

// put creates a definition, or updates it in place. The API server writes to the status meanwhile: hence the retries.
func (w *crdWriter) put(ctx context.Context, wanted *v1.CustomResourceDefinition) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		found, err := w.definitions.Get(ctx, wanted.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = w.definitions.Create(ctx, wanted, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		wanted.Spec.DeepCopyInto(&found.Spec)
		found.Spec.Versions = withStored(wanted.Spec.Versions, found)
		_, err = w.definitions.Update(ctx, found, metav1.UpdateOptions{})
		return err
	})
}

// withStored keeps versions that objects may be stored in, unserved: the API server refuses to forget such a version.
func withStored(wanted []v1.CustomResourceDefinitionVersion, found *v1.CustomResourceDefinition) []v1.CustomResourceDefinitionVersion {
	all := slices.Clone(wanted)
	for _, stored := range found.Status.StoredVersions {
		if slices.ContainsFunc(all, func(v v1.CustomResourceDefinitionVersion) bool { return v.Name == stored }) {
			continue
		}
		kept := wanted[0]
		kept.Name, kept.Served, kept.Storage = stored, false, false
		all = append(all, kept)
	}
	return all
}

// check compares lists and the two kinds of discovery with what is to be served: a RESTMapper made from now on is right.
func (w *crdWriter) check(ctx context.Context, serves func(version string) bool) error {
	_, aggregated, err := w.discovery.ServerGroupsAndResources()
	if err != nil {
		return err
	}
	for _, version := range []string{alpha, beta} {
		want := serves(version)
		single, _ := w.discovery.ServerResourcesForGroupVersion(group + "/" + version) // empty where there is none
		for _, resource := range resources {
			has := func(list *metav1.APIResourceList) bool {
				return list.GroupVersion == group+"/"+version && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
			}
			_, err := w.objects.Resource(versioned(version, resource)).List(ctx, metav1.ListOptions{Limit: 1})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			listed, discovered, all := err == nil, single != nil && has(single), slices.ContainsFunc(aggregated, has)
			if listed != want || discovered != want || all != want {
				return fmt.Errorf("%s of %s: listed %t, discovered %t and %t, where it should be %t", resource, version, listed, discovered, all, want)
			}
		}
	}
	return nil
}

// checkIPs asks, without writing, whether two IPs are refused: the sign that the form's schema has replaced the one before it.
func (w *crdWriter) checkIPs(ctx context.Context, form CRDs) error {
	_, err := w.objects.Resource(versioned(form.stored(), imports)).Namespace(metav1.NamespaceDefault).
		Create(ctx, twoIPs(form.stored()), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case !form.karmada:
		return err
	case apierrors.IsInvalid(err):
		return nil
	default:
		return errors.Join(errors.New("two IPs are not refused yet"), err)
	}
}

func twoIPs(version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + version,
		"kind":       "ServiceImport",
		"metadata":   map[string]any{"generateName": "kube-test-"},
		"spec":       map[string]any{"type": "ClusterSetIP", "ports": []any{}, "ips": []any{"192.0.2.1", "192.0.2.2"}},
	}}
}

func versioned(version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}
