package rules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/controlplane"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if err := errors.Join(three.stop(), stopAll(pair.set)); err != nil {
		fmt.Fprintln(os.Stderr, "stop the clusters:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// three are the clusters that most tests share: joined all to all, each with its controller. c1 and c2 are dual-stack, c3 has IPv4
// only. c1 and c2 describe their Services to peers, c3 lets them read the Services.
var three shared

type shared struct {
	once sync.Once
	set  []*Cluster
	err  error
}

func (s *shared) start(t *testing.T) []*Cluster {
	t.Helper()
	controlplane.NotShort(t)
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 15*time.Minute)
		defer cancel()
		s.set, s.err = startSet(ctx, "10.1.0.0/16,fd00:1::/112", "10.2.0.0/16,fd00:2::/112", "10.3.0.0/16")
		for _, c := range s.set {
			if s.err == nil {
				s.err = c.Run(context.WithoutCancel(t.Context()), usual(c)...)
			}
		}
	})
	if s.err != nil {
		t.Fatalf("start three clusters: %v", s.err)
	}
	return s.set
}

// regions are those of the clusters that most tests share.
var regions = map[string]string{"c1": "eu", "c2": "eu", "c3": "us"}

// usual are the options of the controllers that most tests share.
func usual(c *Cluster) []func(*reconcile.Options) {
	return []func(*reconcile.Options){inRegion(c, regions[c.ID]), allowingNativeNames, older(c)}
}

// inRegion gives a cluster the property of a region.
func inRegion(c *Cluster, region string) func(*reconcile.Options) {
	return func(o *reconcile.Options) {
		var err error
		if o.Identity, err = reconcile.NewIdentity(c.Account, c.ID, "topology.kubernetes.io/region="+region); err != nil {
			panic(err) // the flags are constants
		}
	}
}

// older lets c3 announce as little as a controller of an earlier release.
func older(c *Cluster) func(*reconcile.Options) {
	return func(o *reconcile.Options) {
		if c.ID == "c3" {
			o.Version = ""
		}
	}
}

// allowingNativeNames lets exports ask for the Service's own name in the namespaces with a label.
func allowingNativeNames(o *reconcile.Options) {
	if err := o.NativeNames.UnmarshalText([]byte("native-names=yes")); err != nil {
		panic(err) // the selector is a constant
	}
}

func (s *shared) stop() error { return stopAll(s.set) }

func stopAll(set []*Cluster) error {
	var failed []error
	for _, c := range set {
		failed = append(failed, c.Stop())
	}
	return errors.Join(failed...)
}

// startSet starts clusters c1, c2, ... with these ranges of ClusterIPs, joined all to all, without controllers.
func startSet(ctx context.Context, cidrs ...string) ([]*Cluster, error) {
	set := make([]*Cluster, len(cidrs))
	failed := make([]error, len(cidrs))
	var wg sync.WaitGroup
	for i, cidr := range cidrs {
		wg.Go(func() {
			set[i], failed[i] = Start(ctx, fmt.Sprintf("c%d", i+1), controlplane.Options{ServiceCIDRs: cidr})
		})
	}
	wg.Wait()
	set = slices.DeleteFunc(set, func(c *Cluster) bool { return c == nil })
	for _, c := range set {
		for _, peer := range set {
			if c != peer {
				failed = append(failed, c.Join(ctx, peer.ID, peer.ReaderKubeconfig))
			}
		}
	}
	return set, errors.Join(failed...)
}

// stage is a namespace in some clusters, and what tests do in it.
type stage struct {
	*testing.T
	set       []*Cluster
	namespace string
}

// newStage makes the namespace in the clusters that are named by their place, in all unless given.
func newStage(t *testing.T, set []*Cluster, in ...int) *stage {
	t.Helper()
	s := &stage{T: t, set: set, namespace: controlplane.Namespace(t, set[0].Cluster)}
	if len(in) == 0 {
		in = []int{0, 1, 2}
	}
	for _, i := range in {
		if i > 0 {
			s.makeNamespace(i)
		}
	}
	return s
}

func (s *stage) makeNamespace(in int) {
	s.Helper()
	s.create(in, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
}

func (s *stage) create(in int, objects ...client.Object) {
	s.Helper()
	for _, obj := range objects {
		if _, cluster := obj.(*corev1.Namespace); !cluster {
			obj.SetNamespace(s.namespace)
		}
		if err := s.set[in].Admin.Create(s.Context(), obj); err != nil {
			s.Fatalf("create %T %s in %s: %v", obj, obj.GetName(), s.set[in].ID, err)
		}
	}
}

func (s *stage) delete(in int, objects ...client.Object) {
	s.Helper()
	for _, obj := range objects {
		if _, cluster := obj.(*corev1.Namespace); !cluster {
			obj.SetNamespace(s.namespace)
		}
		if err := s.set[in].Admin.Delete(s.Context(), obj); err != nil {
			s.Fatalf("delete %T %s in %s: %v", obj, obj.GetName(), s.set[in].ID, err)
		}
	}
}

func (s *stage) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

// edit reads, changes and writes an object, again after a conflict.
func edit[T client.Object](s *stage, in int, obj T, name string, change func(T)) {
	s.Helper()
	s.until("edit "+name, func() error {
		if err := s.set[in].Admin.Get(s.Context(), s.key(name), obj); err != nil {
			return err
		}
		change(obj)
		return s.set[in].Admin.Update(s.Context(), obj)
	})
}

func (s *stage) until(what string, condition func() error) {
	s.Helper()
	began := time.Now()
	controlplane.Eventually(s.T, what, condition)
	if d := time.Since(began); d > 2*time.Second {
		s.Logf("WAITED %v for %s", d, what)
	}
}

// export makes a Service with endpoints, and its ServiceExport.
func (s *stage) export(in int, svc *corev1.Service, addresses ...string) {
	s.Helper()
	s.create(in, svc)
	if len(addresses) > 0 {
		s.create(in, endpointsOf(svc, "", addresses...))
	}
	s.create(in, exportOf(svc.Name))
}

func exportOf(name string) *mcsv1beta1.ServiceExport {
	return &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func service(name string, edits ...func(*corev1.ServiceSpec)) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	for _, change := range edits {
		change(&svc.Spec)
	}
	return svc
}

func headless(spec *corev1.ServiceSpec) { spec.ClusterIP = corev1.ClusterIPNone }

func dualStack(spec *corev1.ServiceSpec) {
	spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
	spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
}

func onlyIPv6(spec *corev1.ServiceSpec) {
	spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
	spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
}

func withPorts(ports ...corev1.ServicePort) func(*corev1.ServiceSpec) {
	return func(spec *corev1.ServiceSpec) { spec.Ports = ports }
}

// endpointsOf is a slice as the cluster's own controller makes it: one port for each of the Service's, pods of hostname pod-0 and on.
func endpointsOf(svc *corev1.Service, suffix string, addresses ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: svc.Name + "-abc" + suffix, Labels: map[string]string{
			discoveryv1.LabelServiceName: svc.Name, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, p := range svc.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new(p.Name), Port: new(p.Port + 8000), Protocol: new(protocolOf(p))})
	}
	for i, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Hostname: new(fmt.Sprintf("pod-%d", i)), NodeName: new("node-1"), Zone: new("zone-a"),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: fmt.Sprintf("pod-%d", i)},
		})
	}
	return slice
}

func protocolOf(p corev1.ServicePort) corev1.Protocol {
	if p.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return p.Protocol
}

func (s *stage) imp(in int, name string) (*mcsv1beta1.ServiceImport, error) {
	imp := new(mcsv1beta1.ServiceImport)
	err := s.set[in].Admin.Get(s.Context(), s.key(name), imp)
	if err != nil {
		err = fmt.Errorf("import %s in %s: %w", name, s.set[in].ID, err)
	}
	return imp, err
}

