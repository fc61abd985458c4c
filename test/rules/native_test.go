package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
)

// native gives an export the annotation of a native name.
func native(export *mcsv1beta1.ServiceExport) *mcsv1beta1.ServiceExport {
	export.Annotations = map[string]string{mcs.AnnotationNativeName: "true", mcs.AnnotationReturnAfter: "1s"}
	return export
}

// named is the Service of a name.
func named(s *world.Namespace, id, name string) *corev1.Service {
	s.Helper()
	return world.Live(s, id, new(corev1.Service), name)
}

// becomes waits until the Service of a name is as it should be.
func becomes(s *world.Namespace, id, name, what string, is func(*corev1.Service) bool) {
	s.Helper()
	world.Becomes(s, id, new(corev1.Service), name, what, is)
}

// ours waits until the controller has made a Service of the name, and returns its ClusterIP.
func ours(s *world.Namespace, id, name string) (ip string) {
	s.Helper()
	becomes(s, id, name, "the controller's", func(svc *corev1.Service) bool {
		ip = svc.Spec.ClusterIP
		return svc.Labels[mcs.LabelNativeOf] == name && ip != ""
	})
	return ip
}

// kubectl runs kubectl as the cluster's administrator, in the stage's namespace, with a manifest.
func kubectl(s *world.Namespace, id, manifest string, args ...string) (string, error) {
	return binaries.KubectlWith(s.Context(), s.Cluster(id).Kubeconfig, manifest, append([]string{"--namespace=" + s.Name, "--filename=-"}, args...)...)
}

// Without a local Service, the controller makes one of the export's name, if the cluster's administrators allow it. It goes with
// the annotation, and nothing else has changed then.
func TestNativeNameWithoutALocalService(t *testing.T) {
	s := world.Three(t).Namespace()
	const c2, c3 = "10.9.2.1", "10.9.3.1"
	s.Export("c2", world.Service("foo"), c2)
	s.Everywhere("foo", []string{"c2"}, c2)
	before := dump(s, "c1")
	s.Label("c1", "native-names", "yes")
	world.Edit(s, "c2", new(mcsv1beta1.ServiceExport), "foo", func(e *mcsv1beta1.ServiceExport) { native(e) })
	ip := ours(s, "c1", "foo")
	servesOf(s, "c1", "foo", c2)
	s.Says("c1", "foo", "NativeName", "OwnService", "entry 2 of 2, any, is used: the traffic goes to c2")
	s.Says("c2", "foo", "NativeName", "NotAllowed", "--native-names")
	s.Says("c3", "foo", "NativeName", "NotAllowed", `to "true"`)

	// A user adds a port to it. That is left alone, and the controller's own ports still change.
	world.Edit(s, "c1", new(corev1.Service), "foo", func(svc *corev1.Service) {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "mine", Port: 9999, Protocol: corev1.ProtocolTCP})
	})
	world.Edit(s, "c2", new(corev1.Service), "foo", func(svc *corev1.Service) {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "more", Port: 8888, Protocol: corev1.ProtocolTCP})
	})
	becomes(s, "c1", "foo", "with the ports of both", func(svc *corev1.Service) bool {
		has := func(port int32) bool {
			return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
		}
		return has(8888) && has(9999)
	})
	s.Says("c1", "foo", "NativeName", "OwnService", "the traffic goes to c2")
	world.Edit(s, "c2", new(corev1.Service), "foo", func(svc *corev1.Service) { svc.Spec.Ports = svc.Spec.Ports[:1] })

	world.Edit(s, "c3", new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) { imp.Annotations[mcs.AnnotationNativeName] = "true" })
	ours(s, "c3", "foo")
	servesOf(s, "c3", "foo", c2)

	// The Service is no Service of this cluster: it is not exported, and its endpoints stay out of the clusterset.
	s.Create("c1", world.Export("foo"))
	s.Until("no Service to export", func() error {
		return s.Condition("c1", "foo", "Valid", metav1.ConditionFalse, string(mcsv1beta1.ServiceExportReasonNoService))
	})
	s.Until("still from c2", func() error { return s.Imported("c3", "foo", []string{"c2"}, c2) })
	s.Delete("c1", world.Export("foo"))

	// Another cluster joins, and leaves.
	s.Export("c3", world.Service("other"), c3)
	world.Edit(s, "c3", new(mcsv1beta1.ServiceExport), "other", func(e *mcsv1beta1.ServiceExport) { native(e) })
	ours(s, "c1", "other")
	s.Delete("c3", world.Export("other"))
	s.Until("the Service has gone", func() error { return s.Gone("c1", new(corev1.Service), "other") })

	// A deleted Service comes back with its address.
	s.Delete("c1", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "foo"}})
	if again := ours(s, "c1", "foo"); again != ip {
		t.Errorf("the address was %s and is %s", ip, again)
	}

	world.Edit(s, "c2", new(mcsv1beta1.ServiceExport), "foo", func(e *mcsv1beta1.ServiceExport) { e.Annotations = nil })
	s.Until("the Service has gone", func() error { return s.Gone("c1", new(corev1.Service), "foo") })
	s.Says("c1", "foo", "NativeName", "", "")
	asBefore(s, "c1", before)
}

