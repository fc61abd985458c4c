package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Apply makes the objects of a YAML text, separated by ---, what the text says, as `kubectl apply --server-side` does. Objects
// without a namespace go into the one given. The first error ends it, and names its object.
func (c *Cluster) Apply(ctx context.Context, namespace, text string) error {
	return c.each(namespace, text, func(api client.Client, object *unstructured.Unstructured) error {
		return api.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kube"), client.ForceOwnership)
	})
}

// Delete removes the objects that a YAML text names, as `kubectl delete --ignore-not-found` does.
func (c *Cluster) Delete(ctx context.Context, namespace, text string) error {
	return c.each(namespace, text, func(api client.Client, object *unstructured.Unstructured) error {
		return client.IgnoreNotFound(api.Delete(ctx, object))
	})
}

func (c *Cluster) each(namespace, text string, do func(client.Client, *unstructured.Unstructured) error) error {
	api, err := client.New(c.Config, client.Options{}) // a new one each time: CRDs come and go in tests
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(object); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read an object: %w", err)
		case len(object.Object) == 0:
			continue
		}
		if object.GetNamespace() == "" && namespace != "" {
			object.SetNamespace(namespace)
		}
		if err := do(api, object); err != nil {
			return fmt.Errorf("%s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
	}
}
