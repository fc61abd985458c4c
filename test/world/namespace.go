package world

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// Namespace is a namespace of one test, with the same name in each cluster.
type Namespace struct {
	*World
	Name string
}

// Namespace makes one in all clusters, or in those that are named. It goes with the test.
func (w *World) Namespace(in ...string) *Namespace {
	w.Helper()
	if len(in) == 0 {
		in = w.IDs()
	}
	ns := &Namespace{w, kube.Namespace(w, w.Cluster(in[0]).Cluster)}
	for _, id := range in[1:] {
		ns.AddTo(id)
	}
	return ns
}

// Called makes one with a chosen name.
func (w *World) Called(name string, in ...string) *Namespace {
	w.Helper()
	ns := &Namespace{w, name}
	for _, id := range in {
		ns.AddTo(id)
	}
	return ns
}

// System is the controller's own namespace.
func (w *World) System() *Namespace { return &Namespace{w, SystemNamespace} }

// AddTo makes the namespace in one more cluster.
func (n *Namespace) AddTo(id string) {
	n.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	n.Create(id, object)
	n.Cleanup(func() {
		if err := n.Admin(id).Delete(n.Late(), object); client.IgnoreNotFound(err) != nil {
			n.Logf("delete namespace %s of %s: %v", n.Name, id, err)
		}
	})
}

// For is the same for a subtest.
func (n *Namespace) For(t testing.TB) *Namespace { return &Namespace{n.World.For(t), n.Name} }

// Key is that of an object of the namespace.
func (n *Namespace) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: n.Name, Name: name}
}

// Admin may do everything in a cluster, past all caches.
func (w *World) Admin(id string) client.Client {
	w.Helper()
	return w.Cluster(id).Admin
}

// As is a client with an identity.
func (w *World) As(identity *rest.Config) client.WithWatch {
	w.Helper()
	c, err := client.NewWithWatch(identity, client.Options{Scheme: Scheme})
	w.Must(err)
	return c
}

// Create creates objects in a cluster.
func (n *Namespace) Create(id string, objects ...client.Object) {
	n.Helper()
	n.CreateAs(n.Admin(id), objects...)
}

