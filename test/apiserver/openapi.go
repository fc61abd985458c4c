package apiserver

import (
	"encoding/json"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/mcs-api/config/crd"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/yaml"
)

// metadata describes which fields of metadata are sets and maps.
const metadata = `{"type": "object", "properties": {
	"labels": {"type": "object", "additionalProperties": {"type": "string"}}, "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
	"finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
	"ownerReferences": {"type": "array", "items": {"type": "object", "x-kubernetes-map-type": "atomic", "x-kubernetes-preserve-unknown-fields": true, "properties": {"uid": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"]}
}, "x-kubernetes-preserve-unknown-fields": true}`

// customSchemas are those of the kinds that have a CRD, from the CRDs of mcs-api.
var customSchemas = func() map[string]*spec.Schema {
	all := map[string]*spec.Schema{}
	for _, text := range [][]byte{crd.ServiceImportCRD, crd.ServiceExportCRD} {
		d := new(apiextensionsv1.CustomResourceDefinition)
		must(yaml.Unmarshal(text, d))
		for _, v := range d.Spec.Versions {
			if v.Name != mcsv1beta1.GroupVersion.Version {
				continue
			}
			described, head := new(spec.Schema), new(spec.Schema)
			text, err := json.Marshal(v.Schema.OpenAPIV3Schema)
			must(err)
			must(json.Unmarshal(text, described))
			must(json.Unmarshal([]byte(metadata), head))
			described.Properties["metadata"] = *head
			kind := document{"group": d.Spec.Group, "version": v.Name, "kind": d.Spec.Names.Kind}
			described.AddExtension("x-kubernetes-group-version-kind", []any{kind})
			all["io.x-k8s.multicluster."+v.Name+"."+d.Spec.Names.Kind] = described
		}
	}
	return all
}()

// customFields knows which fields of custom objects are sets and maps.
var customFields = func() managedfields.TypeConverter {
	c, err := managedfields.NewTypeConverter(customSchemas, false)
	must(err)
	return c
}()

// must is for what is compiled in.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// document is one in JSON, of no kind.
type document = map[string]any

func openAPIPaths(versions []schema.GroupVersion) any {
	paths := document{}
	for _, gv := range versions {
		path := groupPath(gv)
		paths[strings.TrimPrefix(path, "/")] = document{"serverRelativeURL": "/openapi/v3" + path}
	}
	return document{"paths": paths}
}

// openAPI describes a version. A controller reads only the description of what has a CRD.
func openAPI(gv schema.GroupVersion) any {
	described := document{}
	if gv.Group == mcsv1beta1.GroupName {
		described["schemas"] = customSchemas
	}
	return document{"openapi": "3.0.0", "components": described}
}
