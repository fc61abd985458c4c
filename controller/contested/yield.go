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

// HoldsIPs is true for addresses of an import that are not to be written; the next six do the same for other fields.
func (c Fields) HoldsIPs(ips []string) bool { return c.holds(FieldIPs, ips) }

// HoldsIPFamilies is of the families of an import.
func (c Fields) HoldsIPFamilies(families []corev1.IPFamily) bool {
	return c.holds(FieldIPFamilies, families)
}

// HoldsShape is true where the rest of an import's spec is to stay as it is.
func (c Fields) HoldsShape(old, edited *mcsv1beta1.ServiceImport) bool {
	return c.holds(FieldImport, shapeOf(edited)) && text(shapeOf(old)) != text(shapeOf(edited))
}

// HoldsReady is of the condition Ready.
func (c Fields) HoldsReady(ready metav1.Condition) bool {
	return c.holds(FieldReady, shownBy(ready))
}

// HoldsClusters is of the part of an import's status that the clusterset gives.
func (c Fields) HoldsClusters(status *mcsv1beta1.ServiceImportStatus) bool {
	return c.holds(FieldClusters, clustersOf(status))
}

// HoldsExport is of an export's conditions.
func (c Fields) HoldsExport(export *mcsv1beta1.ServiceExport) bool {
	return c.holds(FieldExport, shownOf(export))
}

// HoldsIngress is of a derived Service's status.
func (c Fields) HoldsIngress(svc *corev1.Service) bool {
	return c.holds(FieldIngress, ingressOf(svc))
}

// holds is true for a value that is not to be written.
func (c Fields) holds(field Field, value any) bool {
	held, ok := c[field]
	return ok && held == text(value)
}

// YieldMetadata leaves those labels and annotations as they are whose new values are contested.
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

// YieldService gives up the fields of a wanted Service that are contested: they stay as they are. It returns a note on each.
func (c Fields) YieldService(have, wanted *corev1.Service) []string {
	var notes []string
	for _, field := range slices.Sorted(maps.Keys(serviceFields)) {
		get := serviceFields[field]
		if !c.holds(field, get(wanted)) || text(get(have)) == text(get(wanted)) {
			continue
		}
		if field == FieldType && have.Spec.Type == corev1.ServiceTypeExternalName { // It leads elsewhere, and has no address.
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

// Note is what a condition reports of a contested field.
func (c Fields) Note(field Field) string {
	return fmt.Sprintf("%s, which another writer or the API server keeps setting back: wanted is %s", field, brief.Clip(c[field]))
}