// asBefore waits until the Services and slices of a cluster are as they were.
func asBefore(s *world.Namespace, id, before string) {
	s.Helper()
	s.Until("as before", func() error {
		if diff := cmp.Diff(before, dump(s, id)); diff != "" {
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
			s := world.Three(t).Namespace()
			s.Label("c1", "native-names", "yes")
			s.Create("c2", world.Service("foo"), world.Endpoints(world.Service("foo"), "", "10.9.2.1"), native(world.Export("foo")))
			ip := ours(s, "c1", "foo")
			servesOf(s, "c1", "foo", "10.9.2.1")
			derived := named(s, "c1", "derived-foo")
			stop := neverEmpty(s, "c1", "foo")
			out, err := kubectl(s, "c1", usersService, c.args...)
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
			becomes(s, "c1", "foo", "handed over, with the address "+ip, func(svc *corev1.Service) bool {
				users := svc.Spec.Selector["app"] == "foo" && svc.Spec.Ports[0].TargetPort.IntVal == 8080 && len(svc.Spec.Ports) == 1
				ours := slices.ContainsFunc(svc.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == mcs.ControllerName })
				// A replace also replaces the label by which the controller knows its Service, so its fields stay.
				return users && svc.Labels[mcs.LabelNativeOf] == "" && (svc.Spec.ClusterIP == ip || c.moves) && (!ours || c.name == "replace")
			})
			s.Says("c1", "foo", "NativeName", "Attached", "entry 2 of 2, any, is used: the traffic goes to c2")
			own := world.Slice("own", map[string]string{discoveryv1.LabelServiceName: "foo"}, "10.9.1.1")
			s.Create("c1", own)
			servesOf(s, "c1", "foo", "10.9.1.1")
			becomes(s, "c1", "derived-foo", "the import is as before", func(now *corev1.Service) bool {
				return now.Spec.ClusterIP == derived.Spec.ClusterIP && s.Imported("c1", "foo", []string{"c2"}, "10.9.2.1") == nil
			})
			stop()

			svc := named(s, "c1", "foo")
			last := svc.Spec.ClusterIP
			s.Delete("c1", svc, own)
			s.Says("c1", "foo", "NativeName", "Waiting", "unless a user creates it again")
			if again := ours(s, "c1", "foo"); again != last {
				t.Errorf("the address was %s and is %s", last, again)
			}
			servesOf(s, "c1", "foo", "10.9.2.1")
		})
	}
}

