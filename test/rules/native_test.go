package rules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

// native gives an export the annotation of a native name.
func native(export *mcsv1beta1.ServiceExport) *mcsv1beta1.ServiceExport {
	export.Annotations = map[string]string{mcs.AnnotationNativeName: "true", mcs.AnnotationReturnAfter: "1s"}
	return export
}

// allowNative lets exports ask for native names in the stage's namespace.
func (s *stage) allowNative(in ...int) {
	s.Helper()
	for _, i := range in {
		namespace := new(corev1.Namespace)
		s.until("label the namespace", func() error {
			if err := s.set[i].Admin.Get(s.Context(), client.ObjectKey{Name: s.namespace}, namespace); err != nil {
				return err
			}
			metav1.SetMetaDataLabel(&namespace.ObjectMeta, "native-names", "yes")
			return s.set[i].Admin.Update(s.Context(), namespace)
		})
	}
}

// named is the Service of a name.
func (s *stage) named(in int, name string) (*corev1.Service, error) {
	svc := new(corev1.Service)
	return svc, s.set[in].Admin.Get(s.Context(), s.key(name), svc)
}

// ours waits until the controller has made a Service of the name, and returns its ClusterIP.
func (s *stage) ours(in int, name string) (ip string) {
	s.Helper()
	s.until("the controller's Service "+name, func() error {
		svc, err := s.named(in, name)
		if err == nil && (svc.Labels[mcs.LabelNativeOf] != name || svc.Spec.ClusterIP == "") {
			err = fmt.Errorf("it is %+v", svc)
		}
		ip = svc.Spec.ClusterIP
		return err
	})
	return ip
}

// kubectl runs kubectl as the cluster's administrator, in the stage's namespace. The manifest is a file's content.
func (s *stage) kubectl(in int, manifest string, args ...string) (string, error) {
	s.Helper()
	path := filepath.Join(s.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		s.Fatal(err)
	}
	return binaries.Kubectl(s.Context(), s.set[in].Cluster, append([]string{"--namespace=" + s.namespace, "--filename=" + path}, args...)...)
}

// Without a local Service, the controller makes one of the export's name, if the cluster's administrators allow it. It goes with
// the annotation, and nothing else has changed then.
func TestNativeNameWithoutALocalService(t *testing.T) {
	s := newStage(t, three.start(t))
	const c2, c3 = "10.9.2.1", "10.9.3.1"
	s.create(1, service("foo"), endpointsOf(service("foo"), "", c2), exportOf("foo"))
	for i := range s.set {
		s.until("imported", func() error { return s.imported(i, "foo", []string{"c2"}, c2) })
	}
	before := s.dump(0)
	s.allowNative(0)
	edit(s, 1, new(mcsv1beta1.ServiceExport), "foo", func(e *mcsv1beta1.ServiceExport) { native(e) })
	ip := s.ours(0, "foo")
	s.servesOf(0, "foo", c2)
	s.says(0, "foo", "NativeName", "OwnService", "entry 2 of 2, any, is used: the traffic goes to c2")
	s.says(1, "foo", "NativeName", "NotAllowed", "--native-names")
	s.says(2, "foo", "NativeName", "NotAllowed", `to "true"`)

	edit(s, 2, new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) { imp.Annotations[mcs.AnnotationNativeName] = "true" })
	s.ours(2, "foo")
	s.servesOf(2, "foo", c2)

	// The Service is no Service of this cluster: it is not exported, and its endpoints stay out of the clusterset.
	s.create(0, exportOf("foo"))
	s.until("no Service to export", func() error {
		return s.condition(0, "foo", "Valid", metav1.ConditionFalse, string(mcsv1beta1.ServiceExportReasonNoService))
	})
	s.until("still from c2", func() error { return s.imported(2, "foo", []string{"c2"}, c2) })
	s.delete(0, exportOf("foo"))

	// Another cluster joins, and leaves.
	s.export(2, service("other"), c3)
	edit(s, 2, new(mcsv1beta1.ServiceExport), "other", func(e *mcsv1beta1.ServiceExport) { native(e) })
	s.ours(0, "other")
	s.delete(2, exportOf("other"))
	s.until("the Service has gone", func() error { return s.absent(0, "other") })

	// A deleted Service comes back with its address.
	s.delete(0, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "foo"}})
	if again := s.ours(0, "foo"); again != ip {
		t.Errorf("the address was %s and is %s", ip, again)
	}

	edit(s, 1, new(mcsv1beta1.ServiceExport), "foo", func(e *mcsv1beta1.ServiceExport) { e.Annotations = nil })
	s.until("the Service has gone", func() error { return s.absent(0, "foo") })
	s.says(0, "foo", "NativeName", "", "")
	s.asBefore(0, before)
}

