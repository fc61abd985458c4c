package kube

import (
	"fmt"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/mcs-api/config/crd"
	"sigs.k8s.io/yaml"
)

// CRDs is a form in which clusters have the ServiceImport and ServiceExport CRDs: the versions that the API server answers for.
type CRDs struct{ v1alpha1, v1beta1, karmada bool }

var (
	// BothVersions is what mcs-api ships: v1alpha1 and v1beta1 served, v1beta1 stored.
	BothVersions = CRDs{v1alpha1: true, v1beta1: true}
	// OnlyV1Alpha1 serves and stores v1alpha1, with every field of today.
	OnlyV1Alpha1 = CRDs{v1alpha1: true}
	// OnlyV1Beta1 serves and stores v1beta1.
	OnlyV1Beta1 = CRDs{v1beta1: true}
	// OldKarmada is v1alpha1 as Karmada ships it: one IP, no ipFamilies, internalTrafficPolicy or trafficDistribution, and neither
	// conditions nor endpointSliceObjects in the status of a ServiceImport.
	OldKarmada = CRDs{v1alpha1: true, karmada: true}
)

const (
	group   = "multicluster.x-k8s.io"
	alpha   = "v1alpha1"
	beta    = "v1beta1"
	imports = "serviceimports"
	exports = "serviceexports"
)

var resources = []string{imports, exports}

func (f CRDs) serves(version string) bool {
	return version == alpha && f.v1alpha1 || version == beta && f.v1beta1
}

func (f CRDs) stored() string {
	if f.v1beta1 {
		return beta
	}
	return alpha
}

// definitions are the two CRDs in this form, made from those of mcs-api.
func (f CRDs) definitions() ([]*v1.CustomResourceDefinition, error) {
	var all []*v1.CustomResourceDefinition
	for _, text := range [][]byte{crd.ServiceImportCRD, crd.ServiceExportCRD} {
		d := new(v1.CustomResourceDefinition)
		if err := yaml.UnmarshalStrict(text, d); err != nil {
			return nil, fmt.Errorf("read the CRDs of mcs-api: %w", err)
		}
		f.shape(d)
		all = append(all, d)
	}
	return all, nil
}

// shape leaves the served versions only: a cluster that never knew another has no other in its CRD.
func (f CRDs) shape(d *v1.CustomResourceDefinition) {
	var kept []v1.CustomResourceDefinitionVersion
	for _, v := range d.Spec.Versions {
		if f.serves(v.Name) {
			v.Storage = v.Name == f.stored()
			kept = append(kept, v)
		}
	}
	d.Spec.Versions = kept
	if f.karmada && d.Spec.Names.Plural == imports {
		trimToKarmada(kept[0].Schema.OpenAPIV3Schema)
	}
}

// trimToKarmada takes from a ServiceImport's schema what came after the copy that Karmada ships.
func trimToKarmada(schema *v1.JSONSchemaProps) {
	spec := schema.Properties["spec"].Properties
	for _, field := range []string{"ipFamilies", "internalTrafficPolicy", "trafficDistribution"} {
		delete(spec, field)
	}
	ips, one := spec["ips"], int64(1)
	ips.MaxItems = &one
	spec["ips"] = ips
	for _, field := range []string{"conditions", "endpointSliceObjects"} {
		delete(schema.Properties["status"].Properties, field)
	}
}

// AboutCRD defines the fields of a ClusterProperty (KEP-2149) that the controller reads.
const AboutCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterproperties.about.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, a test's own"}
spec:
  group: about.k8s.io
  scope: Cluster
  names: {plural: clusterproperties, kind: ClusterProperty}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, properties: {value: {type: string}}}
`
