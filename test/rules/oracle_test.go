package rules

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/world"
)

// picture is what a cluster holds, or should hold: of each object what matters of it, as text.
type picture map[string]string

// differences are the first of them, for people.
func differences(want, got picture) string {
	const enough = 4
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		wanted, should := want[key]
		has, is := got[key]
		switch {
		case !should:
			texts = append(texts, fmt.Sprintf("%s should not be there:\n%s", key, has))
		case !is:
			texts = append(texts, fmt.Sprintf("%s is not there:\n%s", key, wanted))
		case has != wanted:
			texts = append(texts, fmt.Sprintf("%s differs (- is what it should be):\n%s", key, gocmp.Diff(wanted, has)))
		}
		if len(texts) == enough {
			break
		}
	}
	return strings.Join(texts, "\n")
}

func text(value any) string {
	out, err := yaml.Marshal(value)
	if err != nil {
		panic(err) // structs of strings and numbers
	}
	return string(out)
}

// seenCluster is what a cluster's API server has in some namespaces, and of its peers.
type seenCluster struct {
	id         string
	namespaces map[string]bool // false: on its way out
	services   map[client.ObjectKey]*corev1.Service
	exports    map[client.ObjectKey]*mcsv1beta1.ServiceExport
	imports    map[client.ObjectKey]*mcsv1beta1.ServiceImport
	slices     map[client.ObjectKey]*discoveryv1.EndpointSlice
	peers      []string
	leases     []coordinationv1.Lease
}

func leaseOf(peer string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: world.SystemNamespace, Name: peer}}
}

// see reads it, past all caches.
func see(ctx context.Context, c *world.Cluster, namespaces []string) (*seenCluster, error) {
	s := &seenCluster{id: c.ID, namespaces: map[string]bool{}}
	var (
		all      corev1.NamespaceList
		services corev1.ServiceList
		exports  mcsv1beta1.ServiceExportList
		imports  mcsv1beta1.ServiceImportList
		endpoint discoveryv1.EndpointSliceList
		secrets  corev1.SecretList
		leases   coordinationv1.LeaseList
	)
	for _, list := range []client.ObjectList{&all, &services, &exports, &imports, &endpoint} {
		if err := c.Admin.List(ctx, list); err != nil {
			return nil, err
		}
	}
	for _, list := range []client.ObjectList{&secrets, &leases} {
		if err := c.Admin.List(ctx, list, client.InNamespace(world.SystemNamespace), client.HasLabels{mcs.LabelPeer}); err != nil {
			return nil, err
		}
	}
	for _, n := range all.Items {
		if slices.Contains(namespaces, n.Name) {
			s.namespaces[n.Name] = n.DeletionTimestamp == nil
		}
	}
	s.services, s.exports = within(services.Items, namespaces), within(exports.Items, namespaces)
	s.imports, s.slices = within(imports.Items, namespaces), within(endpoint.Items, namespaces)
	for _, secret := range secrets.Items {
		s.peers = append(s.peers, secret.Name)
	}
	s.leases = leases.Items
	return s, nil
}

// within are the objects of some namespaces.
func within[T any, P interface {
	*T
	client.Object
}](items []T, namespaces []string) map[client.ObjectKey]P {
	all := map[client.ObjectKey]P{}
	for i := range items {
		if obj := P(&items[i]); slices.Contains(namespaces, obj.GetNamespace()) {
			all[client.ObjectKeyFromObject(obj)] = obj
		}
	}
	return all
}

// members are the cluster itself, and the peers that have both a Secret and a Lease.
func (s *seenCluster) members() []string {
	all := []string{s.id}
	for _, lease := range s.leases {
		if slices.Contains(s.peers, lease.Name) {
			all = append(all, lease.Name)
		}
	}
	return all
}

func (s *seenCluster) objects() []client.Object {
	var all []client.Object
	add := func(obj client.Object) { all = append(all, obj) }
	for _, obj := range s.services {
		add(obj)
	}
	for _, obj := range s.exports {
		add(obj)
	}
	for _, obj := range s.imports {
		add(obj)
	}
	for _, obj := range s.slices {
		add(obj)
	}
	return all
}

// compare says in what a cluster is not as it should be.
func compare(is *seenCluster, should picture) error {
	for namespace, stays := range is.namespaces {
		if !stays {
			return fmt.Errorf("namespace %s of %s is still on its way out", namespace, is.id)
		}
	}
	if diff := differences(should, is.picture()); diff != "" {
		return fmt.Errorf("in %s:\n%s", is.id, diff)
	}
	return nil
}

// importText is what matters of an import of ours.
type importText struct {
	Labels, Annotations map[string]string
	Spec                mcsv1beta1.ServiceImportSpec
	Clusters            []string
	Slices              mcsv1beta1.EndpointSliceObjectsStatus
	Ready               string
}

// serviceText is what matters of a derived Service.
type serviceText struct {
	Owner        string
	Type         corev1.ServiceType
	Ports        []string
	Affinity     corev1.ServiceAffinity
	Timeout      int32
	Internal     corev1.ServiceInternalTrafficPolicy
	Distribution string
	Families     []corev1.IPFamily
	Selector     map[string]string
}

// sliceText is all of a slice that was imported or is exported.
type sliceText struct {
	Owner               string
	Labels, Annotations map[string]string
	Type                discoveryv1.AddressType
	Ports               []discoveryv1.EndpointPort
	Endpoints           []discoveryv1.Endpoint
}