// absent wants no Service of the name.
func (s *stage) absent(in int, name string) error {
	svc, err := s.named(in, name)
	if err == nil {
		return fmt.Errorf("Service %s is there: %+v", name, svc.ObjectMeta)
	}
	return client.IgnoreNotFound(err)
}

// asBefore waits until the Services and slices of a cluster are as they were.
func (s *stage) asBefore(in int, before string) {
	s.Helper()
	s.until("as before", func() error {
		if diff := cmp.Diff(before, s.dump(in)); diff != "" {
			return fmt.Errorf("this has changed (-before +after):\n%s", diff)
		}
		return nil
	})
}

const usersService = `
apiVersion: v1
kind: Service
metadata: {name: foo}
spec:
  selector: {app: foo}
  ports: [{name: http, port: 80, targetPort: 8080}]
`

// A user's Service takes the place of the controller's, and keeps its address. When it is deleted, the controller's comes back with
// the same address. The message of kubectl is what the documents say.
func TestNativeNameIsHandedOver(t *testing.T) {
	three.start(t)
	for _, c := range []struct {
		name    string
		args    []string
		refused string
		moves   bool // to another address
	}{
		{"create", []string{"create"}, `services "foo" already exists`, false},
		{"apply", []string{"apply"}, "", false},
		{"apply server-side", []string{"apply", "--server-side"}, "", false},
		{"replace", []string{"replace"}, "", false},
		{"replace by force", []string{"replace", "--force"}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, three.start(t))
			s.allowNative(0)
			s.create(1, service("foo"), endpointsOf(service("foo"), "", "10.9.2.1"), native(exportOf("foo")))
			ip := s.ours(0, "foo")
			s.servesOf(0, "foo", "10.9.2.1")
			derived, err := s.named(0, "derived-foo")
			if err != nil {
				t.Fatal(err)
			}
			stop := s.neverEmpty(0, "foo")
			out, err := s.kubectl(0, usersService, c.args...)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error()+out, c.refused) {
					t.Fatalf("kubectl: %s, %v; want %q", out, err, c.refused)
				}
				stop()
				return
			}
			if err != nil {
				t.Fatalf("kubectl: %s: %v", out, err)
			}
			s.until("handed over", func() error {
				svc, err := s.named(0, "foo")
				if err != nil || svc.Labels[mcs.LabelNativeOf] != "" || svc.Spec.Selector["app"] != "foo" || svc.Spec.Ports[0].TargetPort.IntVal != 8080 || len(svc.Spec.Ports) != 1 {
					return fmt.Errorf("it is %+v: %w", svc, err)
				}
				if svc.Spec.ClusterIP != ip && !c.moves {
					return fmt.Errorf("the address was %s and is %s", ip, svc.Spec.ClusterIP)
				}
				// A replace also replaces the label by which the controller knows its Service.
				if c.name != "replace" && slices.ContainsFunc(svc.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == mcs.ControllerName }) {
					return fmt.Errorf("it has fields of the controller: %+v", svc.ManagedFields)
				}
				return nil
			})
			s.says(0, "foo", "NativeName", "Attached", "entry 2 of 2, any, is used: the traffic goes to c2")
			s.create(0, endpointsOf(service("foo"), "", "10.9.1.1"))
			s.servesOf(0, "foo", "10.9.1.1")
			s.until("the import is as before", func() error {
				now, err := s.named(0, "derived-foo")
				if err != nil || now.Spec.ClusterIP != derived.Spec.ClusterIP {
					return fmt.Errorf("it is %+v: %w", now, err)
				}
				return s.imported(0, "foo", []string{"c2"}, "10.9.2.1")
			})
			stop()

			svc, err := s.named(0, "foo")
			if err != nil {
				t.Fatal(err)
			}
			last := svc.Spec.ClusterIP
			s.delete(0, svc, endpointsOf(service("foo"), ""))
			s.says(0, "foo", "NativeName", "Waiting", "unless a user creates it again")
			if again := s.ours(0, "foo"); again != last {
				t.Errorf("the address was %s and is %s", last, again)
			}
			s.servesOf(0, "foo", "10.9.2.1")
		})
	}
}