// Endpoints of other clusters are attached to a user's Service. They serve while no local endpoint is ready, or always with "any".
// The Service is not written, and afterwards everything is as before.
func TestNativeNameOfALocalService(t *testing.T) {
	for _, kind := range []string{"ClusterIP", "headless"} {
		t.Run(kind, func(t *testing.T) {
			s := world.Three(t).Namespace()
			s.Label("c1", "native-names", "yes")
			const c1, c2, c3 = "10.9.1.1", "10.9.2.1", "10.9.3.1"
			var edits []func(*corev1.ServiceSpec)
			if kind == "headless" {
				edits = append(edits, world.Headless)
			}
			more := world.Ports(corev1.ServicePort{Name: "http", Port: 8000}, corev1.ServicePort{Name: "admin", Port: 8001})
			s.Create("c1", world.Service("foo", edits...), world.Endpoints(world.Service("foo"), "", c1))
			s.Create("c2", world.Service("foo", append(edits, more)...), world.Endpoints(world.Service("foo", more), "", c2), world.Export("foo"))
			s.Until("imported", func() error { return s.Imported("c1", "foo", []string{"c2"}, c2) })
			user := named(s, "c1", "foo")
			before := dump(s, "c1")
			annotate := func(key, value string) {
				world.Edit(s, "c2", new(mcsv1beta1.ServiceExport), "foo", func(e *mcsv1beta1.ServiceExport) { metav1.SetMetaDataAnnotation(&e.ObjectMeta, key, value) })
			}
			annotate(mcs.AnnotationReturnAfter, "1s")
			annotate(mcs.AnnotationNativeName, "true")
			s.Says("c1", "foo", "NativeName", "Attached", `entry 1 of 2, local, is used: the traffic goes to c1; left out: port "admin" (TCP) of other clusters`)
			name := attached(s, "c1", "foo", 1)[0].Name
			world.Becomes(s, "c1", new(discoveryv1.EndpointSlice), name, "in reserve", func(one *discoveryv1.EndpointSlice) bool {
				return one.Labels[mcs.LabelStandby] == "reserve" && len(one.Ports) == 1 && *one.Ports[0].Port == 16000
			})
			servesOf(s, "c1", "foo", c1)
			setReady(s, "c1", "foo", false)
			servesOf(s, "c1", "foo", c2)
			setReady(s, "c1", "foo", true)
			servesOf(s, "c1", "foo", c1)
			stop := neverEmpty(s, "c1", "foo")
			annotate(mcs.AnnotationPreferClusters, "any")
			servesOf(s, "c1", "foo", c1+" "+c2)
			s.Create("c3", world.Service("foo", edits...), world.Endpoints(world.Service("foo"), "", c3), native(world.Export("foo")))
			servesOf(s, "c1", "foo", c1+" "+c2+" "+c3)
			s.Delete("c3", world.Export("foo"))
			servesOf(s, "c1", "foo", c1+" "+c2)

			// The local endpoints stay connected, whatever is preferred.
			annotate(mcs.AnnotationPreferClusters, "cluster=c2")
			s.Says("c1", "foo", "NativeName", "Attached", "standby of this cluster, because Kubernetes manages its endpoints")
			servesOf(s, "c1", "foo", c1+" "+c2)

			// The user of the Service has the last word.
			world.Edit(s, "c1", new(corev1.Service), "foo", func(svc *corev1.Service) {
				svc.Annotations = map[string]string{mcs.AnnotationNativeName: "false"}
			})
			servesOf(s, "c1", "foo", c1)
			world.Edit(s, "c1", new(corev1.Service), "foo", func(svc *corev1.Service) { svc.Annotations = nil })
			servesOf(s, "c1", "foo", c1+" "+c2)

			world.Edit(s, "c2", new(mcsv1beta1.ServiceExport), "foo", func(e *mcsv1beta1.ServiceExport) { e.Annotations = nil })
			servesOf(s, "c1", "foo", c1)
			s.Says("c1", "foo", "NativeName", "", "")
			stop()
			asBefore(s, "c1", before)
			if now := named(s, "c1", "foo"); now.UID != user.UID || !slices.Equal(now.Spec.ClusterIPs, user.Spec.ClusterIPs) {
				t.Errorf("the Service was %+v and is %+v", user, now)
			}
		})
	}
}

// attached waits until the controller has attached so many slices to a Service of the name.
func attached(s *world.Namespace, id, name string, want int) []discoveryv1.EndpointSlice {
	s.Helper()
	var all discoveryv1.EndpointSliceList
	s.Until(fmt.Sprintf("%d slices are attached to %s", want, name), func() error {
		labels := client.MatchingLabels{mcs.LabelNativeOf: name, discoveryv1.LabelServiceName: name}
		err := s.Admin(id).List(s.Context(), &all, client.InNamespace(s.Name), labels)
		if err == nil && len(all.Items) != want {
			err = fmt.Errorf("attached are %+v", all.Items)
		}
		return err
	})
	return all.Items
}