// CreateAs does so with the rights of a client.
func (n *Namespace) CreateAs(by client.Client, objects ...client.Object) {
	n.Helper()
	for _, object := range objects {
		if err := n.Try(by, object); err != nil {
			n.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

// Try creates an object, which may be refused.
func (n *Namespace) Try(by client.Client, object client.Object) error {
	return by.Create(n.Context(), n.put(object))
}

// put gives an object the namespace, unless it has one or is in none.
func (n *Namespace) put(object client.Object) client.Object {
	if _, unscoped := object.(*corev1.Namespace); !unscoped && object.GetNamespace() == "" {
		object.SetNamespace(n.Name)
	}
	return object
}

// Apply creates objects in a cluster, or changes them, as `kubectl apply` does.
func (n *Namespace) Apply(id string, objects ...client.Object) {
	n.Helper()
	for _, object := range objects {
		n.Must(n.TryApply(id, object))
	}
}

// TryApply applies an object, which may be refused.
func (n *Namespace) TryApply(id string, object client.Object) error {
	object = n.put(object.DeepCopyObject().(client.Object))
	gvk, err := apiutil.GVKForObject(object, Scheme)
	if err != nil {
		return err
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	text, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	return n.Cluster(id).Apply(n.Context(), n.Name, string(text))
}

// Delete deletes objects in a cluster.
func (n *Namespace) Delete(id string, objects ...client.Object) {
	n.Helper()
	for _, object := range objects {
		if err := n.Admin(id).Delete(n.Context(), n.put(object)); err != nil {
			n.Fatalf("delete %T %s in %s: %v", object, object.GetName(), id, err)
		}
	}
}

// Edit reads, changes and writes an object in a cluster, again after a conflict.
func Edit[T client.Object](n *Namespace, id string, object T, name string, change func(T)) {
	n.Helper()
	EditAs(n, n.Admin(id), object, name, change)
}

// EditAs does so with the rights of a client.
func EditAs[T client.Object](n *Namespace, by client.Client, object T, name string, change func(T)) {
	n.Helper()
	n.Until("edit "+name, func() error {
		if err := by.Get(n.Context(), n.Key(name), object); err != nil {
			return err
		}
		change(object)
		return by.Update(n.Context(), object)
	})
}

// Label sets a label of the namespace.
func (n *Namespace) Label(id, key, value string) {
	n.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value))
	if err := n.Admin(id).Patch(n.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, patch); err != nil {
		n.Fatal(err)
	}
}

// Export creates a Service, its endpoints as the cluster's own controller does, and its ServiceExport.
func (n *Namespace) Export(id string, service *corev1.Service, addresses ...string) {
	n.Helper()
	n.Create(id, service)
	if len(addresses) > 0 {
		n.Create(id, Endpoints(service, "", addresses...))
	}
	n.Create(id, Export(service.Name))
}

// Live reads an object of the namespace, which has to be there.
func Live[T client.Object](n *Namespace, id string, object T, name string) T {
	n.Helper()
	if err := n.Admin(id).Get(n.Context(), n.Key(name), object); err != nil {
		n.Fatalf("read %T %s in %s: %v", object, name, id, err)
	}
	return object
}

// Becomes waits until an object of the namespace is as it should be. The object given is empty.
func Becomes[T client.Object](n *Namespace, id string, object T, name, what string, is func(T) bool) {
	n.Helper()
	n.Until(what, func() error {
		now := object.DeepCopyObject().(T)
		err := n.Admin(id).Get(n.Context(), n.Key(name), now)
		if err == nil && !is(now) {
			err = fmt.Errorf("%s in %s is %+v", name, id, now)
		}
		return err
	})
}

// Gone wants no object of a name.
func (n *Namespace) Gone(id string, object client.Object, name string) error {
	err := n.Admin(id).Get(n.Context(), n.Key(name), object)
	if err == nil {
		return fmt.Errorf("%T %s in %s is there: %v", object, name, id, object.GetLabels())
	}
	return client.IgnoreNotFound(err)
}

// MustImport is an import that has to be there.
func (n *Namespace) MustImport(id, name string) *mcsv1beta1.ServiceImport {
	n.Helper()
	return Live(n, id, new(mcsv1beta1.ServiceImport), name)
}

// Import reads an import.
func (n *Namespace) Import(id, name string) (*mcsv1beta1.ServiceImport, error) {
	imp := new(mcsv1beta1.ServiceImport)
	err := n.Admin(id).Get(n.Context(), n.Key(name), imp)
	if err != nil {
		err = fmt.Errorf("import %s in %s: %w", name, id, err)
	}
	return imp, err
}

// Imported wants the import in a cluster, ready, from these clusters and with these endpoints' addresses.
func (n *Namespace) Imported(id, name string, clusters []string, addresses ...string) error {
	imp, err := n.Import(id, name)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("import %s in %s", name, id)
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
	got, err := n.Endpoints(id, name, imp)
	if err != nil {
		return err
	}
	slices.Sort(addresses)
	if !slices.Equal(got, addresses) {
		return fmt.Errorf("%s has endpoints %v; want %v", where, got, addresses)
	}
	return nil
}

// Everywhere waits until each cluster has imported a name from these clusters, with these endpoints' addresses.
func (n *Namespace) Everywhere(name string, clusters []string, addresses ...string) {
	n.Helper()
	for _, id := range n.IDs() {
		n.Until("import "+name, func() error { return n.Imported(id, name, clusters, addresses...) })
	}
}

// Nowhere waits until no cluster has anything of a name.
func (n *Namespace) Nowhere(name string) {
	n.Helper()
	for _, id := range n.IDs() {
		n.Until("no "+name, func() error { return n.Nothing(id, name) })
	}
}

// Says waits for a condition of an import with a reason, and with words in its message; without a reason, for none.
func (n *Namespace) Says(id, name, kind, reason, words string) {
	n.Helper()
	n.Until("the condition "+kind, func() error { return n.Said(id, name, kind, reason, words) })
}

// Said wants it now.
func (n *Namespace) Said(id, name, kind, reason, words string) error {
	imp, err := n.Import(id, name)
	if err != nil {
		return err
	}
	c := meta.FindStatusCondition(imp.Status.Conditions, kind)
	if c == nil && reason != "" || c != nil && (c.Reason != reason || !strings.Contains(c.Message, words)) {
		return fmt.Errorf("%s of import %s in %s is %+v; want %s, and %q", kind, name, id, c, reason, words)
	}
	return nil
}

// Endpoints are the addresses in the slices of an import, sorted. Each slice has to be as C32 to C36 and C41 say.
func (n *Namespace) Endpoints(id, name string, imp *mcsv1beta1.ServiceImport) (addresses []string, err error) {
	imported, err := n.Cluster(id).Imported(n.Context(), n.Key(name))
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
				if (e.NodeName == nil) != (source != id) || e.Zone == nil || e.Hostname == nil {
					return nil, fmt.Errorf("endpoint %+v of %s in %s", e, source, id)
				}
				addresses = append(addresses, e.Addresses...)
			}
		}
	}
	slices.Sort(addresses)
	return addresses, nil
}

