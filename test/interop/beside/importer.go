package beside

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world"
)

// Importer is a namespace of a cluster that the other implementation imports into, and where our programs run.
type Importer struct {
	Servers
	*kube.Cluster
	Namespace string
	API       client.Client
}

// NewImporter starts both DNS servers in a cluster that serves a version of the API.
func NewImporter(t *testing.T, c *kube.Cluster, namespace, version string) *Importer {
	t.Helper()
	api, err := client.New(c.Config, client.Options{Scheme: world.SchemeOf(version)})
	if err != nil {
		t.Fatal(err)
	}
	return &Importer{StartServers(t, c), c, namespace, api}
}

// Write makes the objects of a text, in which each first word stands for the second.
func (i *Importer) Write(t *testing.T, text string, words ...string) {
	t.Helper()
	if err := i.Apply(t.Context(), i.Namespace, strings.NewReplacer(words...).Replace(text)); err != nil {
		t.Fatal(err)
	}
}

// Answers waits until both servers answer as wanted.
func (i *Importer) Answers(t *testing.T, questions ...Question) {
	t.Helper()
	i.Answer(t, i.Namespace, questions...)
}

// Served waits for an import that names the only Service that is derived from it, and for more.
func (i *Importer) Served(t *testing.T, name string, more func(*mcsv1beta1.ServiceImport, *corev1.Service) error) *mcsv1beta1.ServiceImport {
	t.Helper()
	imp := new(mcsv1beta1.ServiceImport)
	kube.Eventually(t, "the import "+name, func() error {
		if err := i.API.Get(t.Context(), client.ObjectKey{Namespace: i.Namespace, Name: name}, imp); err != nil {
			return err
		}
		svc, err := i.Derived(t, name)
		if err != nil {
			return err
		}
		if svc.Name != imp.Annotations[mcs.AnnotationDerivedService] {
			return fmt.Errorf("annotations %v; there is the Service %s", imp.Annotations, svc.Name)
		}
		return more(imp, svc)
	})
	return imp
}

// Derived returns the only Service that an import owns. With none or several, it returns an error.
func (i *Importer) Derived(t *testing.T, imp string) (*corev1.Service, error) {
	var all corev1.ServiceList
	if err := i.API.List(t.Context(), &all, client.InNamespace(i.Namespace)); err != nil {
		return nil, err
	}
	all.Items = slices.DeleteFunc(all.Items, func(svc corev1.Service) bool {
		return !slices.ContainsFunc(svc.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.Name == imp })
	})
	if len(all.Items) != 1 {
		return nil, fmt.Errorf("%d derived Services", len(all.Items))
	}
	return &all.Items[0], nil
}
