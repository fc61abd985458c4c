package reconcile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// shared is a dual-stack cluster with the CRDs of mcs-api and the role from deploy/controller. Its
// address ranges are the largest that Kubernetes 1.30 takes, so that an address that a test releases for a moment is not assigned to
// another test's Service by chance.
var shared = kube.Shared{
	Options: kube.Options{ServiceCIDRs: "10.0.0.0/12,fd00:10::/108"},
	Prepare: func(ctx context.Context, c *kube.Cluster) error {
		return prepare(ctx, c, kube.BothVersions)
	},
}

// smallDualStack are ranges with few enough IPv4 addresses to use up. Tests that need a dual-stack cluster of their own share one with them.
const smallDualStack = "10.0.0.0/28,fd00:10::/112"

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(shared.Main(m))
}

func prepare(ctx context.Context, c *kube.Cluster, form kube.CRDs) error {
	if err := c.InstallCRDs(ctx, form); err != nil {
		return err
	}
	admin, err := adminClient(c, "v1beta1")
	if err != nil {
		return err
	}
	for _, name := range []string{"namespace.yaml", "serviceaccount.yaml", "clusterrole.yaml", "role.yaml", "deployment.yaml"} {
		objects, err := readObjects(name)
		if err != nil {
			return err
		}
		for _, obj := range objects {
			if err := admin.Create(ctx, obj); err != nil {
				return fmt.Errorf("create what %s has: %w", name, err)
			}
		}
	}
	return nil
}

// readObjects reads a file of deploy/controller. It is strict: an unknown field is an error.
func readObjects(name string) ([]client.Object, error) {
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "controller", name))
	if err != nil {
		return nil, err
	}
	var objects []client.Object
	decoder := serializer.NewCodecFactory(clientgoscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		obj, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, obj.(client.Object))
	}
}

// adminClient returns an uncached client with all permissions, for the actions of a test.
func adminClient(c *kube.Cluster, version string) (client.Client, error) {
	scheme, err := newScheme(observed.CRD{APIVersion: mcsv1beta1.GroupName + "/" + version})
	if err != nil {
		return nil, err
	}
	return client.New(c.Config, client.Options{Scheme: scheme})
}

// account returns the identity of the controller: the shipped service account with the shipped
// role.
func account(t testing.TB, c *kube.Cluster) *rest.Config {
	t.Helper()
	config, _, err := c.ServiceAccount(t.Context(), "multicluster-system", mcs.ControllerName)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// start runs a controller until stop or the end of the test.
func start(t testing.TB, config *rest.Config, change ...func(*Options)) (stop func() error) {
	t.Helper()
	probes, err := ListenProbes(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	options := Options{MetricsAddress: "0", Poll: time.Minute, Probes: probes}
	for _, edit := range change {
		edit(&options)
	}
	if options.CRD, err = WaitForCRD(t.Context(), config, options.ClusterID != "", 20*time.Millisecond, logr.Discard()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	mgr, err := NewManager(ctx, config, options)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	var once error
	stopped := false
	stop = func() error {
		if !stopped {
			stopped = true
			cancel()
			once = <-ended
			probes.Close()
		}
		return once
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("the controller ended with: %v", err)
		}
	})
	return stop
}

// place is a namespace of a test, with helpers. Its methods return errors, so that they can be
// polled.
type place struct {
	client.Client
	ctx       context.Context //nolint:containedctx // a test's own, for its helpers
	namespace string
}

func newPlace(t testing.TB, c *kube.Cluster) *place {
	t.Helper()
	return newPlaceOf(t, c, "v1beta1")
}

func newPlaceOf(t testing.TB, c *kube.Cluster, version string) *place {
	t.Helper()
	admin, err := adminClient(c, version)
	if err != nil {
		t.Fatal(err)
	}
	return &place{admin, t.Context(), kube.Namespace(t, c)}
}

func (p *place) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: p.namespace, Name: name}
}

func (p *place) imp(name string) (*mcsv1beta1.ServiceImport, error) {
	obj := new(mcsv1beta1.ServiceImport)
	return obj, p.Get(p.ctx, p.key(name), obj)
}