// picture is of what is ours: what this controller made, and its part of what is not.
func (s *seenCluster) picture() picture {
	p := picture{}
	for _, lease := range s.leases {
		p["lease of peer "+lease.Name] = lease.Labels["clusterset-dns.io/connected"]
	}
	for key, imp := range s.imports {
		if ownership.OfImport(imp) {
			p["import "+key.String()] = text(importTextOf(imp))
		}
	}
	for key, svc := range s.services {
		if svc.Labels[mcs.LabelManagedBy] == mcs.ControllerName {
			p["service "+key.String()] = text(serviceTextOf(svc))
		}
	}
	for key, slice := range s.slices {
		// A slice belongs to the controller by its label or by its owner. A slice without labels
		// belongs to no Service, and is deleted with its import.
		if slice.Labels[discoveryv1.LabelManagedBy] == mcs.ControllerName || len(slice.OwnerReferences) > 0 && len(slice.Labels) > 0 {
			p["slice "+key.String()] = text(sliceTextOf(slice))
		}
	}
	for key, export := range s.exports {
		p["export "+key.String()] = text(conditionsOf(export.Status.Conditions, export.Generation))
	}
	return p
}

func importTextOf(imp *mcsv1beta1.ServiceImport) importText {
	t := importText{Labels: imp.Labels, Annotations: imp.Annotations, Spec: imp.Spec, Slices: imp.Status.EndpointSliceObjects}
	for _, c := range imp.Status.Clusters {
		t.Clusters = append(t.Clusters, c.Cluster)
	}
	t.Ready = conditionsOf(imp.Status.Conditions, imp.Generation)["Ready"]
	return t
}

func serviceTextOf(svc *corev1.Service) serviceText {
	terms := merge.TrimService(svc)
	t := serviceText{
		Owner: ownerOf(svc), Type: svc.Spec.Type, Affinity: terms.Affinity, Timeout: terms.AffinityTimeout,
		Internal: terms.InternalPolicy, Distribution: terms.Distribution, Families: terms.Families, Selector: svc.Spec.Selector,
	}
	t.Ports = portTexts(terms.Ports)
	return t
}

func portTexts(ports []mcsv1beta1.ServicePort) []string {
	var texts []string
	for _, p := range ports {
		app := ""
		if p.AppProtocol != nil {
			app = *p.AppProtocol
		}
		texts = append(texts, fmt.Sprintf("%q %s/%d %s", p.Name, p.Protocol, p.Port, app))
	}
	return texts
}

func sliceTextOf(slice *discoveryv1.EndpointSlice) sliceText {
	t := sliceText{ownerOf(slice), slice.Labels, slice.Annotations, slice.AddressType, slice.Ports, slice.Endpoints}
	if len(t.Ports) == 0 {
		t.Ports = nil
	}
	if len(t.Endpoints) == 0 {
		t.Endpoints = nil
	}
	if len(t.Annotations) == 0 {
		t.Annotations = nil
	}
	return t
}

func ownerOf(obj client.Object) string {
	var owners []string
	for _, ref := range obj.GetOwnerReferences() {
		owners = append(owners, fmt.Sprintf("%s %s %s", ref.Kind, ref.Name, ref.UID))
	}
	return strings.Join(owners, ", ")
}

// conditionsOf returns status and reason by type. A condition of an older generation is marked.
func conditionsOf(conditions []metav1.Condition, generation int64) map[string]string {
	all := map[string]string{}
	for _, c := range conditions {
		all[c.Type] = fmt.Sprintf("%s %s", c.Status, c.Reason)
		if c.ObservedGeneration != generation {
			all[c.Type] += fmt.Sprintf(" of generation %d instead of %d", c.ObservedGeneration, generation)
		}
	}
	return all
}

// untouched wants objects of others unchanged, except for what the controller does for any import:
// ips, ipFamilies, two annotations and the condition Ready, and the label that associates a slice
// with a derived Service.
func (h *history) untouched(in int) error {
	for was, cluster := range h.theirs {
		if cluster != in {
			continue
		}
		is := was.DeepCopyObject().(client.Object)
		if err := h.set[in].Admin.Get(h.Context(), client.ObjectKeyFromObject(was), is); err != nil {
			return fmt.Errorf("what others made in %s: %w", h.set[in].ID, err)
		}
		if diff := gocmp.Diff(foreignText(was), foreignText(is)); diff != "" {
			return fmt.Errorf("%T %s of others in %s has changed:\n%s", was, was.GetName(), h.set[in].ID, diff)
		}
	}
	return nil
}

func foreignText(obj client.Object) string {
	kept := obj.DeepCopyObject().(client.Object)
	kept.SetResourceVersion("")
	kept.SetManagedFields(nil)
	kept.SetGeneration(0)
	if imp, ok := kept.(*mcsv1beta1.ServiceImport); ok {
		imp.Spec.IPs, imp.Spec.IPFamilies = nil, nil
		meta.RemoveStatusCondition(&imp.Status.Conditions, "Ready")
	}
	for _, key := range []string{mcs.AnnotationDerivedService, mcs.AnnotationClusterIPs} {
		delete(kept.GetAnnotations(), key)
	}
	if len(kept.GetAnnotations()) == 0 {
		kept.SetAnnotations(nil)
	}
	kept.GetObjectKind().SetGroupVersionKind(discoveryv1.SchemeGroupVersion.WithKind("any"))
	return text(kept)
}

func sortedKeys(all map[client.ObjectKey]bool) []client.ObjectKey {
	return slices.SortedFunc(maps.Keys(all), func(a, b client.ObjectKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}
