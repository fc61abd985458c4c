package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/rules"
)

// Labels, as users write them.
const (
	labelService = "multicluster.kubernetes.io/service-name"
	labelCluster = "multicluster.kubernetes.io/source-cluster"
	labelLeadsTo = "kubernetes.io/service-name"
	labelManager = "endpointslice.kubernetes.io/managed-by"
	labelProxy   = "service.kubernetes.io/service-proxy-name"
	labelKeeper  = "app.kubernetes.io/managed-by"
	controller   = "multicluster-controller"
)

func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func service(name string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	return svc
}

func headless(name string) *corev1.Service {
	svc := service(name)
	svc.Spec.ClusterIP = corev1.ClusterIPNone
	return svc
}

func exportOf(name string) *mcsv1beta1.ServiceExport {
	return &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func importOf(name string, kind mcsv1beta1.ServiceImportType, ips ...string) *mcsv1beta1.ServiceImport {
	return &mcsv1beta1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       mcsv1beta1.ServiceImportSpec{Type: kind, IPs: ips, Ports: []mcsv1beta1.ServicePort{{Name: "http", Port: 80}}},
	}
}

// slice has endpoints of the hostnames pod-0 and on.
func slice(name string, labels map[string]string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for i, address := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Hostname: new(fmt.Sprintf("pod-%d", i)), Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	return s
}

// export makes a Service with the slice that the cluster's own controller would make, and its ServiceExport.
func (s *stage) export(in *rules.Cluster, svc *corev1.Service, addresses ...string) {
	s.Helper()
	s.create(in.Admin, svc)
	if len(addresses) > 0 {
		s.create(in.Admin, slice(svc.Name+"-own", map[string]string{labelLeadsTo: svc.Name}, addresses...))
	}
	s.create(in.Admin, exportOf(svc.Name))
}

func (s *stage) imp(in *rules.Cluster, name string) (*mcsv1beta1.ServiceImport, error) {
	imp := new(mcsv1beta1.ServiceImport)
	return imp, in.Admin.Get(s.Context(), s.key(name), imp)
}

// endpoints are the addresses of the slices that have a label, sorted.
func (s *stage) endpoints(in *rules.Cluster, label, value string) ([]string, error) {
	var all discoveryv1.EndpointSliceList
	if err := in.Admin.List(s.Context(), &all, client.InNamespace(s.namespace), client.MatchingLabels{label: value}); err != nil {
		return nil, err
	}
	var addresses []string
	for _, slice := range all.Items {
		for _, e := range slice.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
	}
	slices.Sort(addresses)
	return addresses, nil
}

// hasEndpoints wants those that a cluster's controller gave to an import.
func (s *stage) hasEndpoints(in *rules.Cluster, name string, want ...string) error {
	return s.leads(in, labelService, name, want...)
}

// leads wants the endpoints of the slices that have a label.
func (s *stage) leads(in *rules.Cluster, label, value string, want ...string) error {
	got, err := s.endpoints(in, label, value)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("%s=%s in %s has endpoints %v; want %v", label, value, in.ID, got, want)
	}
	return err
}

// edit reads, changes and writes an object, again after a conflict.
func edit[T client.Object](s *stage, by client.Client, name string, object T, change func(T)) {
	s.Helper()
	s.until("edit "+name, func() error {
		if err := by.Get(s.Context(), s.key(name), object); err != nil {
			return err
		}
		change(object)
		return by.Update(s.Context(), object)
	})
}

const (
	typeA   = dns.TypeA
	typeNS  = dns.TypeNS
	typeSRV = dns.TypeSRV
)

type namespacedName = client.ObjectKey

// clientOf returns the client of an actor.
type clientOf = client.Client

// orElse is the error, or one of these words.
func orElse(err error, words string) error {
	if err != nil {
		return err
	}
	return errors.New(words)
}

// contextOf outlives a test's end, for what tidies up after it.
func contextOf(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }
