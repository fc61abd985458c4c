package export

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Unexport removes the ServiceExport of a Service. It first looks which of the other clusters import the
// name from this one. An export of auto-export stays.
func Unexport(ctx context.Context, c *clusters.Cluster, others []*clusters.Cluster, namespace, name string) (Report, error) {
	r := Report{Context: c.Context, Namespace: namespace, Name: name, Action: Unchanged}
	version, err := ServedVersion(c)
	if err != nil {
		return r, err
	}
	exports := c.Dynamic.Resource(version.WithResource("serviceexports")).Namespace(namespace)
	found, err := exports.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return r, notExported(ctx, exports, &r)
	case err != nil:
		return r, fmt.Errorf("read ServiceExport %s/%s in %s: %w", namespace, name, output.Clean(c.Context), err)
	case found.GetLabels()[mcs.LabelManagedBy] == mcs.ControllerName:
		return r, r.autoExported(ctx, c)
	}
	if err := r.findImporters(ctx, c, others); err != nil {
		return r, err
	}
	uid := found.GetUID() // Not one that somebody created in the meantime.
	err = exports.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return r, fmt.Errorf("delete ServiceExport %s/%s in %s: %w", namespace, name, output.Clean(c.Context), err)
	}
	r.Action = Deleted
	return r, nil
}

func notExported(ctx context.Context, exports dynamic.ResourceInterface, r *Report) error {
	err := fmt.Errorf("namespace %s of %s has no ServiceExport %s", r.Namespace, output.Clean(r.Context), r.Name)
	list, failed := exports.List(ctx, metav1.ListOptions{Limit: maxNames})
	if failed != nil {
		return err
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	if near := nearest(r.Name, names); len(near) > 0 {
		return fmt.Errorf("%w: did you mean %s?", err, output.List(near, 3))
	}
	return fmt.Errorf("%w: it has %s. --namespace selects another namespace", err, output.Count(len(names), "other ServiceExport"))
}

// parallel bounds how many clusters are read at once.
const parallel = 16

// findImporters asks the other clusters for imports with this cluster among the exporting ones. What
// cannot be read, for example by a tenant, is in Unread, and does not hinder the removal.
func (r *Report) findImporters(ctx context.Context, c *clusters.Cluster, others []*clusters.Cluster) error {
	own, err := system.ReadIdentity(ctx, c.Kube)
	if err != nil {
		for _, other := range others {
			r.Unread = append(r.Unread, output.Clean(other.Context))
		}
		return ctx.Err()
	}
	imports, failed := make([]bool, len(others)), make([]error, len(others))
	reading := errgroup.Group{}
	reading.SetLimit(parallel)
	for i, other := range others {
		reading.Go(func() error {
			imports[i], failed[i] = importsFrom(ctx, other, r, own)
			return nil
		})
	}
	_ = reading.Wait() // no function returns an error
	for i, other := range others {
		switch {
		case failed[i] != nil:
			r.Unread = append(r.Unread, output.Clean(other.Context))
		case imports[i]:
			r.ImportedBy = append(r.ImportedBy, output.Clean(other.Context))
		}
	}
	return ctx.Err()
}

func importsFrom(ctx context.Context, other *clusters.Cluster, r *Report, own system.Identity) (bool, error) {
	version, err := ServedVersion(other)
	if err != nil {
		return false, err
	}
	identity, err := system.ReadIdentity(ctx, other.Kube)
	if err != nil || identity.UID == own.UID {
		return false, err
	}
	object, err := other.Dynamic.Resource(version.WithResource("serviceimports")).Namespace(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	exporting, _, err := unstructured.NestedSlice(object.Object, "status", "clusters")
	return slices.ContainsFunc(exporting, func(one any) bool {
		status, ok := one.(map[string]any)
		return ok && own.ID != "" && status["cluster"] == own.ID
	}), err
}
