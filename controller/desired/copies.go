package desired

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// kube-proxy finds a Service's endpoints by the label kubernetes.io/service-name of their slices.
// It ignores an update that removes or changes this label, and the deletion that follows: the
// endpoints stay on every node until kube-proxy restarts. Therefore the controller never removes or
// changes the label of a slice with endpoints. If a slice has to belong to another Service, or to
// none, the controller creates a new slice under another name, and deletes the old slice while it
// has its label.

// KubernetesSliceManagers create the slices of this cluster's own Services and Endpoints. A slice with
// one of these labels belongs to such a Service.
var KubernetesSliceManagers = []string{"endpointslice-controller.k8s.io", SliceMirroring}

// SliceMirroring is the Kubernetes controller that creates slices from the Endpoints of a Service
// without a selector.
const SliceMirroring = "endpointslicemirroring-controller.k8s.io"

// sliceService returns the name of the Service that an import's endpoints belong to, or "" if there
// is none.
func (b builder) sliceService() string {
	if b.Import.Spec.Type != mcsv1beta1.ClusterSetIP || ownership.ByKarmada(b.Import) {
		return ""
	}
	if ownership.Keeper(b.Import, b.Slices) != "" {
		if former := b.derivedBefore(); former != nil {
			return former.Name
		}
		return ""
	}
	switch name := ownership.DerivedName(b.Import); ownership.KindOf(b.Import, b.Service) {
	case ownership.Ours:
		return name
	// A Service under a former name serves until it is gone. If there is none, the slices already
	// get the label of the Service that will be created.
	case ownership.Absent:
		if former := b.formerService(); former != "" || len(validation.IsDNS1123Label(name)) > 0 {
			return former
		}
		return name
	case ownership.ReadOnly:
		if len(b.Service.Spec.Selector) == 0 && len(ServiceAddresses(b.Service)) > 0 {
			return name
		}
		// With a selector, the Service has pods of this cluster. Imported endpoints would change
		// the meaning of its name in cluster.local (C41).
		return ""
	default:
		return b.formerService()
	}
}

// formerService returns the name of a derived Service that still serves under a former name, or ""
// if there is none.
func (b builder) formerService() string {
	for _, svc := range otherServices(b.State) {
		if b.serves(svc) {
			return svc.Name
		}
	}
	return ""
}

// Associate gives new slices of an import the label of the Service. It also gives each a name
// that never has another value of that label in this cluster: after an interruption, a watch can
// report a deletion and a creation under one name as a change of the label.
func (s Slices) Associate(imp types.NamespacedName, all ...*discoveryv1.EndpointSlice) {
	renamed := s.Service != ownership.DefaultDerivedName(imp.Namespace, imp.Name)
	for _, slice := range all {
		if renamed {
			slice.Name = s.NameOf(slice.Name)
		}
		if s.Service != "" {
			slice.Labels[discoveryv1.LabelServiceName] = s.Service
		}
	}
}

func (b builder) name() types.NamespacedName {
	return types.NamespacedName{Namespace: b.Import.Namespace, Name: b.Import.Name}
}

// homeID returns this cluster's ID, or "" if it is in no clusterset.
func (b builder) homeID() string {
	if b.Clusterset == nil {
		return ""
	}
	return b.Clusterset.Home
}

// copiesOfOthers returns the slices for an import that the controller does not own: one copy of
// each of its slices that does not belong to the derived Service yet (R8). The controller does not
// label the original slices, because it could never remove the label again. These copies are for
// kube-proxy only. They have no source cluster, so peers do not read them.
func copiesOfOthers(b builder) Slices {
	if ownership.ByKarmada(b.Import) {
		return copiesOfKarmada(b)
	}
	s := Slices{Service: b.sliceService(), Home: b.homeID(), Complete: true}
	alias := aliasOfUnnamed(b.Import.Spec.Ports)
	for _, source := range b.Slices {
		if s.Service != "" && b.copied(source, s.Service) {
			s.Wanted = append(s.Wanted, s.copyOf(b, source, alias))
		}
	}
	slices.SortFunc(s.Wanted, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// copiesOfKarmada returns the slices for an import that Karmada manages. Those of a headless import
// are copies with the labels by which DNS servers find them, because Karmada's slices have only the
// label of a derived Service. The copies belong to no Service. Karmada's own slices stay unchanged.
func copiesOfKarmada(b builder) Slices {
	s := Slices{Home: b.homeID(), Complete: true}
	if b.Import.Spec.Type != mcsv1beta1.Headless {
		return s
	}
	for _, source := range b.UnexpectedSlices {
		if !ownership.KarmadasSlice(source) || source.DeletionTimestamp != nil || source.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		slice := s.copyOf(b, source, "")
		if cluster := ownership.KarmadasCluster(source.Name, b.Import.Name); mcs.ClusterIDFault(cluster) == "" {
			slice.Labels[mcsv1beta1.LabelSourceCluster] = cluster
		}
		s.Wanted = append(s.Wanted, slice)
	}
	slices.SortFunc(s.Wanted, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

func (b builder) copied(source *discoveryv1.EndpointSlice, service string) bool {
	return !ownership.SliceIsOurs(source, b.Import) && source.Labels[discoveryv1.LabelServiceName] != service &&
		source.DeletionTimestamp == nil && source.AddressType != discoveryv1.AddressTypeFQDN &&
		!slices.Contains(KubernetesSliceManagers, source.Labels[discoveryv1.LabelManagedBy])
}

// copyOf returns a copy of a slice without the source cluster.
func (s Slices) copyOf(b builder, source *discoveryv1.EndpointSlice, alias string) *discoveryv1.EndpointSlice {
	copied := source.DeepCopy()
	slice := &discoveryv1.EndpointSlice{AddressType: source.AddressType, Endpoints: copied.Endpoints}
	slice.Namespace, slice.Name = b.Import.Namespace, b.Import.Name+"."+strings.ToLower(string(source.AddressType))+"-"+hashOf(source.Name)
	slice.Labels = map[string]string{mcsv1beta1.LabelServiceName: b.Import.Name, discoveryv1.LabelManagedBy: mcs.ControllerName}
	slice.Annotations = map[string]string{mcs.AnnotationCopyOf: source.Name}
	maps.Copy(slice.Annotations, mcs.Only(source.Annotations, corev1.EndpointsLastChangeTriggerTime))
	for _, p := range copied.Ports {
		slice.Ports = append(slice.Ports, withAlias(p, alias)...)
	}
	s.Associate(b.name(), slice)
	return slice
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:ownership.HashLength]
}

// NameOf returns the name of a slice that is to belong to the Service: the slice's name with
// another hash. The hash covers this cluster's ID. The slices of a peer keep the names that the
// peer gave them, and no peer gives a name that is computed here.
func (s Slices) NameOf(slice string) string {
	sum := sha256.Sum256([]byte(s.Home + "/" + slice + "/" + s.Service))
	return slice[:len(slice)-ownership.HashLength] + hex.EncodeToString(sum[:])[:ownership.HashLength]
}
