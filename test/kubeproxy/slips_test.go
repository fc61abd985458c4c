package kubeproxy

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
)

// TestEverydaySlipsCostNoConnection: users, policies and tools change the objects of a name by mistake, by kubectl and in two control planes,
// while clients in west connect to it without a pause. Each connection reaches the Service, which keeps its address, and what was
// changed is repaired.
func TestEverydaySlipsCostNoConnection(t *testing.T) {
	kube.InNetNS(t, func(t *testing.T) {
		s := world.Joined(t, "east", "west").Namespace()
		s.Run("east")
		s.Run("west")
		s.Must(s.Cluster("west").StartKubeProxy(t.Context()))
		kube.Greet(t, "10.99.0.11:8080", "east")
		s.Create("east", exported("10.99.0.11", corev1.ServicePort{Name: "http", Port: 80})...)
		world.Becomes(s, "west", new(mcsv1beta1.ServiceImport), "foo", "ready", func(imp *mcsv1beta1.ServiceImport) bool {
			return len(imp.Spec.IPs) > 0 && s.Imported("west", "foo", []string{"east"}, "10.99.0.11") == nil
		})
		before := s.MustImport("west", "foo")
		derived := world.Live(s, "west", new(corev1.Service), "derived-foo")
		address := net.JoinHostPort(before.Spec.IPs[0], "80")
		leads(t, address, "east")
		end := keepConnecting(t, address, "east")

		kubectl := func(id string, args ...string) string {
			t.Helper()
			out, err := binaries.Kubectl(t.Context(), s.Cluster(id).Cluster, append([]string{"--namespace", s.Name}, args...)...)
			s.Must(err)
			return out
		}
		replace := func(id, kind string) func() {
			return func() {
				t.Helper()
				_, err := binaries.KubectlWith(t.Context(), s.Cluster(id).Kubeconfig, kubectl(id, "get", kind, "foo", "--output", "yaml"), "--namespace", s.Name, "replace", "--force", "--filename", "-")
				s.Must(err)
			}
		}
		const managed = "app.kubernetes.io/managed-by"
		for _, slip := range []struct {
			what string
			do   func()
		}{
			{"a policy labels the derived Service", func() { kubectl("west", "label", "service", "derived-foo", managed+"=Helm", "--overwrite") }},
			{"a policy labels the import", func() { kubectl("west", "label", "serviceimport", "foo", managed+"=Helm", "--overwrite") }},
			{"a record is removed", func() { kubectl("west", "annotate", "serviceimport", "foo", mcs.AnnotationExports+"-") }},
			{"the export is replaced", replace("east", "serviceexport")},
			{"the Service is replaced", replace("east", "service")},
			{"the import is deleted, and leaves orphans", func() { kubectl("west", "delete", "serviceimport", "foo", "--cascade=orphan") }},
		} {
			slip.do()
			s.Until(slip.what+", and all is as before", func() error {
				imp, err := s.Import("west", "foo")
				if err != nil {
					return err
				}
				svc := world.Live(s, "west", new(corev1.Service), "derived-foo")
				if imp.Labels[managed] != mcs.ControllerName || svc.Labels[managed] != mcs.ControllerName || imp.Annotations[mcs.AnnotationExports] == "" {
					return fmt.Errorf("the marks are %v, %v", imp.Labels, svc.Labels)
				}
				if svc.UID != derived.UID || strings.Join(imp.Spec.IPs, " ") != strings.Join(before.Spec.IPs, " ") {
					return fmt.Errorf("the addresses are %v, and the Service is another one: %v", imp.Spec.IPs, svc.UID != derived.UID)
				}
				return errors.Join(s.Imported("west", "foo", []string{"east"}, "10.99.0.11"), s.Condition("east", "foo", "Ready", metav1.ConditionTrue, "Ready"))
			})
		}
		oneAddressTwice(s)
		endpointsWithoutAPort(s)
		end()
		leftoverEndpoints(t, s.Namespace())
	})
}

// oneAddressTwice: west exports the same server, and the preference turns to and fro. kube-proxy keeps one of two endpoints with one address,
// whichever comes last.
func oneAddressTwice(s *world.Namespace) {
	s.Helper()
	local := exported("10.99.0.11", corev1.ServicePort{Name: "http", Port: 80})
	s.Create("west", local...)
	s.Until("both export it", func() error { return s.Imported("west", "foo", []string{"east", "west"}, "10.99.0.11", "10.99.0.11") })
	for _, list := range []string{"local, any", "cluster=east, any", "local, any", "cluster=east, any", "local, any"} {
		for _, id := range []string{"east", "west"} {
			prefer(s, id, list)
		}
		s.Says("west", "foo", "ClusterPreference", "Preferred", "")
	}
	s.Delete("west", local...)
	s.Until("only east exports it", func() error { return s.Imported("west", "foo", []string{"east"}, "10.99.0.11") })
}

func prefer(s *world.Namespace, id, list string) {
	s.Helper()
	world.Edit(s, id, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) {
		export.Annotations = map[string]string{mcs.AnnotationPreferClusters: list}
	})
}

// endpointsWithoutAPort: west prefers its own endpoints, and no port leads to them, as of pods without the named target port.
func endpointsWithoutAPort(s *world.Namespace) {
	s.Helper()
	local := exported("10.99.0.12", corev1.ServicePort{Name: "http", Port: 80})
	local[1].(*discoveryv1.EndpointSlice).Ports = nil
	s.Create("west", local...)
	prefer(s, "east", "local, any")
	prefer(s, "west", "local, any")
	s.Says("west", "foo", "ClusterPreference", "Fallback", "")
	s.Delete("west", local...)
	s.Until("only east exports it", func() error { return s.Imported("west", "foo", []string{"east"}, "10.99.0.11") })
}

// leftoverEndpoints: what a deleted Service has left behind gets no traffic of the Service that the controller makes under
// the own name.
func leftoverEndpoints(t *testing.T, s *world.Namespace) {
	t.Helper()
	left := world.Endpoints(world.Service("foo"), "left", "10.99.0.13") // nobody is there
	s.Create("west", left)
	created := world.Live(s, "west", new(discoveryv1.EndpointSlice), left.Name).CreationTimestamp
	s.Until("what is made now is younger", func() error {
		if !time.Now().After(created.Add(time.Second)) {
			return errors.New("not yet")
		}
		return nil
	})
	s.Create("east", exported("10.99.0.11", corev1.ServicePort{Name: "http", Port: 80})...)
	world.Edit(s, "west", new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) {
		metav1.SetMetaDataAnnotation(&imp.ObjectMeta, mcs.AnnotationNativeName, "true")
	})
	s.Says("west", "foo", "NativeName", "OwnService", "")
	own := world.Live(s, "west", new(corev1.Service), "foo")
	s.Until("the leftover is deleted", func() error { return s.Gone("west", new(discoveryv1.EndpointSlice), left.Name) })
	leadsOnly(t, net.JoinHostPort(own.Spec.ClusterIP, "80"), "east")
}
