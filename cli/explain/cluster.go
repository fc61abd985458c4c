package explain

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/explain/chain"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// read reads what a cluster has under the name. Peers and slices are read of the importing cluster only.
func read(ctx context.Context, c *clusters.Cluster, q Question, identity known, importing bool) chain.Cluster {
	n := q.Name
	of := chain.Cluster{
		Context: c.Context, ID: identity.ID, UID: identity.UID, Server: q.Server(c.Context), CA: authority(c.Config),
		Installed: identity.Installed, Heartbeat: identity.Heartbeat, Exporting: identity.Exporting, Limited: identity.Limited,
	}
	if identity.err != nil {
		of.Identity = output.Clean(identity.err.Error())
	}
	server, _ := system.ReadServer(ctx, c.Config, time.Now) // If it fails, other reads tell why.
	of.Now = time.Now().Add(server.Ahead)
	of.Version = servedVersion(c)
	of.Controller = get(c.Kube.AppsV1().Deployments(system.Namespace).Get(ctx, system.Controller, metav1.GetOptions{}))
	of.Namespace = get(c.Kube.CoreV1().Namespaces().Get(ctx, n.Namespace, metav1.GetOptions{}))
	of.Import = object[mcsv1beta1.ServiceImport](ctx, c, of.Version, "serviceimports", n)
	of.Export = object[mcsv1beta1.ServiceExport](ctx, c, of.Version, "serviceexports", n)
	of.Service = get(c.Kube.CoreV1().Services(n.Namespace).Get(ctx, n.Service, metav1.GetOptions{}))
	of.Endpoints = slicesOf(ctx, c, n.Namespace, discoveryv1.LabelServiceName+"="+n.Service)
	of.Networks = networks(ctx, c)
	if svc := of.Service.Value; svc != nil && len(svc.Spec.Selector) > 0 {
		pods, err := podsOf(ctx, c, n.Namespace, labels.Set(svc.Spec.Selector).String())
		if of.Pods = (chain.Read[int]{Value: len(pods)}); err != nil {
			of.Pods = failed[int](err)
		}
	}
	if !importing {
		return of
	}
	of.Slices = slicesOf(ctx, c, n.Namespace, mcsv1beta1.LabelServiceName+"="+n.Service)
	if of.Import.Value != nil {
		of.Derived = get(c.Kube.CoreV1().Services(n.Namespace).Get(ctx, chain.DerivedName(of.Import.Value), metav1.GetOptions{}))
	}
	of.Peers = peers(ctx, c)
	return of
}

// authority returns the certificate authority that a context trusts, as PEM, or "".
func authority(config *rest.Config) string {
	loaded := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(loaded); err != nil { // The requests fail, too, and tell why.
		return ""
	}
	return strings.TrimSpace(string(loaded.CAData))
}

// versions are those that can be served, the preferred one first.
var versions = []string{"v1beta1", "v1alpha1"}

func servedVersion(c *clusters.Cluster) chain.Read[string] {
	for _, version := range versions {
		_, err := c.Discovery.ServerResourcesForGroupVersion(mcsv1beta1.GroupVersion.Group + "/" + version)
		switch {
		case err == nil:
			return chain.Read[string]{Value: version}
		case !apierrors.IsNotFound(err):
			return failed[string](err)
		}
	}
	return chain.Read[string]{}
}

// object reads a ServiceImport or a ServiceExport. Both versions have the same fields.
func object[T any](ctx context.Context, c *clusters.Cluster, version chain.Read[string], resource string, n chain.Name) chain.Read[*T] {
	if !version.OK() || version.Value == "" {
		return chain.Read[*T]{Error: version.Error}
	}
	kind := schema.GroupVersionResource{Group: mcsv1beta1.GroupVersion.Group, Version: version.Value, Resource: resource}
	found, err := c.Dynamic.Resource(kind).Namespace(n.Namespace).Get(ctx, n.Service, metav1.GetOptions{})
	if err != nil {
		return get[T](nil, err)
	}
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, typed); err != nil {
		return failed[*T](fmt.Errorf("read %s %s: %w", resource, n.Import(), err))
	}
	return chain.Read[*T]{Value: typed}
}

func slicesOf(ctx context.Context, c *clusters.Cluster, namespace, selector string) chain.Read[[]discoveryv1.EndpointSlice] {
	list, err := c.Kube.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: pageSize})
	if err != nil {
		return failed[[]discoveryv1.EndpointSlice](err)
	}
	// A copy for the derived Service of another's import has the same endpoints.
	own := slices.DeleteFunc(list.Items, func(s discoveryv1.EndpointSlice) bool { return s.Annotations[mcs.AnnotationCopyOf] != "" })
	return chain.Read[[]discoveryv1.EndpointSlice]{Value: own}
}

// peers are the peers of a cluster, with what only their Secrets contain. Without the right to read
// Secrets, the Leases are still read.
func peers(ctx context.Context, c *clusters.Cluster) chain.Read[[]chain.Peer] {
	all, err := system.ReadPeers(ctx, c.Kube)
	hidden := apierrors.IsForbidden(err)
	if hidden {
		all, err = system.ReadLeases(ctx, c.Kube)
	}
	if err != nil {
		return failed[[]chain.Peer](err)
	}
	found := make([]chain.Peer, 0, len(all))
	for _, p := range all {
		found = append(found, chain.Peer{
			ID: p.ID, HasSecret: p.HasSecret, HasLease: p.HasLease, SecretsUnknown: hidden, Connected: p.Connected, Reason: p.Reason,
			Message: p.Message, DataPath: p.DataPath, Server: p.Server, CA: strings.TrimSpace(string(p.CA)), UID: p.UID, TokenExpiry: p.TokenExpiry, Annotations: p.Annotations,
		})
	}
	return chain.Read[[]chain.Peer]{Value: found}
}

// networks reads the address ranges of a cluster, from its Nodes and ServiceCIDRs. A network that no object
// contains is not known.
func networks(ctx context.Context, c *clusters.Cluster) chain.Read[chain.Networks] {
	var found chain.Networks
	nodes, err := c.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: pageSize})
	if err != nil {
		return failed[chain.Networks](err)
	}
	for i := range nodes.Items {
		found.Pods = append(found.Pods, prefixes(append(nodes.Items[i].Spec.PodCIDRs, nodes.Items[i].Spec.PodCIDR))...)
	}
	services, err := c.Kube.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{Limit: pageSize})
	switch {
	case apierrors.IsNotFound(err): // Kubernetes before 1.33
	case err != nil:
		return failed[chain.Networks](err)
	default:
		for i := range services.Items {
			found.Services = append(found.Services, prefixes(services.Items[i].Spec.CIDRs)...)
		}
	}
	return chain.Read[chain.Networks]{Value: found}
}

func prefixes(texts []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}
