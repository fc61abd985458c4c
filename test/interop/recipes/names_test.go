package recipes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// exports wants the conditions of each ServiceExport of a page, in both versions of the API.
func (m *member) exports(t *testing.T, p page) {
	t.Helper()
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		for _, namespace := range p.namespaces() {
			kube.Eventually(t, fmt.Sprintf("conditions of the exports in %s of %s, %s", namespace, m.ID, version), func() error {
				list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": mcsv1beta1.GroupName + "/" + version, "kind": "ServiceExportList"}}
				if err := m.Admin.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
					return err
				}
				if len(list.Items) == 0 {
					return errors.New("there are no exports")
				}
				var failed []error
				for _, export := range list.Items {
					failed = append(failed, healthy(export))
				}
				return errors.Join(failed...)
			})
		}
	}
}

func healthy(export unstructured.Unstructured) error {
	var typed mcsv1beta1.ServiceExport // no field differs between the versions
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(export.Object, &typed); err != nil {
		return err
	}
	got := map[string]metav1.ConditionStatus{}
	for _, c := range typed.Status.Conditions {
		got[c.Type] = c.Status
	}
	if got["Valid"] != metav1.ConditionTrue || got["Ready"] != metav1.ConditionTrue || got["Conflict"] != metav1.ConditionFalse {
		return fmt.Errorf("export %s has %v", typed.Name, typed.Status.Conditions)
	}
	return nil
}

// resolves wants that DNS in this cluster gives for a name what the members' objects say.
func (m *member) resolves(t *testing.T, name string, members []*member) {
	t.Helper()
	labels := strings.Split(strings.TrimSuffix(name, ".svc.clusterset.local"), ".")
	kube.EventuallyEvery(t, 50*time.Millisecond, name+" in "+m.ID, func() error {
		switch {
		case len(labels) == 4 && strings.HasPrefix(labels[0], "_"):
			return m.hasTargets(t, name, labels[0], client.ObjectKey{Namespace: labels[3], Name: labels[2]}, members)
		case len(labels) == 4:
			return m.isPod(t, name, labels, members)
		case len(labels) == 2:
			return m.isService(t, name, client.ObjectKey{Namespace: labels[1], Name: labels[0]}, members)
		}
		t.Fatalf("%s is no name of a Service, a port or a pod", name)
		return nil
	})
}

func (m *member) isPod(t *testing.T, name string, labels []string, members []*member) error {
	for _, from := range members {
		if from.ID != labels[1] {
			continue
		}
		address := from.endpoints(t, client.ObjectKey{Namespace: labels[3], Name: labels[2]})[labels[0]]
		if address == "" {
			return fmt.Errorf("%s has no pod %s in that Service", from.ID, labels[0])
		}
		return m.answers(name, address)
	}
	return fmt.Errorf("%s is no cluster", labels[1])
}

// isService wants the addresses of all pods, or that of the import, whose EndpointSlices then have these addresses.
func (m *member) isService(t *testing.T, name string, service client.ObjectKey, members []*member) error {
	var addresses []string
	for _, from := range members {
		for _, address := range from.endpoints(t, service) {
			addresses = append(addresses, address)
		}
	}
	if len(addresses) == 0 {
		return fmt.Errorf("no cluster has a pod of %s", service)
	}
	var imp mcsv1beta1.ServiceImport
	if err := m.Admin.Get(t.Context(), service, &imp); err != nil {
		return err
	}
	if imp.Spec.Type == mcsv1beta1.Headless {
		return m.answers(name, addresses...)
	}
	imported, err := m.Imported(t.Context(), service)
	if err != nil {
		return err
	}
	var got []string
	for _, all := range imported {
		for _, slice := range all {
			for _, e := range slice.Endpoints {
				got = append(got, e.Addresses...)
			}
		}
	}
	return errors.Join(same("endpoints of "+name, got, addresses), m.answers(name, imp.Spec.IPs...))
}

// hasTargets wants SRV records of a port, one for each pod.
func (m *member) hasTargets(t *testing.T, name, port string, service client.ObjectKey, members []*member) error {
	var want []string
	for _, from := range members {
		var svc corev1.Service
		if err := from.Admin.Get(t.Context(), service, &svc); err != nil {
			return err
		}
		for _, p := range svc.Spec.Ports {
			for pod := range from.endpoints(t, service) {
				if "_"+p.Name == port {
					want = append(want, fmt.Sprintf("%s.%s.%s.%s.svc.clusterset.local.:%d", pod, from.ID, service.Name, service.Namespace, p.Port))
				}
			}
		}
	}
	answer, err := m.ask(name, dns.TypeSRV)
	var got []string
	for _, rr := range answer {
		if srv, ok := rr.(*dns.SRV); ok {
			got = append(got, fmt.Sprintf("%s:%d", srv.Target, srv.Port))
		}
	}
	return errors.Join(err, same(name, got, want))
}

func (m *member) answers(name string, want ...string) error {
	answer, err := m.ask(name, dns.TypeA)
	var got []string
	for _, rr := range answer {
		if a, ok := rr.(*dns.A); ok {
			got = append(got, a.A.String())
		}
	}
	return errors.Join(err, same(name, got, want))
}

// ask asks over TCP: an answer with all addresses may be longer than a datagram.
func (m *member) ask(name string, qtype uint16) ([]dns.RR, error) {
	reply, _, err := (&dns.Client{Net: "tcp"}).Exchange(new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype), m.address)
	if err != nil {
		return nil, err
	}
	return reply.Answer, nil
}

func same(what string, got, want []string) error {
	slices.Sort(got)
	slices.Sort(want)
	if len(want) == 0 || !slices.Equal(got, want) {
		return fmt.Errorf("%s is %v; want %v", what, got, want)
	}
	return nil
}
