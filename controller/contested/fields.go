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

// Field is a part of an object that this controller writes and that another writer can set back: a
// controller such as Karmada's, a mutating webhook, or an API server that does not know the field.
// The text appears in messages, and its Kind in the label of a metric.
type Field string

// These fields are left alone for a while if another writer keeps setting them back. Fields that a
// tenant could use to take over a Service's traffic are never left alone: among them the Service's
// selector, externalIPs and the type ExternalName, and all fields of EndpointSlices.
const (
	FieldIPs            Field = "spec.ips of the ServiceImport"
	FieldIPFamilies     Field = "spec.ipFamilies of the ServiceImport"
	FieldImport         Field = "spec of the ServiceImport"
	FieldReady          Field = "condition Ready of the ServiceImport"
	FieldPreference     Field = "condition ClusterPreference of the ServiceImport"
	FieldKept           Field = "condition EndpointsKept of the ServiceImport"
	FieldProbed         Field = "condition EndpointsProbed of the ServiceImport"
	FieldNativeName     Field = "condition NativeName of the ServiceImport"
	FieldClusters       Field = "status.clusters and status.endpointSliceObjects of the ServiceImport"
	FieldExport         Field = "conditions of the ServiceExport"
	FieldPorts          Field = "spec.ports of the derived Service"
	FieldAffinity       Field = "spec.sessionAffinity of the derived Service"
	FieldInternalPolicy Field = "spec.internalTrafficPolicy of the derived Service"
	FieldDistribution   Field = "spec.trafficDistribution of the derived Service"
	FieldFamilies       Field = "spec.ipFamilyPolicy of the derived Service"
	FieldType           Field = "spec.type and related fields of the derived Service"
	FieldIngress        Field = "status.loadBalancer of the derived Service"
)

// Fields are the fields that another writer keeps setting back. Each maps to the value that is not
// written at present. Any other value of the field is written.
type Fields map[Field]string

func text(value any) string {
	raw, _ := json.Marshal(value) // Values of the API always marshal.
	return string(raw)
}

// add adds a field if its value changes.
func (c Fields) add(field Field, old, edited any) {
	if was, is := text(old), text(edited); was != is {
		c[field] = is
	}
}

// AddImport adds the fields that an edit of an import changes.
func (c Fields) AddImport(old, edited *mcsv1beta1.ServiceImport) {
	// Here, nil equals empty. If the addresses change, the families belong to that change.
	switch {
	case !slices.Equal(old.Spec.IPs, edited.Spec.IPs):
		c[FieldIPs] = text(edited.Spec.IPs)
	case !slices.Equal(old.Spec.IPFamilies, edited.Spec.IPFamilies):
		c[FieldIPFamilies] = text(edited.Spec.IPFamilies)
	}
	c.add(FieldImport, shapeOf(old), shapeOf(edited))
	c.addMetadata(prefixLabel, old.Labels, edited.Labels)
	c.addMetadata(prefixAnnotation, old.Annotations, edited.Annotations)
}

// AddImportStatus adds the fields that an edit of an import's status changes.
func (c Fields) AddImportStatus(old, edited *mcsv1beta1.ServiceImport) {
	c.add(FieldReady, readyOf(old), readyOf(edited))
	for kind, field := range ownConditions {
		c.add(field, shownAt(old.Status.Conditions, kind), shownAt(edited.Status.Conditions, kind))
	}
	c.add(FieldClusters, clustersOf(&old.Status), clustersOf(&edited.Status))
}

// AddExportStatus adds the conditions of an export if an edit changes them.
func (c Fields) AddExportStatus(old, edited *mcsv1beta1.ServiceExport) {
	c.add(FieldExport, shownOf(old), shownOf(edited))
}

// AddService adds the fields that an edit of a derived Service's spec changes.
func (c Fields) AddService(old, edited *corev1.Service) {
	for field, get := range serviceFields {
		c.add(field, get(old), get(edited))
	}
}

// AddServiceStatus adds the ingress addresses of a derived Service if an edit changes them.
func (c Fields) AddServiceStatus(old, edited *corev1.Service) {
	c.add(FieldIngress, ingressOf(old), ingressOf(edited))
}

// Each label and each annotation of an import is a separate field.
const (
	prefixLabel      = "label "
	prefixAnnotation = "annotation "
	suffixMetadata   = " of the ServiceImport"
)

// kinds are all fields, with one for all labels and one for all annotations.
var kinds = []Field{
	FieldIPs, FieldIPFamilies, FieldImport, FieldReady, FieldPreference, FieldKept, FieldProbed, FieldNativeName, FieldClusters, FieldExport,
	FieldPorts, FieldAffinity, FieldInternalPolicy, FieldDistribution, FieldFamilies, FieldType, FieldIngress,
	prefixLabel + suffixMetadata, prefixAnnotation + suffixMetadata,
}

// Kinds returns all that Kind can return.
func Kinds() (all []string) {
	for _, field := range kinds {
		all = append(all, field.Kind())
	}
	return all
}

// Kind returns the field without the key of a label or annotation. Users choose these keys, and
// there are too many of them for a metric.
func (f Field) Kind() string {
	for _, prefix := range []string{prefixLabel, prefixAnnotation} {
		if strings.HasPrefix(string(f), prefix) {
			return prefix + strings.TrimPrefix(suffixMetadata, " ")
		}
	}
	return string(f)
}

// addMetadata adds the keys that an edit sets, or removes (value "").
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

// shapeOf returns an import's spec without its addresses and families.
func shapeOf(imp *mcsv1beta1.ServiceImport) mcsv1beta1.ServiceImportSpec {
	spec := imp.Spec
	spec.IPs, spec.IPFamilies = nil, nil
	return spec
}

// shown is the content of a condition: status, reason, message, and the observed generation.
type shown struct {
	Status, Reason, Message string
	Generation              int64
}

func shownBy(c metav1.Condition) shown {
	return shown{string(c.Status), c.Reason, c.Message, c.ObservedGeneration}
}

// readyOf returns the content of the condition Ready, or the zero value if there is none.
func readyOf(imp *mcsv1beta1.ServiceImport) shown {
	return shownAt(imp.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady))
}

// These are conditions of an import whose clusters have an order, or whose own name leads to other
// clusters, or whose endpoints stay although their clusters are silent, or are connected to all the
// time. They are also on an export whose annotations are malformed.
const (
	ConditionPreference = "ClusterPreference"
	ConditionNativeName = "NativeName"
	ConditionKept       = "EndpointsKept"
	ConditionProbed     = "EndpointsProbed"
)

var ownConditions = map[string]Field{ConditionPreference: FieldPreference, ConditionNativeName: FieldNativeName, ConditionKept: FieldKept, ConditionProbed: FieldProbed}

// shownOf returns the content of an export's conditions.
func shownOf(export *mcsv1beta1.ServiceExport) (all [6]shown) {
	for i, kind := range [...]mcsv1beta1.ServiceExportConditionType{
		mcsv1beta1.ServiceExportConditionValid, mcsv1beta1.ServiceExportConditionReady, mcsv1beta1.ServiceExportConditionConflict, ConditionPreference, ConditionNativeName, ConditionProbed,
	} {
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

// clustersOf returns the part of an import's status that comes from the clusterset.
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

// serviceFields maps each contestable field of a derived Service to a function that reads it.
var serviceFields = map[Field]func(*corev1.Service) any{
	FieldPorts:          func(svc *corev1.Service) any { return svc.Spec.Ports },
	FieldAffinity:       func(svc *corev1.Service) any { return []any{svc.Spec.SessionAffinity, svc.Spec.SessionAffinityConfig} },
	FieldInternalPolicy: func(svc *corev1.Service) any { return svc.Spec.InternalTrafficPolicy },
	FieldDistribution:   func(svc *corev1.Service) any { return svc.Spec.TrafficDistribution },
	FieldFamilies:       func(svc *corev1.Service) any { return svc.Spec.IPFamilyPolicy },
	FieldType:           typeOf,
}

// typeOf returns a Service's type and the fields that decide which clients can use its addresses.
func typeOf(svc *corev1.Service) any {
	spec := &svc.Spec
	return []any{spec.Type, spec.LoadBalancerClass, spec.AllocateLoadBalancerNodePorts, spec.ExternalTrafficPolicy, spec.LoadBalancerSourceRanges}
}