// imported wants the import in a cluster, ready, from these clusters and with these endpoints' addresses.
func (s *stage) imported(in int, name string, clusters []string, addresses ...string) error {
	imp, err := s.imp(in, name)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("import %s in %s", name, s.set[in].ID)
	var from []string
	for _, c := range imp.Status.Clusters {
		from = append(from, c.Cluster)
	}
	if !slices.Equal(from, clusters) {
		return fmt.Errorf("%s is from %v; want %v", where, from, clusters)
	}
	if ready := meta.FindStatusCondition(imp.Status.Conditions, "Ready"); ready == nil || ready.Status != metav1.ConditionTrue {
		return fmt.Errorf("%s is not ready: %+v", where, ready)
	}
	if imp.Spec.Type == mcsv1beta1.ClusterSetIP && len(imp.Spec.IPs) == 0 || imp.Spec.Type == mcsv1beta1.Headless && len(imp.Spec.IPs) > 0 {
		return fmt.Errorf("%s, of type %s, has ips %v", where, imp.Spec.Type, imp.Spec.IPs)
	}
	got, err := s.endpoints(in, name, imp)
	if err != nil {
		return err
	}
	slices.Sort(addresses)
	if !slices.Equal(got, addresses) {
		return fmt.Errorf("%s has endpoints %v; want %v", where, got, addresses)
	}
	return nil
}

// endpoints are the addresses in the slices of an import, sorted. Each slice has to be as C32 to C36 and C41 say.
func (s *stage) endpoints(in int, name string, imp *mcsv1beta1.ServiceImport) (addresses []string, err error) {
	imported, err := s.set[in].Imported(s.Context(), s.key(name))
	if err != nil {
		return nil, err
	}
	derived := ""
	if imp.Spec.Type == mcsv1beta1.ClusterSetIP {
		derived = imp.Annotations[mcs.AnnotationDerivedService]
	}
	for source, all := range imported {
		for _, slice := range all {
			if got := slice.Labels[discoveryv1.LabelServiceName]; got != derived {
				return nil, fmt.Errorf("slice %s from %s leads to %q; want %q", slice.Name, source, got, derived)
			}
			if slice.Labels[discoveryv1.LabelManagedBy] != mcs.ControllerName || len(slice.OwnerReferences) != 1 || slice.OwnerReferences[0].UID != imp.UID {
				return nil, fmt.Errorf("slice %s has labels %v and owners %v", slice.Name, slice.Labels, slice.OwnerReferences)
			}
			for _, e := range slice.Endpoints {
				if (e.NodeName == nil) != (source != s.set[in].ID) || e.Zone == nil || e.Hostname == nil {
					return nil, fmt.Errorf("endpoint %+v of %s in %s", e, source, s.set[in].ID)
				}
				addresses = append(addresses, e.Addresses...)
			}
		}
	}
	slices.Sort(addresses)
	return addresses, nil
}

// nothing wants no import and no slice of a name in a cluster, nor a derived Service.
func (s *stage) nothing(in int, name string) error {
	if imp, err := s.imp(in, name); client.IgnoreNotFound(err) != nil || err == nil {
		return errors.Join(err, fmt.Errorf("import %s in %s is there: %v", name, s.set[in].ID, imp.Status))
	}
	imported, err := s.set[in].Imported(s.Context(), s.key(name))
	if err != nil || len(imported) > 0 {
		return errors.Join(err, fmt.Errorf("%s has slices of %s: %v", s.set[in].ID, name, imported))
	}
	var services corev1.ServiceList
	if err := s.set[in].Admin.List(s.Context(), &services, client.InNamespace(s.namespace), client.MatchingLabels{mcs.LabelManagedBy: mcs.ControllerName}); err != nil {
		return err
	}
	for _, svc := range services.Items {
		if slices.Contains(ownership.OwnerImports(&svc), name) {
			return fmt.Errorf("%s has Service %s", s.set[in].ID, svc.Name)
		}
	}
	return nil
}

// condition wants a condition of an export.
func (s *stage) condition(in int, name, kind string, status metav1.ConditionStatus, reason string) error {
	export := new(mcsv1beta1.ServiceExport)
	if err := s.set[in].Admin.Get(s.Context(), s.key(name), export); err != nil {
		return err
	}
	c := meta.FindStatusCondition(export.Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != export.Generation {
		return fmt.Errorf("export %s in %s has %+v; want %s %s %s", name, s.set[in].ID, c, kind, status, reason)
	}
	return nil
}

// healthy wants the three conditions of an export without fault.
func (s *stage) healthy(in int, name string) error {
	return errors.Join(
		s.condition(in, name, "Valid", metav1.ConditionTrue, "Valid"),
		s.condition(in, name, "Ready", metav1.ConditionTrue, "Ready"),
		s.condition(in, name, "Conflict", metav1.ConditionFalse, "NoConflicts"),
	)
}
