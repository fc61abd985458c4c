package contested

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/brief"
)

// HoldsIPs reports whether these addresses of an import must not be written at present. The next
// seven methods do the same for other fields.
func (c Fields) HoldsIPs(ips []string) bool { return c.holds(FieldIPs, ips) }

// HoldsIPFamilies reports it for the families of an import.
func (c Fields) HoldsIPFamilies(families []corev1.IPFamily) bool {
	return c.holds(FieldIPFamilies, families)
}

// HoldsShape reports whether the rest of an import's spec must stay unchanged at present.
func (c Fields) HoldsShape(old, edited *mcsv1beta1.ServiceImport) bool {
	return c.holds(FieldImport, shapeOf(edited)) && text(shapeOf(old)) != text(shapeOf(edited))
}

// HoldsReady reports it for the condition Ready of an import.
func (c Fields) HoldsReady(ready metav1.Condition) bool {
	return c.holds(FieldReady, shownBy(ready))
}

// HoldsCondition reports it for a condition of this project on an import.
func (c Fields) HoldsCondition(kind string, status *mcsv1beta1.ServiceImportStatus) bool {
	return c.holds(ownConditions[kind], shownAt(status.Conditions, kind))
}

// HoldsClusters reports it for the part of an import's status that comes from the clusterset.
func (c Fields) HoldsClusters(status *mcsv1beta1.ServiceImportStatus) bool {
	return c.holds(FieldClusters, clustersOf(status))
}

// HoldsExport reports it for the conditions of an export.
func (c Fields) HoldsExport(export *mcsv1beta1.ServiceExport) bool {
	return c.holds(FieldExport, shownOf(export))
}

// HoldsIngress reports it for a derived Service's status.
func (c Fields) HoldsIngress(svc *corev1.Service) bool {
	return c.holds(FieldIngress, ingressOf(svc))
}

// holds reports whether the value must not be written to the field at present.
func (c Fields) holds(field Field, value any) bool {
	held, ok := c[field]
	return ok && held == text(value)
}

// YieldMetadata restores the old values of the labels and annotations whose new values are
// contested.
func (c Fields) YieldMetadata(old, edited *mcsv1beta1.ServiceImport) {
	if len(c) > 0 {
		edited.Labels = c.yieldMap(prefixLabel, old.Labels, edited.Labels)
		edited.Annotations = c.yieldMap(prefixAnnotation, old.Annotations, edited.Annotations)
	}
}

func (c Fields) yieldMap(prefix string, old, edited map[string]string) map[string]string {
	left := maps.Clone(edited)
	changed := Fields{}
	changed.addMetadata(prefix, old, edited)
	for field, value := range changed {
		if held, ok := c[field]; !ok || held != value {
			continue
		}
		key := strings.TrimSuffix(strings.TrimPrefix(string(field), prefix), suffixMetadata)
		delete(left, key)
		if had, ok := old[key]; ok {
			if left == nil {
				left = map[string]string{}
			}
			left[key] = had
		}
	}
	return left
}

// YieldService restores the current values of the contested fields of a wanted Service. It returns
// a note on each.
func (c Fields) YieldService(have, wanted *corev1.Service) []string {
	var notes []string
	for _, field := range slices.Sorted(maps.Keys(serviceFields)) {
		get := serviceFields[field]
		if !c.holds(field, get(wanted)) || text(get(have)) == text(get(wanted)) {
			continue
		}
		// A Service of type ExternalName has no address and sends clients to another name, so its
		// type never stays.
		if field == FieldType && have.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		notes = append(notes, c.Note(field))
		from, to := &have.Spec, &wanted.Spec
		switch field {
		case FieldPorts:
			to.Ports = from.Ports
		case FieldAffinity:
			to.SessionAffinity, to.SessionAffinityConfig = from.SessionAffinity, from.SessionAffinityConfig
		case FieldInternalPolicy:
			to.InternalTrafficPolicy = from.InternalTrafficPolicy
		case FieldDistribution:
			to.TrafficDistribution = from.TrafficDistribution
		case FieldFamilies:
			to.IPFamilyPolicy, to.IPFamilies, to.ClusterIPs = from.IPFamilyPolicy, from.IPFamilies, from.ClusterIPs
		case FieldType:
			to.Type, to.LoadBalancerClass, to.AllocateLoadBalancerNodePorts = from.Type, from.LoadBalancerClass, from.AllocateLoadBalancerNodePorts
			to.ExternalTrafficPolicy, to.LoadBalancerSourceRanges = from.ExternalTrafficPolicy, from.LoadBalancerSourceRanges
		}
	}
	return notes
}

// Note returns the text about a contested field for a condition's message.
func (c Fields) Note(field Field) string {
	return fmt.Sprintf("%s, which another writer or the API server keeps setting back: the controller wants %s", field, brief.Clip(c[field]))
}