// SliceOf is the only slice of an import that came from a cluster.
func (n *Namespace) SliceOf(id, name, from string) *discoveryv1.EndpointSlice {
	n.Helper()
	imported, err := n.Cluster(id).Imported(n.Context(), n.Key(name))
	if err != nil || len(imported[from]) != 1 {
		n.Fatalf("the slices of %s in %s are %v: %v", name, id, imported, err)
	}
	return &imported[from][0]
}

// Nothing wants no import and no slice of a name in a cluster, nor a derived Service.
func (n *Namespace) Nothing(id, name string) error {
	if imp, err := n.Import(id, name); client.IgnoreNotFound(err) != nil || err == nil {
		return errors.Join(err, fmt.Errorf("import %s in %s is there: %v", name, id, imp.Status))
	}
	imported, err := n.Cluster(id).Imported(n.Context(), n.Key(name))
	if err != nil || len(imported) > 0 {
		return errors.Join(err, fmt.Errorf("%s has slices of %s: %v", id, name, imported))
	}
	var services corev1.ServiceList
	if err := n.Admin(id).List(n.Context(), &services, client.InNamespace(n.Name), client.MatchingLabels{mcs.LabelManagedBy: mcs.ControllerName}); err != nil {
		return err
	}
	for _, svc := range services.Items {
		if slices.Contains(ownership.OwnerImports(&svc), name) {
			return fmt.Errorf("%s has Service %s", id, svc.Name)
		}
	}
	return nil
}

// Condition wants a condition of an export.
func (n *Namespace) Condition(id, name, kind string, status metav1.ConditionStatus, reason string) error {
	export := new(mcsv1beta1.ServiceExport)
	if err := n.Admin(id).Get(n.Context(), n.Key(name), export); err != nil {
		return err
	}
	c := meta.FindStatusCondition(export.Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != export.Generation {
		return fmt.Errorf("export %s in %s has %+v; want %s %s %s", name, id, c, kind, status, reason)
	}
	return nil
}

// Healthy wants the three conditions of an export without fault.
func (n *Namespace) Healthy(id, name string) error {
	return errors.Join(
		n.Condition(id, name, "Valid", metav1.ConditionTrue, "Valid"),
		n.Condition(id, name, "Ready", metav1.ConditionTrue, "Ready"),
		n.Condition(id, name, "Conflict", metav1.ConditionFalse, "NoConflicts"),
	)
}
