// Package others applies objects as Submariner, Kosmos and GKE make them, beside this project's programs. The programs of these systems do not
// run here: their objects are written after the systems' public sources.
package others

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/interop/beside"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// submariner is what its agent makes of an exported Service foo and a headless one db of the cluster c2. In its own namespace is what it makes of a
// Service of this cluster.
const submariner = `
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: foo}
spec: {type: ClusterSetIP, ports: [{name: http, port: 80, protocol: TCP}], ips: []}
---` + sliceOfFoo + `---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: db}
spec: {type: Headless, ports: [{name: sql, port: 5432, protocol: TCP}], ips: []}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: db-abcde-NAMESPACE-c2
  labels:
    endpointslice.kubernetes.io/managed-by: lighthouse-agent.submariner.io
    lighthouse.submariner.io/sourceNamespace: NAMESPACE
    lighthouse.submariner.io/is-headless: "true"
    multicluster.kubernetes.io/service-name: db
    multicluster.kubernetes.io/source-cluster: c2
addressType: IPv4
ports: [{name: sql, port: 5432, protocol: TCP}]
endpoints: [{addresses: [10.20.1.1], hostname: db-0, conditions: {ready: true}}]
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata:
  name: web-NAMESPACE-c1
  labels:
    lighthouse.submariner.io/sourceNamespace: NAMESPACE
    multicluster.kubernetes.io/service-name: web
    multicluster.kubernetes.io/source-cluster: c1
spec: {type: ClusterSetIP, ports: [{name: http, port: 80, protocol: TCP}], ips: [10.10.0.7]}
`

// sliceOfFoo is the one endpoint of foo: the ClusterIP of the Service in c2.
const sliceOfFoo = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: foo-NAMESPACE-c2
  labels:
    endpointslice.kubernetes.io/managed-by: lighthouse-agent.submariner.io
    lighthouse.submariner.io/sourceNamespace: NAMESPACE
    lighthouse.submariner.io/is-headless: "false"
    multicluster.kubernetes.io/service-name: foo
    multicluster.kubernetes.io/source-cluster: c2
addressType: IPv4
ports: [{name: http, port: 80, protocol: TCP}]
endpoints: [{addresses: [10.20.0.7], conditions: {ready: true}}]
`

// kosmos is a user's import, as Kosmos marks it, and the Service and slice that it makes.
const kosmos = `
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: kos, annotations: {kosmos.io/address: 10.20.1.9}}
spec: {type: ClusterSetIP, ports: [{name: http, port: 80, protocol: TCP}], ips: []}
---
apiVersion: v1
kind: Service
metadata: {name: kos, annotations: {kosmos.io/service-import: ture}}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kos-x7k2p, annotations: {kosmos.io/service-import: ture}, labels: {kubernetes.io/service-name: kos}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.20.1.9], conditions: {ready: true}}]
`

// gkeCRD is the kind of GKE's imports, and gke one of them with its Service.
const (
	gkeCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: serviceimports.net.gke.io}
spec:
  group: net.gke.io
  names: {kind: ServiceImport, listKind: ServiceImportList, plural: serviceimports, singular: serviceimport}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`
	gke = `
apiVersion: net.gke.io/v1
kind: ServiceImport
metadata: {name: store, annotations: {net.gke.io/derived-service: gke-mcs-1a8qqpah56}}
spec: {type: ClusterSetIP, ports: [{port: 80, protocol: TCP}], ips: [10.0.0.77]}
---
apiVersion: v1
kind: Service
metadata: {name: gke-mcs-1a8qqpah56}
spec: {ports: [{port: 80}]}
`
	// ofUser is an import without a keeper, which the controller serves.
	ofUser = `
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: mine}
spec: {type: ClusterSetIP, ports: [{name: http, port: 80, protocol: TCP}]}
`
)

// kinds are those of which no object of these systems may change.
var kinds = []schema.GroupVersionKind{
	{Group: mcsv1beta1.GroupName, Version: "v1beta1", Kind: mcsv1beta1.ServiceImportKindName},
	{Group: "net.gke.io", Version: "v1", Kind: "ServiceImport"},
	corev1.SchemeGroupVersion.WithKind("Service"),
	discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
}

// TestOthers: nothing of these systems is written, nothing is added to it, and no name gets a wrong answer.
func TestOthers(t *testing.T) {
	kube.NotShort(t)
	t.Parallel()
	c := kube.New(t, kube.Options{})
	if err := c.InstallCRDs(t.Context(), kube.BothVersions); err != nil {
		t.Fatal(err)
	}
	namespace := kube.Namespace(t, c)
	apply := func(text string) {
		t.Helper()
		if err := c.Apply(t.Context(), namespace, strings.ReplaceAll(text, "NAMESPACE", namespace)); err != nil {
			t.Fatal(err)
		}
	}
	apply(gkeCRD)
	kube.Eventually(t, "GKE's kind is served", func() error { return c.Apply(t.Context(), namespace, gke) })
	apply(submariner)
	apply(kosmos)
	i := beside.NewImporter(t, c, namespace, "v1beta1")
	api := i.API
	before := objects(t, api, namespace)

	beside.StartController(t, c)
	apply(ofUser)
	hasIPs := func(what string, want bool) {
		t.Helper()
		kube.Eventually(t, what, func() error {
			imp := new(mcsv1beta1.ServiceImport)
			err := api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "mine"}, imp)
			if err == nil && len(imp.Spec.IPs) > 0 != want {
				err = fmt.Errorf("ips %v", imp.Spec.IPs)
			}
			return err
		})
	}
	hasIPs("the user's import is served", true)
	i.Answers(t,
		beside.Question{Name: "foo", Type: dns.TypeA, Want: "NOERROR"},
		beside.Question{Name: "db", Type: dns.TypeA, Want: "NOERROR 10.20.1.1"},
		beside.Question{Name: "db-0.c2.db", Type: dns.TypeA, Want: "NOERROR 10.20.1.1"},
		beside.Question{Name: "kos", Type: dns.TypeA, Want: "NOERROR"},
		beside.Question{Name: "store", Type: dns.TypeA, Want: "NXDOMAIN"},
		beside.Question{Name: "gke-mcs-1a8qqpah56", Type: dns.TypeA, Want: "NXDOMAIN"})
	// The user's import turns out to be Submariner's.
	apply(strings.ReplaceAll(sliceOfFoo, "foo", "mine"))
	hasIPs("the import is left to Submariner", false)
	kube.Eventually(t, "no Service is derived from it", func() error {
		err := api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "derived-mine"}, new(corev1.Service))
		if err == nil {
			return errors.New("there is one")
		}
		return client.IgnoreNotFound(err)
	})
	after := objects(t, api, namespace)
	for name, version := range after {
		switch was, there := before[name]; {
		case there && was != version:
			t.Errorf("%s was written", name)
		case !there && !strings.Contains(name, "mine"):
			t.Errorf("%s was created", name)
		}
	}
	for name := range before {
		if _, there := after[name]; !there {
			t.Errorf("%s was deleted", name)
		}
	}
}

// objects are the versions of all objects of a namespace, by kind and name.
func objects(t *testing.T, api client.Client, namespace string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := api.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			all[kind.GroupKind().String()+" "+object.GetName()] = object.GetResourceVersion()
		}
	}
	if len(all) < 10 || all["ServiceImport.net.gke.io store"] == "" {
		t.Fatalf("there are only %v", all)
	}
	return all
}