// Endpoints of other clusters are attached to a user's Service. They serve while no local endpoint is ready, or always with "any".
// The Service is not written, and afterwards everything is as before.
func TestNativeNameOfALocalService(t *testing.T) {
	three.start(t)
	for _, kind := range []string{"ClusterIP", "headless"} {
		t.Run(kind, func(t *testing.T) {
			s := newStage(t, three.start(t))
			s.allowNative(0)
			const c1, c2, c3 = "10.9.1.1", "10.9.2.1", "10.9.3.1"
			var edits []func(*corev1.ServiceSpec)
			if kind == "headless" {
				edits = append(edits, headless)
			}
			more := withPorts(corev1.ServicePort{Name: "http", Port: 8000}, corev1.ServicePort{Name: "admin", Port: 8001})
			s.create(0, service("foo", edits...), endpointsOf(service("foo"), "", c1))
			s.create(1, service("foo", append(edits, more)...), endpointsOf(service("foo", more), "", c2), exportOf("foo"))
			s.until("imported", func() error { return s.imported(0, "foo", []string{"c2"}, c2) })
			user, err := s.named(0, "foo")
			if err != nil {
				t.Fatal(err)
			}
			before := s.dump(0)
			annotate := func(key, value string) {
				edit(s, 1, new(mcsv1beta1.ServiceExport), "foo", func(e *mcsv1beta1.ServiceExport) { metav1.SetMetaDataAnnotation(&e.ObjectMeta, key, value) })
			}
			annotate(mcs.AnnotationReturnAfter, "1s")
			annotate(mcs.AnnotationNativeName, "true")
			s.says(0, "foo", "NativeName", "Attached", `entry 1 of 2, local, is used: the traffic goes to c1; left out: port "admin" (TCP) of other clusters`)
			s.until("one slice is attached, in reserve", func() error {
				all, err := s.attached(0, "foo")
				if err != nil || len(all) != 1 || all[0].Labels[mcs.LabelStandby] != "reserve" || len(all[0].Ports) != 1 || *all[0].Ports[0].Port != 16000 {
					return fmt.Errorf("attached are %+v: %w", all, err)
				}
				return nil
			})
			s.servesOf(0, "foo", c1)
			s.setReady(0, "foo", false)
			s.servesOf(0, "foo", c2)
			s.setReady(0, "foo", true)
			s.servesOf(0, "foo", c1)
			stop := s.neverEmpty(0, "foo")
			annotate(mcs.AnnotationPreferClusters, "any")
			s.servesOf(0, "foo", c1+" "+c2)
			s.create(2, service("foo", edits...), endpointsOf(service("foo"), "", c3), native(exportOf("foo")))
			s.servesOf(0, "foo", c1+" "+c2+" "+c3)
			s.delete(2, exportOf("foo"))
			s.servesOf(0, "foo", c1+" "+c2)

			// The local endpoints stay connected, whatever is preferred.
			annotate(mcs.AnnotationPreferClusters, "cluster=c2")
			s.says(0, "foo", "NativeName", "Attached", "standby of this cluster, because Kubernetes manages its endpoints")
			s.servesOf(0, "foo", c1+" "+c2)

			// The user of the Service has the last word.
			edit(s, 0, new(corev1.Service), "foo", func(svc *corev1.Service) {
				svc.Annotations = map[string]string{mcs.AnnotationNativeName: "false"}
			})
			s.servesOf(0, "foo", c1)
			edit(s, 0, new(corev1.Service), "foo", func(svc *corev1.Service) { svc.Annotations = nil })
			s.servesOf(0, "foo", c1+" "+c2)

			edit(s, 1, new(mcsv1beta1.ServiceExport), "foo", func(e *mcsv1beta1.ServiceExport) { e.Annotations = nil })
			s.servesOf(0, "foo", c1)
			s.says(0, "foo", "NativeName", "", "")
			stop()
			s.asBefore(0, before)
			if now, err := s.named(0, "foo"); err != nil || now.UID != user.UID || !slices.Equal(now.Spec.ClusterIPs, user.Spec.ClusterIPs) {
				t.Errorf("the Service was %+v and is %+v: %v", user, now, err)
			}
		})
	}
}

// attached are the slices that the controller attached to a Service of the name.
func (s *stage) attached(in int, name string) ([]discoveryv1.EndpointSlice, error) {
	var all discoveryv1.EndpointSliceList
	err := s.set[in].Admin.List(s.Context(), &all, client.InNamespace(s.namespace), client.MatchingLabels{mcs.LabelNativeOf: name, discoveryv1.LabelServiceName: name})
	return all.Items, err
}

