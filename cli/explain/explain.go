// Package explain reads the facts of a name from clusters, for package chain. It only reads. Each read can
// fail on its own: the link is then unknown, with the missing right, and the others are still known.
package explain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/explain/chain"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
)

const (
	// parallel bounds the clusters that are read at the same time, and maxContexts those that are read at all.
	parallel    = 16
	maxContexts = 128
	// othersTimeout bounds what is read of another cluster: a kubeconfig can have contexts of clusters that
	// are gone.
	othersTimeout = 6 * time.Second
	// pageSize bounds a list. The objects of one name are fewer.
	pageSize = 500
)

// Question is what somebody asks.
type Question struct {
	Name chain.Name
	// Here is the cluster in which the name is asked for.
	Here *clusters.Cluster
	// Others are the other clusters that can export it.
	Others []*clusters.Cluster
	// PodNamespace and Pod name the pod that asks. Without Pod, it is one with the defaults of the namespace.
	PodNamespace, Pod string
	// Unusable are contexts of the kubeconfig without clients, with the reason.
	Unusable map[string]string
	// Server returns the address of the API server of a context.
	Server func(context string) string
}

// Gather reads the facts. An error means that the pod or the importing cluster cannot be read at all.
func Gather(ctx context.Context, q Question) (*chain.Facts, error) {
	f := &chain.Facts{Name: q.Name, PodNamespace: q.PodNamespace, Unread: map[string]string{}}
	maps.Copy(f.Unread, q.Unusable)
	identity, err := system.ReadIdentity(ctx, q.Here.Kube)
	if err != nil && !apierrors.IsForbidden(err) { // Tenants cannot read the namespaces of the system.
		return nil, fmt.Errorf("read the cluster of context %s: %w", q.Here.Context, err)
	}
	if q.Pod != "" {
		var err error
		if f.Pod, err = q.Here.Kube.CoreV1().Pods(q.PodNamespace).Get(ctx, q.Pod, metav1.GetOptions{}); err != nil {
			return nil, fmt.Errorf("read pod %s/%s of context %s: %w", q.PodNamespace, q.Pod, q.Here.Context, err)
		}
	}
	group := new(errgroup.Group)
	group.Go(func() error { f.Here = read(ctx, q.Here, q, known{identity, err}, true); return nil })
	group.Go(func() error { f.DNS = readDNS(ctx, q.Here, q.Name); return nil })
	group.Go(func() error { f.Injected = injected(ctx, q.Here, q.PodNamespace); return nil })
	group.Go(func() error { f.Others = readOthers(ctx, q, identity, f.Unread); return nil })
	_ = group.Wait() // What failed is in the facts.
	return f, ctx.Err()
}

// readOthers reads the other clusters of the kubeconfig that can have to do with the name, each once.
func readOthers(ctx context.Context, q Question, here system.Identity, unread map[string]string) []chain.Cluster {
	var mu sync.Mutex
	found := map[string]chain.Cluster{}
	group := new(errgroup.Group)
	group.SetLimit(parallel)
	seen := map[string]bool{here.UID: here.UID != ""}
	some := min(len(q.Others), maxContexts)
	for _, c := range q.Others[some:] {
		unread[c.Context] = fmt.Sprintf("at most %d contexts are read", maxContexts)
	}
	for _, c := range q.Others[:some] {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, othersTimeout)
			defer cancel()
			identity, err := system.ReadIdentity(ctx, c.Kube)
			mu.Lock()
			switch {
			case err != nil && !apierrors.IsForbidden(err):
				unread[c.Context] = output.Clean(err.Error())
			case seen[identity.UID]: // Two contexts can be of one cluster.
			default:
				seen[identity.UID] = identity.UID != ""
				mu.Unlock()
				of := read(ctx, c, q, known{identity, err}, false)
				mu.Lock()
				found[c.Context] = of
			}
			mu.Unlock()
			return nil
		})
	}
	_ = group.Wait()
	sorted := make([]chain.Cluster, 0, len(found))
	for _, context := range slices.Sorted(maps.Keys(found)) {
		sorted = append(sorted, found[context])
	}
	return sorted
}

// known is what is known of the identity of a cluster, and why not all.
type known struct {
	system.Identity
	err error
}

// get turns the result of a Get into a fact: an object that does not exist is nil.
func get[T any](object *T, err error) chain.Read[*T] {
	switch {
	case err == nil:
		return chain.Read[*T]{Value: object}
	case apierrors.IsNotFound(err):
		return chain.Read[*T]{}
	}
	return chain.Read[*T]{Error: output.Clean(err.Error())}
}

func failed[T any](err error) chain.Read[T] { return chain.Read[T]{Error: output.Clean(err.Error())} }

// injected are the suffixes that the policy of deploy/search adds to new pods of a namespace.
func injected(ctx context.Context, c *clusters.Cluster, namespace string) []string {
	const policy, label = "multicluster-search", "clusterset-dns.io/search"
	if _, err := c.Kube.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Get(ctx, policy, metav1.GetOptions{}); err != nil {
		return nil // It is not installed, not served, or not readable: then no suffix is promised.
	}
	of, err := c.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	switch of.Labels[label] {
	case "service":
		return []string{chain.ClustersetZone}
	case "all":
		return []string{namespace + ".svc." + chain.ClustersetZone, "svc." + chain.ClustersetZone, chain.ClustersetZone}
	}
	return nil
}

// podsOf lists pods of a namespace by their labels.
func podsOf(ctx context.Context, c *clusters.Cluster, namespace, selector string) ([]corev1.Pod, error) {
	list, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: pageSize})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