// Attached slices come back, and a Service of another type gets none.
func TestNativeNameSlips(t *testing.T) {
	s := world.Three(t).Namespace()
	s.Label("c1", "native-names", "yes")
	s.Create("c1", world.Service("foo"), world.Endpoints(world.Service("foo"), ""))
	s.Create("c2", world.Service("foo"), world.Endpoints(world.Service("foo"), "", "10.9.2.1"), native(world.Export("foo")))
	servesOf(s, "c1", "foo", "10.9.2.1")
	name := attached(s, "c1", "foo", 1)[0].Name
	for what, change := range map[string]func(*discoveryv1.EndpointSlice){
		"loses its Service":           func(slice *discoveryv1.EndpointSlice) { delete(slice.Labels, discoveryv1.LabelServiceName) },
		"loses its labels":            func(slice *discoveryv1.EndpointSlice) { slice.Labels = nil },
		"loses its endpoints":         func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = nil },
		"is given to another Service": func(slice *discoveryv1.EndpointSlice) { slice.Labels[discoveryv1.LabelServiceName] = "bar" },
	} {
		t.Logf("a slice %s", what)
		world.Edit(s, "c1", new(discoveryv1.EndpointSlice), name, change)
		servesOf(s, "c1", "foo", "10.9.2.1")
	}
	s.Delete("c1", &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name}})
	servesOf(s, "c1", "foo", "10.9.2.1")

	world.Edit(s, "c1", new(corev1.Service), "foo", func(svc *corev1.Service) {
		svc.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "foo.example.com"}
	})
	s.Says("c1", "foo", "NativeName", "UnsupportedService", "has the type ExternalName")
	attached(s, "c1", "foo", 0)
	if svc := named(s, "c1", "foo"); svc.Spec.ExternalName != "foo.example.com" {
		t.Errorf("it is %+v", svc)
	}
	world.Edit(s, "c2", new(mcsv1beta1.ServiceExport), "foo", func(e *mcsv1beta1.ServiceExport) { e.Annotations[mcs.AnnotationNativeName] = "yes" })
	s.Until("the export's author is told", func() error {
		return s.Condition("c2", "foo", "NativeName", metav1.ConditionFalse, "MalformedAnnotation")
	})
	named(s, "c1", "foo") // the user's Service is still there
}

// What the controller attached goes when the export is deleted, when the peer leaves, and when the controller has ended and the import is deleted as
// docs/operations/uninstall.md describes. A Service that a user has applied while no controller ran stays.
func TestNativeNameEndsWithThePeerAndTheController(t *testing.T) {
	s := world.Two(t).Namespace()
	s.Run("c2")
	s.Label("c1", "native-names", "yes")
	const c1, c2 = "10.9.1.1", "10.9.2.1"
	s.Create("c1", world.Service("foo"), world.Endpoints(world.Service("foo"), "", c1))
	before := dump(s, "c1")
	names := []string{"foo", "bar"}
	for _, name := range names {
		s.Create("c2", world.Service(name), world.Endpoints(world.Service(name), "", c2), native(world.Export(name)))
	}
	run := func() {
		t.Helper()
		s.Run("c1", world.AllowNativeNames)
		setReady(s, "c1", "foo", false)
		servesOf(s, "c1", "foo", c2)
		setReady(s, "c1", "foo", true)
		servesOf(s, "c1", "foo", c1)
		ours(s, "c1", "bar")
		servesOf(s, "c1", "bar", c2)
	}
	run()
	for _, name := range names {
		s.Delete("c2", world.Export(name))
	}
	asBefore(s, "c1", before)
	for _, name := range names {
		s.Create("c2", native(world.Export(name)))
		attached(s, "c1", name, 1)
	}
	home, far := s.Cluster("c1"), s.Cluster("c2")
	s.Must(home.Leave(t.Context(), "c2"))
	asBefore(s, "c1", before)

	s.Must(errors.Join(home.End(), home.Join(t.Context(), "c2", far.ReaderKubeconfig)))
	run()
	s.End("c1")
	bar := strings.NewReplacer("foo", "bar").Replace(usersService)
	if out, err := kubectl(s, "c1", bar, "apply"); err != nil {
		t.Fatal(out, err)
	}
	users := named(s, "c1", "bar")
	for _, name := range names {
		s.Delete("c1", &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Name: name}})
		attached(s, "c1", name, 0)
		s.Until("the derived Service has gone", func() error { return s.Gone("c1", new(corev1.Service), "derived-"+name) })
	}
	if now := named(s, "c1", "bar"); now.UID != users.UID {
		t.Fatalf("the user's Service was %+v and is %+v", users, now)
	}
	s.Delete("c1", users)
	asBefore(s, "c1", before)
}