// Attached slices come back, and a Service of another type gets none.
func TestNativeNameSlips(t *testing.T) {
	s := newStage(t, three.start(t))
	s.allowNative(0)
	s.create(0, service("foo"), endpointsOf(service("foo"), ""))
	s.create(1, service("foo"), endpointsOf(service("foo"), "", "10.9.2.1"), native(exportOf("foo")))
	s.servesOf(0, "foo", "10.9.2.1")
	all, err := s.attached(0, "foo")
	if err != nil || len(all) != 1 {
		t.Fatalf("attached are %+v: %v", all, err)
	}
	name := all[0].Name
	for what, change := range map[string]func(*discoveryv1.EndpointSlice){
		"loses its Service": func(slice *discoveryv1.EndpointSlice) { delete(slice.Labels, discoveryv1.LabelServiceName) },
		"loses its labels":  func(slice *discoveryv1.EndpointSlice) { slice.Labels = nil },
		"loses its endpoints": func(slice *discoveryv1.EndpointSlice) {
			slice.Endpoints = nil
		},
		"is given to another Service": func(slice *discoveryv1.EndpointSlice) { slice.Labels[discoveryv1.LabelServiceName] = "bar" },
	} {
		t.Logf("a slice %s", what)
		edit(s, 0, new(discoveryv1.EndpointSlice), name, change)
		s.servesOf(0, "foo", "10.9.2.1")
	}
	s.delete(0, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name}})
	s.servesOf(0, "foo", "10.9.2.1")

	edit(s, 0, new(corev1.Service), "foo", func(svc *corev1.Service) {
		svc.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "foo.example.com"}
	})
	s.says(0, "foo", "NativeName", "UnsupportedService", "has the type ExternalName")
	s.until("nothing is attached", func() error {
		all, err := s.attached(0, "foo")
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("attached are %+v", all)
		}
		return err
	})
	if svc, err := s.named(0, "foo"); err != nil || svc.Spec.ExternalName != "foo.example.com" {
		t.Errorf("it is %+v: %v", svc, err)
	}
	edit(s, 1, new(mcsv1beta1.ServiceExport), "foo", func(e *mcsv1beta1.ServiceExport) { e.Annotations[mcs.AnnotationNativeName] = "yes" })
	s.until("the export's author is told", func() error {
		return s.condition(1, "foo", "NativeName", metav1.ConditionFalse, "MalformedAnnotation")
	})
	if err := s.set[0].Admin.Get(t.Context(), s.key("foo"), new(corev1.Service)); apierrors.IsNotFound(err) {
		t.Error(errors.Join(errors.New("the user's Service is gone"), err))
	}
}

// What the controller attached goes when the export is deleted, when the peer leaves, and when the controller has ended and the import is deleted as
// docs/operations/uninstall.md describes. A Service that a user has applied while no controller ran stays.
func TestNativeNameEndsWithThePeerAndTheController(t *testing.T) {
	set := pair.start(t)
	life := context.WithoutCancel(t.Context())
	home, far := set[0], set[1]
	if err := far.Run(life); err != nil {
		t.Fatal(err)
	}
	s := newStage(t, set, 0, 1)
	s.allowNative(0)
	const c1, c2 = "10.9.1.1", "10.9.2.1"
	s.create(0, service("foo"), endpointsOf(service("foo"), "", c1))
	before := s.dump(0)
	names := []string{"foo", "bar"}
	for _, name := range names {
		s.create(1, service(name), endpointsOf(service(name), "", c2), native(exportOf(name)))
	}
	run := func() {
		t.Helper()
		if err := home.Run(life, allowingNativeNames); err != nil {
			t.Fatal(err)
		}
		s.setReady(0, "foo", false)
		s.servesOf(0, "foo", c2)
		s.setReady(0, "foo", true)
		s.servesOf(0, "foo", c1)
		s.ours(0, "bar")
		s.servesOf(0, "bar", c2)
	}
	run()
	for _, name := range names {
		s.delete(1, exportOf(name))
	}
	s.asBefore(0, before)
	for _, name := range names {
		s.create(1, native(exportOf(name)))
		s.until("attached again", func() error {
			all, err := s.attached(0, name)
			if err == nil && len(all) != 1 {
				err = fmt.Errorf("attached are %+v", all)
			}
			return err
		})
	}
	if err := home.Leave(t.Context(), "c2"); err != nil {
		t.Fatal(err)
	}
	s.asBefore(0, before)

	if err := errors.Join(home.End(), home.Join(t.Context(), "c2", far.ReaderKubeconfig)); err != nil {
		t.Fatal(err)
	}
	run()
	if err := home.End(); err != nil {
		t.Fatal(err)
	}
	bar := strings.NewReplacer("foo", "bar").Replace(usersService)
	if out, err := s.kubectl(0, bar, "apply"); err != nil {
		t.Fatal(out, err)
	}
	users, err := s.named(0, "bar")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		s.delete(0, &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Name: name}})
		s.until("nothing is attached to "+name, func() error {
			all, err := s.attached(0, name)
			if err == nil && len(all) > 0 {
				err = fmt.Errorf("attached are %+v", all)
			}
			return err
		})
		s.until("the derived Service has gone", func() error { return s.absent(0, "derived-"+name) })
	}
	if now, err := s.named(0, "bar"); err != nil || now.UID != users.UID {
		t.Fatalf("the user's Service was %+v and is %+v: %v", users, now, err)
	}
	s.delete(0, users)
	s.asBefore(0, before)
}
