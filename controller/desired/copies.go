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

// kube-proxy finds a Service's endpoints by the label kubernetes.io/service-name of their slices. It ignores an update that takes that
// label away or gives it another value, and the deletion that follows: the endpoints stay in every node until kube-proxy starts again.
// Therefore the label of a slice with endpoints is never removed or changed. A slice that has to belong to another Service, or to none,
// is made anew under another name, and the former one is deleted while it has its label.

// foreignSliceManagers make slices of this cluster's own Services and Endpoints. What they label belongs to these Services.
var foreignSliceManagers = []string{"endpointslice-controller.k8s.io", SliceMirroring}

// SliceMirroring is the controller of Kubernetes that makes slices of the Endpoints of a Service without a selector.
const SliceMirroring = "endpointslicemirroring-controller.k8s.io"

// sliceService is the name of the Service that the endpoints of an import belong to; empty for none.
func (b builder) sliceService() string {
	if b.Import.Spec.Type != mcsv1beta1.ClusterSetIP || ownership.ByKarmada(b.Import) {
		return ""
	}
	switch name := ownership.DerivedName(b.Import); ownership.KindOf(b.Import, b.Service) {
	case ownership.Ours:
		return name
	case ownership.Absent: // A former Service goes on until it is gone. Without one, the slices wait for the new one with the right label.
		if former := b.formerService(); former != "" || len(validation.IsDNS1035Label(name)) > 0 {
			return former
		}
		return name
	case ownership.ReadOnly:
		if len(b.Service.Spec.Selector) == 0 && len(ServiceAddresses(b.Service)) > 0 {
			return name
		}
		return "" // With a selector it has this cluster's own pods: imported endpoints would change what cluster.local means (C41).
	default:
		return b.formerService()
	}
}

// formerService is the name of a Service of ours that serves on under a former name; empty where there is none.
func (b builder) formerService() string {
	for _, svc := range otherServices(b.State) {
		if b.serves(svc) {
			return svc.Name
		}
	}
	return ""
}

// Associate gives a new slice of an import the label of the Service, and a name that it never has in this cluster with another value of that
// label: a watch that was interrupted can show a deletion and a creation under one name as a change of the label.
func (s Slices) Associate(imp types.NamespacedName, slice *discoveryv1.EndpointSlice) {
	if s.Service != ownership.DefaultDerivedName(imp.Namespace, imp.Name) {
		slice.Name = s.NameOf(slice.Name)
	}
	if s.Service != "" {
		slice.Labels[discoveryv1.LabelServiceName] = s.Service
	}
}

// name is the import's.
func (b builder) name() types.NamespacedName {
	return types.NamespacedName{Namespace: b.Import.Namespace, Name: b.Import.Name}
}

// homeID is this cluster's id; empty in no clusterset.
func (b builder) homeID() string {
	if b.Clusterset == nil {
		return ""
	}
	return b.Clusterset.Home
}

// copiesOfOthers are the slices of an import that others made: one of ours for each of theirs that belongs to no Service yet (R8). Their
// own are never labelled: that label could never be taken back.
func copiesOfOthers(b builder) Slices {
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

func (b builder) copied(source *discoveryv1.EndpointSlice, service string) bool {
	return !ownership.SliceIsOurs(source, b.Import) && source.Labels[discoveryv1.LabelServiceName] != service &&
		source.DeletionTimestamp == nil && source.AddressType != discoveryv1.AddressTypeFQDN &&
		!slices.Contains(foreignSliceManagers, source.Labels[discoveryv1.LabelManagedBy])
}

// copyOf is a copy of a slice for kube-proxy alone. It has no source cluster: peers do not read it.
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

// NameOf is the name that a slice gets when it comes to belong to the Service: its own with another hash. This cluster's id is a part of that.
// The slices of a peer have their names from the peer, and no peer gives a name that is made here.
func (s Slices) NameOf(slice string) string {
	sum := sha256.Sum256([]byte(s.Home + "/" + slice + "/" + s.Service))
	return slice[:len(slice)-ownership.HashLength] + hex.EncodeToString(sum[:])[:ownership.HashLength]
}
