package join

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// resources are the kinds of objects that links consist of.
var resources = map[string]schema.GroupVersionResource{
	"ServiceAccount":     {Version: "v1", Resource: "serviceaccounts"},
	"Secret":             {Version: "v1", Resource: "secrets"},
	"ClusterRole":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"Role":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
}

// client returns the client for the objects of a kind, in the namespace of an object if it has one.
func client(c *clusters.Cluster, o *unstructured.Unstructured) dynamic.ResourceInterface {
	all := c.Dynamic.Resource(resources[o.GetKind()])
	if o.GetNamespace() == "" {
		return all
	}
	return all.Namespace(o.GetNamespace())
}

// find returns the object of that kind and name, or nil if there is none.
func find(ctx context.Context, c *clusters.Cluster, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	found, err := client(c, o).Get(ctx, o.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", describe(o), err)
	}
	return found, nil
}

// apply writes an object, if it differs from the existing one, which can be nil. It returns the object
// of the cluster, and whether it wrote. Objects of a Helm release stay as they are: Helm and this
// program would compete for their fields.
func apply(ctx context.Context, c *clusters.Cluster, want, existing *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	if existing != nil && (ofHelm(existing) || contains(existing.Object, want.Object)) {
		return existing, false, nil
	}
	options := metav1.ApplyOptions{FieldManager: manager, Force: true}
	got, err := client(c, want).Apply(ctx, want.GetName(), want, options)
	if err != nil {
		return nil, false, fmt.Errorf("apply %s: %w", describe(want), err)
	}
	return got, true, nil
}

// applyAll applies objects, and reports whether it wrote one.
func applyAll(ctx context.Context, c *clusters.Cluster, all []*unstructured.Unstructured) (changed bool, err error) {
	for _, want := range all {
		existing, err := find(ctx, c, want)
		if err != nil {
			return changed, err
		}
		_, wrote, err := apply(ctx, c, want, existing)
		if err != nil {
			return changed, err
		}
		changed = changed || wrote
	}
	return changed, nil
}

// remove deletes an object, if it exists, and reports whether it did. An object of a Helm release stays,
// and is the error.
func remove(ctx context.Context, c *clusters.Cluster, o *unstructured.Unstructured) (bool, error) {
	existing, err := find(ctx, c, o)
	if err != nil || existing == nil {
		return false, err
	}
	if ofHelm(existing) {
		return false, belongsToHelm(describe(o), c.Context,
			"To revoke it, remove the reader from peerAccount.readers in the values of that release. To replace a token, delete its Secret, and upgrade the release.")
	}
	uid := existing.GetUID()
	err = client(c, o).Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("delete %s: %w", describe(o), err)
	}
	return true, nil
}

// removeAll deletes objects in their order: a ServiceAccount first, as that revokes its tokens.
func removeAll(ctx context.Context, c *clusters.Cluster, all []*unstructured.Unstructured) (changed bool, err error) {
	for _, o := range all {
		did, err := remove(ctx, c, o)
		changed = changed || did
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// helmID is the ID of the problem that an object of a Helm release is in the way.
const helmID = "BelongsToHelm"

func belongsToHelm(what, context, advice string) error {
	return &fault{output.Problem{
		ID:     helmID,
		What:   fmt.Sprintf("the %s in %s belongs to a Helm release, and stays", what, output.Clean(context)),
		Advice: advice,
		Link:   output.Docs + "join.md#join-with-gitops",
	}}
}

// isOfHelm reports whether an error is about an object of a Helm release.
func isOfHelm(err error) bool {
	var known *fault
	return errors.As(err, &known) && known.ID == helmID
}

func ofHelm(o *unstructured.Unstructured) bool { return o.GetLabels()[mcs.LabelManagedBy] == "Helm" }

func describe(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// contains reports whether an existing value has everything of a wanted one. Maps can have more keys.
// Lists must be equal: those of the objects here are atomic.
func contains(existing, want any) bool {
	wanted, isMap := want.(map[string]any)
	if !isMap {
		return reflect.DeepEqual(existing, want)
	}
	has, isMap := existing.(map[string]any)
	if !isMap {
		return false
	}
	for key, value := range wanted {
		found, ok := has[key]
		if !ok || !contains(found, value) {
			return false
		}
	}
	return true
}