func (p *place) svc(name string) (*corev1.Service, error) {
	obj := new(corev1.Service)
	return obj, p.Get(p.ctx, p.key(name), obj)
}

func (p *place) create(objects ...client.Object) error {
	for _, obj := range objects {
		obj.SetNamespace(p.namespace)
		if err := p.Create(p.ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// edit changes an import as a user does: it reads, writes, and tries again after a conflict.
func (p *place) edit(name string, change func(*mcsv1beta1.ServiceImport)) error {
	for {
		imp, err := p.imp(name)
		if err != nil {
			return err
		}
		change(imp)
		if err := p.Update(p.ctx, imp); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func (p *place) events(name string) ([]eventsv1.Event, error) {
	var all eventsv1.EventList
	if err := p.List(p.ctx, &all, client.InNamespace(p.namespace)); err != nil {
		return nil, err
	}
	// kube-apiserver emits events on Services, too, when it repairs the allocation of ClusterIPs.
	return slices.DeleteFunc(all.Items, func(e eventsv1.Event) bool {
		return e.Regarding.Name != name || e.ReportingController != mcs.ControllerName
	}), nil
}

// told checks that exactly one event has the reason. A violation of K4 causes more events.
func (p *place) told(name, reason string) error {
	events, err := p.events(name)
	if err != nil {
		return err
	}
	n := 0
	for _, e := range events {
		if e.Reason == reason {
			n++
			if e.Series != nil {
				n += int(e.Series.Count)
			}
		}
	}
	if n != 1 {
		return fmt.Errorf("%d events %s on %s, of %d", n, reason, name, len(events))
	}
	return nil
}

// ready checks the condition of the import's current generation.
func ready(imp *mcsv1beta1.ServiceImport, status metav1.ConditionStatus, reason string) error {
	for _, c := range imp.Status.Conditions {
		if c.Type == "Ready" && c.Status == status && c.Reason == reason && c.ObservedGeneration == imp.Generation && !c.LastTransitionTime.IsZero() {
			return nil
		}
	}
	return fmt.Errorf("import %s of generation %d has conditions %+v, want Ready %s/%s", imp.Name, imp.Generation, imp.Status.Conditions, status, reason)
}

// served checks that the import has the addresses of its derived Service, and that both agree.
func (p *place) served(name string) error {
	imp, svc, err := p.both(name)
	if err != nil {
		return err
	}
	if len(imp.Spec.IPs) == 0 || !slices.Equal(imp.Spec.IPs, svc.Spec.ClusterIPs) {
		return fmt.Errorf("ips of %s are %v, those of its Service %v", name, imp.Spec.IPs, svc.Spec.ClusterIPs)
	}
	if !slices.Equal(imp.Spec.IPFamilies, svc.Spec.IPFamilies) {
		return fmt.Errorf("import %s has %v for %v", name, imp.Spec.IPFamilies, imp.Spec.IPs)
	}
	if svc.Spec.Type != corev1.ServiceTypeClusterIP || len(svc.Status.LoadBalancer.Ingress) > 0 {
		return fmt.Errorf("the Service of %s is a %s with ingress %v", name, svc.Spec.Type, svc.Status.LoadBalancer.Ingress)
	}
	return nil
}

// servedOn checks that ips contains a user's addresses, and that the Service has them as ingress.
func (p *place) servedOn(name string, vips ...string) error {
	imp, svc, err := p.both(name)
	if err != nil {
		return err
	}
	var ingress []string
	for _, in := range svc.Status.LoadBalancer.Ingress {
		ingress = append(ingress, in.IP)
	}
	if !slices.Equal(imp.Spec.IPs, vips) || !slices.Equal(ingress, vips) || svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return fmt.Errorf("ips of %s are %v, its %s answers on %v; want %v", name, imp.Spec.IPs, svc.Spec.Type, ingress, vips)
	}
	if _, aside := imp.Annotations[mcs.AnnotationVIPs]; aside {
		return fmt.Errorf("the addresses of %s are still put aside", name)
	}
	for _, port := range svc.Spec.Ports {
		if port.NodePort != 0 {
			return fmt.Errorf("the Service of %s takes nodePort %d", name, port.NodePort)
		}
	}
	return nil
}

// both returns the import and its derived Service, and checks what each records about the other.
func (p *place) both(name string) (*mcsv1beta1.ServiceImport, *corev1.Service, error) {
	imp, err := p.imp(name)
	if err != nil {
		return nil, nil, err
	}
	svc, err := p.svc(ownership.DerivedName(imp))
	if err != nil {
		return nil, nil, err
	}
	if imp.Annotations[mcs.AnnotationDerivedService] != svc.Name {
		return nil, nil, fmt.Errorf("import %s does not name %s: %v", name, svc.Name, imp.Annotations)
	}
	if recorded := imp.Annotations[mcs.AnnotationClusterIPs]; recorded != strings.Join(svc.Spec.ClusterIPs, ",") {
		return nil, nil, fmt.Errorf("import %s records %s, its Service has %s", name, recorded, svc.Spec.ClusterIPs)
	}
	if owners := svc.OwnerReferences; len(owners) != 1 || owners[0].UID != imp.UID || owners[0].BlockOwnerDeletion != nil || len(svc.Spec.Selector) > 0 {
		return nil, nil, fmt.Errorf("Service %s has owners %+v and selector %v", svc.Name, owners, svc.Spec.Selector)
	}
	return imp, svc, ready(imp, metav1.ConditionTrue, "Ready")
}

// gone checks that a headless import has no addresses and no derived Service.
func (p *place) gone(name string) error {
	imp, err := p.imp(name)
	if err != nil {
		return err
	}
	if len(imp.Spec.IPs)+len(imp.Spec.IPFamilies) > 0 {
		return fmt.Errorf("headless import %s still has %v", name, imp.Spec.IPs)
	}
	if svc, err := p.svc(ownership.DerivedName(imp)); !apierrors.IsNotFound(err) {
		return errors.Join(err, fmt.Errorf("headless import %s still has Service %q", name, svc.Name))
	}
	return ready(imp, metav1.ConditionTrue, "Ready")
}

// label checks that the endpoints of a slice belong to a Service, or to none if want is "". If the
// controller has a copy of the slice, the copy is checked.
func (p *place) label(slice, want string) error {
	var all discoveryv1.EndpointSliceList
	if err := p.List(p.ctx, &all, client.InNamespace(p.namespace)); err != nil {
		return err
	}
	own, copied, found := "", []string(nil), false
	for _, s := range all.Items {
		switch service := s.Labels[discoveryv1.LabelServiceName]; {
		case s.Name == slice:
			own, found = service, true
		case s.Annotations[mcs.AnnotationCopyOf] == slice:
			copied = append(copied, service)
		}
	}
	if !found || len(copied) > 1 || len(copied) == 1 && copied[0] != want || len(copied) == 0 && own != want {
		return fmt.Errorf("slice %s (found: %v) belongs to Service %q and its copies to %q; want %q", slice, found, own, copied, want)
	}
	return nil
}

func imported(name string, edits ...func(*mcsv1beta1.ServiceImport)) *mcsv1beta1.ServiceImport {
	imp := &mcsv1beta1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{{Name: "http", Port: 80}}},
	}
	for _, edit := range edits {
		edit(imp)
	}
	return imp
}

func withIPs(ips ...string) func(*mcsv1beta1.ServiceImport) {
	return func(imp *mcsv1beta1.ServiceImport) { imp.Spec.IPs = ips }
}

func ofType(kind mcsv1beta1.ServiceImportType) func(*mcsv1beta1.ServiceImport) {
	return func(imp *mcsv1beta1.ServiceImport) { imp.Spec.Type = kind }
}

func endpoints(name, service string, labels ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			mcsv1beta1.LabelServiceName: service, mcsv1beta1.LabelSourceCluster: "c2", discoveryv1.LabelManagedBy: "import.example.org"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.9.9.9"}}},
	}
	for i := 0; i < len(labels); i += 2 {
		slice.Labels[labels[i]] = labels[i+1]
	}
	return slice
}

func plainService(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9}}}}
}

func inNamespace(namespace string) func(*mcsv1beta1.ServiceImport) {
	return func(imp *mcsv1beta1.ServiceImport) { imp.Namespace = namespace }
}
