package contested

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Field is a part of an object that this controller writes and that another writer may set back: a controller such as Karmada's, a
// mutating webhook, or an API server that does not know the field. Its text is for people, and for the label of a metric.
type Field string

// The fields that are left alone for a while when another writer keeps setting them back. Fields by which a tenant could take a Service's
// traffic, its selector, externalIPs and the type ExternalName among them, and all of EndpointSlices are never left alone.
const (
	FieldIPs            Field = "spec.ips of the ServiceImport"
	FieldIPFamilies     Field = "spec.ipFamilies of the ServiceImport"
	FieldImport         Field = "spec of the ServiceImport"
	FieldReady          Field = "condition Ready of the ServiceImport"
	FieldClusters       Field = "status.clusters and status.endpointSliceObjects of the ServiceImport"
	FieldExport         Field = "conditions of the ServiceExport"
	FieldPorts          Field = "spec.ports of the derived Service"
	FieldAffinity       Field = "spec.sessionAffinity of the derived Service"
	FieldInternalPolicy Field = "spec.internalTrafficPolicy of the derived Service"
	FieldDistribution   Field = "spec.trafficDistribution of the derived Service"
	FieldFamilies       Field = "spec.ipFamilyPolicy of the derived Service"
	FieldType           Field = "spec.type of the derived Service, and what belongs to it"
	FieldIngress        Field = "status.loadBalancer of the derived Service"
)

// Fields are those that another writer keeps setting back, each with the value that is not written for now. Any other value is.
type Fields map[Field]string

func text(value any) string {
	raw, _ := json.Marshal(value) // Values of the API: no error.
	return string(raw)
}

// add adds a field whose value changes.
func (c Fields) add(field Field, old, edited any) {
	if was, is := text(old), text(edited); was != is {
		c[field] = is
	}
}

// AddImport adds the fields that an edit of an import sets.
func (c Fields) AddImport(old, edited *mcsv1beta1.ServiceImport) {
	switch { // Absent is empty here. The families of addresses that change go with them.
	case !slices.Equal(old.Spec.IPs, edited.Spec.IPs):
		c[FieldIPs] = text(edited.Spec.IPs)
	case !slices.Equal(old.Spec.IPFamilies, edited.Spec.IPFamilies):
		c[FieldIPFamilies] = text(edited.Spec.IPFamilies)
	}
	c.add(FieldImport, shapeOf(old), shapeOf(edited))
	c.addMetadata(prefixLabel, old.Labels, edited.Labels)
	c.addMetadata(prefixAnnotation, old.Annotations, edited.Annotations)
}

// AddImportStatus is of an import's status.
func (c Fields) AddImportStatus(old, edited *mcsv1beta1.ServiceImport) {
	c.add(FieldReady, readyOf(old), readyOf(edited))
	c.add(FieldClusters, clustersOf(&old.Status), clustersOf(&edited.Status))
}

// AddExportStatus is of an export's conditions.
func (c Fields) AddExportStatus(old, edited *mcsv1beta1.ServiceExport) {
	c.add(FieldExport, shownOf(old), shownOf(edited))
}

// AddService is of a derived Service's spec.
func (c Fields) AddService(old, edited *corev1.Service) {
	for field, get := range serviceFields {
		c.add(field, get(old), get(edited))
	}
}

// AddServiceStatus is of a derived Service's status.
func (c Fields) AddServiceStatus(old, edited *corev1.Service) {
	c.add(FieldIngress, ingressOf(old), ingressOf(edited))
}

// Each label and annotation of an import is a field of its own.
const (
	prefixLabel      = "label "
	prefixAnnotation = "annotation "
	suffixMetadata   = " of the ServiceImport"
)

// Kind is the field without the name of a label or annotation: those are users' words, and too many for a metric.
func (f Field) Kind() string {
	for _, prefix := range []string{prefixLabel, prefixAnnotation} {
		if strings.HasPrefix(string(f), prefix) {
			return prefix + strings.TrimPrefix(suffixMetadata, " ")
		}
	}
	return string(f)
}

// addMetadata adds what an edit sets, or removes ("").
func (c Fields) addMetadata(prefix string, old, edited map[string]string) {
	for key, value := range edited {
		if had, ok := old[key]; !ok || had != value {
			c[Field(prefix+key+suffixMetadata)] = text(value)
		}
	}
	for key := range old {
		if _, stays := edited[key]; !stays {
			c[Field(prefix+key+suffixMetadata)] = text("")
		}
	}
}

// shapeOf is what an import's spec holds apart from its addresses.
func shapeOf(imp *mcsv1beta1.ServiceImport) mcsv1beta1.ServiceImportSpec {
	spec := imp.Spec
	spec.IPs, spec.IPFamilies = nil, nil
	return spec
}

// shown is what a condition reports: status, reason, message, and the generation that they are of.
type shown struct {
	Status, Reason, Message string
	Generation              int64
}

func shownBy(c metav1.Condition) shown {
	return shown{string(c.Status), c.Reason, c.Message, c.ObservedGeneration}
}

// readyOf is what the condition Ready reports; the zero value where there is none.
func readyOf(imp *mcsv1beta1.ServiceImport) shown {
	return shownAt(imp.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady))
}

// shownOf is what an export's conditions report.
func shownOf(export *mcsv1beta1.ServiceExport) (all [3]shown) {
	for i, kind := range [...]mcsv1beta1.ServiceExportConditionType{mcsv1beta1.ServiceExportConditionValid, mcsv1beta1.ServiceExportConditionReady, mcsv1beta1.ServiceExportConditionConflict} {
		all[i] = shownAt(export.Status.Conditions, string(kind))
	}
	return all
}

func shownAt(conditions []metav1.Condition, kind string) shown {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return shown{}
	}
	return shownBy(*c)
}

// clustersOf is the part of an import's status that the clusterset gives.
func clustersOf(status *mcsv1beta1.ServiceImportStatus) []string {
	all := []string{string(status.EndpointSliceObjects)}
	for _, cluster := range status.Clusters {
		all = append(all, cluster.Cluster)
	}
	return all
}

func ingressOf(svc *corev1.Service) []corev1.LoadBalancerIngress {
	return svc.Status.LoadBalancer.Ingress
}

// serviceFields read the contestable fields of a derived Service.
var serviceFields = map[Field]func(*corev1.Service) any{
	FieldPorts:          func(svc *corev1.Service) any { return svc.Spec.Ports },
	FieldAffinity:       func(svc *corev1.Service) any { return []any{svc.Spec.SessionAffinity, svc.Spec.SessionAffinityConfig} },
	FieldInternalPolicy: func(svc *corev1.Service) any { return svc.Spec.InternalTrafficPolicy },
	FieldDistribution:   func(svc *corev1.Service) any { return svc.Spec.TrafficDistribution },
	FieldFamilies:       func(svc *corev1.Service) any { return svc.Spec.IPFamilyPolicy },
	FieldType:           typeOf,
}

// typeOf is a Service's type, with the fields that decide which clients can use its addresses.
func typeOf(svc *corev1.Service) any {
	spec := &svc.Spec
	return []any{spec.Type, spec.LoadBalancerClass, spec.AllocateLoadBalancerNodePorts, spec.ExternalTrafficPolicy, spec.LoadBalancerSourceRanges}
}
