package rbac

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
	"github.com/clusterset-dns/multicluster/test/rules"
)

// karmada is an account that an administrator adds to the writers of deploy/policy.
const karmada = "system:serviceaccount:karmada-cluster:karmada-c1"

// servicesToo is what the role edit has, the right to write Endpoints, as clusters older than Kubernetes 1.22 gave it, and the status of
// Services, as controllers of load balancers have it.
var servicesToo = may("", "services", "services/status", "endpoints")

// policiesToo changes no rights in a namespace: policies are cluster-scoped.
var policiesToo = may("admissionregistration.k8s.io", "validatingadmissionpolicies")

// TestPolicies: with deploy/policy, tenants with permission to write slices and imports cannot
// change what the controller manages. The controllers continue, and so does another implementation
// that is on the list.
func TestPolicies(t *testing.T) {
	s := newStage(t)
	tenant := s.tenant(s.c1, "edit", slicesToo, importsToo, servicesToo, policiesToo)
	s.readsPolicies("tenant")
	s.enforce(tenant)

	s.export(s.c1, headless("db"), "10.9.1.1")
	s.export(s.c2, service("foo"), "10.9.2.1")
	s.answers("db", "NOERROR 10.9.1.1")
	s.answersOfImport("foo")
	s.until("endpoints come, too", func() error { return s.leads(s.c1, labelLeadsTo, "derived-foo", "10.9.2.1") })

	imp, err := s.imp(s.c1, "foo")
	if err != nil {
		t.Fatal(err)
	}
	for what, spy := range spies(imp) {
		if err := s.try(tenant, spy); !refusedFor(err, "may not give endpoints") {
			t.Errorf("a slice %s: %v; want it refused", what, err)
		}
	}
	s.givesNoEndpoints(tenant)
	s.keepsHisOwn(tenant)
	s.choosesNoAddress(tenant)
	s.takesNoImport(tenant)

	s.lets()
	s.administers()
	s.withdraws()
}

// attempt is what a tenant tries, and a word of the refusal.
type attempt struct {
	what, words string
	do          func() error
}

const (
	noEndpoints = "may not give endpoints"
	noMark      = "is not the multicluster-controller"
	noDerived   = "may not write derived Services"
	noTaking    = "may not take a ServiceImport from the multicluster-controller"
)

// givesNoEndpoints has a tenant try each way to an endpoint of an import alone, so that no clause is there for nothing.
func (s *stage) givesNoEndpoints(tenant clientOf) {
	s.Helper()
	for _, a := range slices.Concat(s.creations(tenant), s.editions(tenant), s.statuses(tenant), s.deletions(tenant)) {
		if err := a.do(); !refusedFor(err, a.words) {
			s.Errorf("%s: %v; want it refused: he %s", a.what, err, a.words)
		}
	}
}

// labelled gives an object a label.
func labelled[T client.Object](object T, label, value string) T {
	object.SetLabels(map[string]string{label: value})
	return object
}

// endpointsOf is the older form of slices, which Kubernetes copies to slices with its labels.
func endpointsOf(name string) *corev1.Endpoints { //nolint:staticcheck // it is what is tested
	e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: name}} //nolint:staticcheck // as above
	e.Subsets = []corev1.EndpointSubset{{                             //nolint:staticcheck // as above
		Addresses: []corev1.EndpointAddress{{IP: "10.66.0.1"}}, Ports: []corev1.EndpointPort{{Name: "http", Port: 8080}},
	}}
	return e
}

func (s *stage) creations(tenant clientOf) []attempt {
	generated := service("")
	generated.GenerateName = "derived-"
	var all []attempt
	for _, c := range []struct {
		what, words string
		object      client.Object
	}{
		{"a slice that names an import", noEndpoints, slice("x", map[string]string{labelService: "foo"}, "10.66.0.1")},
		{"a slice that names a cluster", noEndpoints, slice("x", map[string]string{labelCluster: "c1"}, "10.66.0.1")},
		{"a slice of a derived Service", noEndpoints, slice("x", map[string]string{labelLeadsTo: "derived-foo"}, "10.66.0.1")},
		{"a slice of the controller's mark", noMark, slice("x", map[string]string{labelManager: controller}, "10.66.0.1")},
		{"a Service that names an import", noEndpoints, labelled(service("x"), labelService, "db")},
		{"Endpoints that name an import", noEndpoints, labelled(endpointsOf("x"), labelService, "db")},
		{"a Service of the controller's label", noDerived, labelled(service("x"), labelKeeper, controller)},
		{"a Service of a derived one's name", noDerived, service("derived-x")},
		{"a slice of the controller's label", noDerived, labelled(slice("x", nil, "10.66.0.1"), labelKeeper, controller)},
		{"Endpoints of the controller's label", noDerived, labelled(endpointsOf("x"), labelKeeper, controller)},
		{"a Service of such a name that the API server chooses", noDerived, generated},
		{"Endpoints of a derived Service", noDerived, endpointsOf("derived-foo")},
	} {
		all = append(all, attempt{c.what, c.words, func() error { return s.try(tenant, c.object) }})
	}
	return all
}

// editions remove what each object has, or change which Service it belongs to.
func (s *stage) editions(tenant clientOf) []attempt {
	const unlabelled = `{"metadata":{"labels":null}}`
	var all []attempt
	for _, e := range []struct {
		what, words, patch string
		object             client.Object
	}{
		{"to take the label that names an import", noEndpoints, unlabelled, slice("named", map[string]string{labelService: "byhand"}, "10.9.4.3")},
		{"to take the label that names a cluster", noEndpoints, unlabelled, slice("of-c2", map[string]string{labelCluster: "c2"}, "10.9.4.3")},
		{"to lead elsewhere", noEndpoints, `{"metadata":{"labels":{"kubernetes.io/service-name":"plain"}}}`,
			slice("led", map[string]string{labelLeadsTo: "derived-other"}, "10.9.4.3")},
		{"to take the controller's mark", noMark, unlabelled, labelled(service("marked"), labelManager, controller)},
		{"to take the controller's label", noDerived, unlabelled, labelled(service("kept"), labelKeeper, controller)},
		{"to change the addresses of Endpoints", noDerived, `{"subsets":null}`, endpointsOf("derived-other")},
	} {
		s.create(s.c1.Admin, e.object)
		all = append(all, attempt{e.what, e.words, func() error { return s.patch(tenant, e.object, e.patch) }})
	}
	plain := service("relabelled")
	s.create(s.c1.Admin, plain)
	derived := service("derived-foo")
	derived.Namespace = s.namespace
	const selector = `{"spec":{"selector":{"app":"his"}}}`
	return append(all,
		attempt{"to give a Service the controller's label", noDerived, func() error {
			return s.patch(tenant, plain, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"multicluster-controller"}}}`)
		}},
		attempt{"to have a derived Service select pods", noDerived, func() error { return s.patch(tenant, derived, selector) }})
}

// statuses write the metadata of Services by their status.
func (s *stage) statuses(tenant clientOf) []attempt {
	const labels = `{"metadata":{"labels":{"%s":"%s"}}}`
	plain, derived := service("of-a-status"), service("derived-foo")
	derived.Namespace = s.namespace
	s.create(s.c1.Admin, plain)
	var all []attempt
	for _, e := range []struct {
		what, words, patch string
		object             *corev1.Service
	}{
		{"the label that names an import", noEndpoints, fmt.Sprintf(labels, labelService, "byhand"), plain},
		{"the controller's mark", noMark, fmt.Sprintf(labels, labelManager, controller), plain},
		{"the controller's label", noDerived, fmt.Sprintf(labels, labelKeeper, controller), plain},
		{"a derived Service without its label", noDerived, `{"metadata":{"labels":null}}`, derived},
		{"a derived Service without its owner", noDerived, `{"metadata":{"ownerReferences":null}}`, derived},
	} {
		all = append(all, attempt{"by a Service's status, " + e.what, e.words, func() error { return s.patchStatus(tenant, e.object, e.patch) }})
	}
	return all
}

func (s *stage) patchStatus(by clientOf, object client.Object, patch string) error {
	return by.Status().Patch(s.Context(), object.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", []byte(patch)))
}

func (s *stage) patch(by clientOf, object client.Object, patch string) error {
	return by.Patch(s.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// deletions are of Services whose address is free then.
func (s *stage) deletions(tenant clientOf) []attempt {
	var all []attempt
	for what, service := range map[string]*corev1.Service{
		"to delete a derived Service":                 service("derived-foo"),
		"to delete a Service of another derived name": labelled(service("custom"), labelKeeper, controller),
	} {
		service.Namespace = s.namespace
		if service.Name == "custom" {
			s.create(s.c1.Admin, service)
		}
		all = append(all, attempt{what, noDerived, func() error { return tenant.Delete(s.Context(), service) }})
	}
	return all
}

// keepsHisOwn: with the policy, a tenant can write slices that belong to no import, and delete
// slices that they cannot write.
func (s *stage) keepsHisOwn(tenant clientOf) {
	s.Helper()
	plain, of := service("plain"), endpointsOf("plain")
	s.create(tenant, plain, of, labelled(service("packed"), labelKeeper, "Helm"),
		slice("plain", map[string]string{labelLeadsTo: "plain", labelManager: "me"}, "10.9.3.1"), slice("derived-plain", nil, "10.9.3.2"))
	labels, mark := labelled(service("labels"), labelService, "byhand"), labelled(service("mark"), labelManager, controller)
	s.create(s.c1.Admin, labels, mark)
	edit(s, tenant, "plain", plain, func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"app": "his"} })
	for _, object := range []client.Object{of, plain, labels, mark} {
		if err := tenant.Delete(s.Context(), object); err != nil {
			s.Errorf("to delete %T %s: %v", object, object.GetName(), err)
		}
	}
}

// lets: another implementation that is on the list continues, and so do Kubernetes' own
// controllers, with either form of account.
func (s *stage) lets() {
	s.Helper()
	other := s.account("karmada-cluster", "karmada-c1", slicesToo, servicesToo)
	s.create(other, slice("theirs", map[string]string{labelService: "byhand", labelCluster: "c2", labelManager: "endpointslice-controller.karmada.io"}, "10.9.4.1"))
	theirs := service("derived-byhand")
	s.create(other, theirs, endpointsOf("derived-theirs"))
	if err := other.Delete(s.Context(), theirs); err != nil {
		s.Errorf("to delete a derived Service by another implementation: %v", err)
	}
	if err := s.try(other, slice("theirs-forged", map[string]string{labelService: "db", labelManager: controller}, "10.66.0.1")); !refusedFor(err, noMark) {
		s.Errorf("the controller's mark by another implementation: %v; want it refused", err)
	}
	s.balances()
	for name, kubernetes := range map[string]clientOf{
		"account": s.account("kube-system", "endpointslice-controller", slicesToo, servicesToo, importsToo),
		"user":    s.user("system:kube-controller-manager", slicesToo, servicesToo, importsToo),
	} {
		s.create(kubernetes, slice("copied-"+name, map[string]string{labelLeadsTo: "derived-by-the-user", labelManager: "endpointslice-controller.k8s.io"}, "10.9.4.2"))
		collected := labelled(importOf("collected-"+name, mcsv1beta1.Headless), labelKeeper, controller)
		collected.Finalizers = []string{held} // or the controller is faster: no cluster exports it
		s.create(s.c1.Admin, collected)
		if err := kubernetes.Delete(s.Context(), collected); err != nil {
			s.Errorf("to delete the controller's import by Kubernetes' own %s: %v", name, err)
		}
		edit(s, s.c1.Admin, collected.Name, collected, func(imp *mcsv1beta1.ServiceImport) { imp.Finalizers = nil })
		s.create(kubernetes, endpointsOf("derived-"+name), labelled(service("collected-"+name), labelKeeper, controller), labelled(slice("mark-"+name, nil, "10.9.4.2"), labelManager, controller))
	}
}

// balances: who is on no list, and gives load balancers their addresses, may do so for any Service.
func (s *stage) balances() {
	s.Helper()
	balancer := s.account("metallb-system", "metallb", may("", "services/status"))
	svc := service("derived-balanced")
	svc.Labels = map[string]string{labelService: "byhand", labelManager: controller, labelKeeper: controller}
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.create(s.c1.Admin, svc)
	const patch = `{"metadata":{"finalizers":["service.kubernetes.io/load-balancer-cleanup"]},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.8"}]}}}`
	if err := s.patchStatus(balancer, svc, patch); err != nil {
		s.Errorf("a load balancer's address: %v", err)
	}
	edit(s, s.c1.Admin, svc.Name, svc, func(svc *corev1.Service) { svc.Finalizers = nil })
}

// administers: users with permission to change the policies are administrators, whatever their
// group is.
func (s *stage) administers() {
	s.Helper()
	const group = "example:cluster-admins"
	s.bindCluster("cluster-admin", rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group})
	config := rest.CopyConfig(s.c1.Config)
	config.Impersonate.UserName, config.Impersonate.Groups = "administrator", []string{group}
	by := s.clientFor(config)
	s.until("the tenant has the rights", func() error {
		return by.Create(s.Context(), namespaceOf("administrators"), client.DryRunAll)
	})
	s.create(by, importOf("administrators", mcsv1beta1.ClusterSetIP, "192.0.2.9"),
		slice("administrators", map[string]string{labelService: "administrators", labelManager: controller}, "10.9.5.1"))
	imp, derived := importOf("foo", mcsv1beta1.ClusterSetIP), service("derived-foo")
	imp.Namespace, derived.Namespace = s.namespace, s.namespace
	for what, err := range map[string]error{"the derived Service": by.Delete(s.Context(), derived), "the import": by.Delete(s.Context(), imp)} {
		if err != nil {
			s.Errorf("to delete %s by an administrator: %v", what, err)
		}
	}
}

// withdraws: the controller deletes an import that no cluster exports any more.
func (s *stage) withdraws() {
	s.Helper()
	export := exportOf("db")
	export.Namespace = s.namespace
	if err := s.c1.Admin.Delete(s.Context(), export); err != nil {
		s.Fatal(err)
	}
	s.until("the import is gone", func() error {
		_, err := s.imp(s.c1, "db")
		if apierrors.IsNotFound(err) {
			return nil
		}
		return orElse(err, "it is there")
	})
}

// readsPolicies permits an account of the stage's namespace to read policies. This makes the
// account no administrator.
func (s *stage) readsPolicies(account string) {
	s.Helper()
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{policiesToo}}
	role.Name, role.Rules[0].Verbs = s.namespace+"-policies", []string{"get", "list", "watch"}
	s.create(s.c1.Admin, role)
	s.Cleanup(func() { _ = s.c1.Admin.Delete(contextOf(s.T), role) })
	s.bindCluster(role.Name, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: account})
}

// bindCluster gives a ClusterRole in the whole cluster, until the test's end.
func (s *stage) bindCluster(role string, who rbacv1.Subject) {
	s.Helper()
	binding := &rbacv1.ClusterRoleBinding{Subjects: []rbacv1.Subject{who}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}
	binding.Name = s.namespace + "-" + role
	s.create(s.c1.Admin, binding)
	s.Cleanup(func() { _ = s.c1.Admin.Delete(contextOf(s.T), binding) })
}

// takesNoImport has a tenant try to take from the controller an import that it keeps: its endpoints would go, and with it its address.
func (s *stage) takesNoImport(tenant clientOf) {
	s.Helper()
	kept := importOf("foo", mcsv1beta1.ClusterSetIP)
	kept.Namespace = s.namespace
	all := []attempt{
		{"to delete an import", noTaking, func() error { return tenant.Delete(s.Context(), kept) }},
		{"to delete all imports", noTaking, func() error { return tenant.DeleteAllOf(s.Context(), kept, client.InNamespace(s.namespace)) }},
	}
	for _, patch := range []string{
		`{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"me"}}}`,
		`{"metadata":{"labels":{"karmada.io/managed":"true"}}}`, `{"metadata":{"annotations":{"work.karmada.io/name":"x"}}}`,
	} {
		all = append(all, attempt{"to change an import by " + patch, noTaking, func() error { return s.patch(tenant, kept, patch) }})
	}
	for _, a := range all {
		if err := a.do(); !refusedFor(err, a.words) {
			s.Errorf("%s: %v; want it refused: he %s", a.what, err, a.words)
		}
	}
	if err := s.patch(tenant, kept, `{"metadata":{"labels":{"his":"own","karmada.io/managed":"false"},"annotations":{"work.karmada.io/name":""}}}`); err != nil {
		s.Errorf("the tenant's own label on the controller's import: %v", err)
	}
	his, karmadas := importOf("his", mcsv1beta1.ClusterSetIP), labelled(importOf("karmadas", mcsv1beta1.ClusterSetIP), labelKeeper, controller)
	karmadas.Labels["karmada.io/managed"] = "true"
	s.create(s.c1.Admin, his, karmadas, labelled(importOf("theirs", mcsv1beta1.ClusterSetIP), labelKeeper, "theirs"))
	for _, imp := range []*mcsv1beta1.ServiceImport{his, karmadas} {
		if err := tenant.Delete(s.Context(), imp); err != nil {
			s.Errorf("to delete an import that the controller does not keep, %s: %v", imp.Name, err)
		}
	}
}

// choosesNoAddress lets a tenant try to give addresses, or a Service of a chosen name, to an
// import.
func (s *stage) choosesNoAddress(tenant clientOf) {
	s.Helper()
	const noAddresses, noService = "may not choose the addresses", "may not choose the derived Service"
	if err := s.try(tenant, importOf("vip", mcsv1beta1.ClusterSetIP, "192.0.2.1")); !refusedFor(err, noAddresses) {
		s.Errorf("an import with ips: %v; want it refused", err)
	}
	for annotation, words := range map[string]string{"clusterset-dns.io/vips": noAddresses, "multicluster.kubernetes.io/derived-service": noService} {
		annotated := importOf("annotated", mcsv1beta1.ClusterSetIP)
		annotated.Annotations = map[string]string{annotation: "192-0-2-1"}
		if err := s.try(tenant, annotated); !refusedFor(err, words) {
			s.Errorf("an import with %s: %v; want it refused", annotation, err)
		}
	}
	s.create(tenant, importOf("byhand", mcsv1beta1.Headless), importOf("none", mcsv1beta1.ClusterSetIP))
	s.answersOfImport("none") // the controller's own writes of ips are allowed
	none := importOf("none", mcsv1beta1.ClusterSetIP)
	none.Namespace = s.namespace
	for patch, words := range map[string]string{
		`{"spec":{"ips":["192.0.2.1"]}}`:                                                    noAddresses,
		`{"metadata":{"annotations":{"clusterset-dns.io/vips":"192.0.2.1"}}}`:               noAddresses,
		`{"metadata":{"annotations":{"multicluster.kubernetes.io/derived-service":"his"}}}`: noService,
	} {
		if err := s.patch(tenant, none, patch); !refusedFor(err, words) {
			s.Errorf("to change an import by %s: %v; want it refused", patch, err)
		}
	}
	edit(s, tenant, "none", new(mcsv1beta1.ServiceImport), func(imp *mcsv1beta1.ServiceImport) { imp.Labels = map[string]string{"his": "own"} })
	s.empties(tenant)
}

// empties: a tenant can remove what they cannot choose, also if an administrator chose it.
func (s *stage) empties(tenant clientOf) {
	s.Helper()
	chosen := importOf("chosen", mcsv1beta1.ClusterSetIP, "192.0.2.7")
	chosen.Annotations = map[string]string{"clusterset-dns.io/vips": "192.0.2.7", "multicluster.kubernetes.io/derived-service": "derived-other"}
	s.create(s.c1.Admin, chosen)
	if err := s.patch(tenant, chosen, `{"metadata":{"annotations":{"clusterset-dns.io/vips":"192.0.2.8"}}}`); !refusedFor(err, "may not choose the addresses") {
		s.Errorf("other addresses than an administrator chose: %v; want it refused", err)
	}
	for _, patch := range []string{
		`{"metadata":{"labels":{"his":"own"}}}`, `{"spec":{"ips":null}}`,
		`{"metadata":{"annotations":{"clusterset-dns.io/vips":null,"multicluster.kubernetes.io/derived-service":null}}}`,
	} {
		if err := s.patch(tenant, chosen, patch); err != nil {
			s.Errorf("to change an import that an administrator made by %s: %v", patch, err)
		}
	}
}

// enforce applies deploy/policy, with one account more on its lists, until the test's end. The API server heeds policies a moment after
// they are written, and after they are deleted.
func (s *stage) enforce(tenant clientOf) {
	s.Helper()
	var text string
	for _, name := range []string{"endpoints.yaml", "imports.yaml"} {
		file, err := os.ReadFile(filepath.Join(binaries.Root(), "deploy", "policy", name))
		if err != nil {
			s.Fatal(err)
		}
		text += string(file) + "---\n"
	}
	const list = "[variables.controller]"
	if strings.Count(text, list) != 1 {
		s.Fatalf("%s is not there once:\n%s", list, text)
	}
	text = strings.Replace(text, list, "[variables.controller, '"+karmada+"']", 1)
	if err := s.c1.Apply(s.Context(), "", text); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := s.c1.Delete(contextOf(s.T), "", text); err != nil {
			s.Error(err)
		}
		s.until("the policies are gone", func() error { return s.probes(tenant, false) })
	})
	s.until("the policies are there", func() error { return s.probes(tenant, true) })
}

// probes lets a tenant try what several clauses of each policy refuse: if one clause is missing,
// its tests fail.
func (s *stage) probes(tenant clientOf, refused bool) error {
	imp := importOf("probe", mcsv1beta1.ClusterSetIP, "192.0.2.1")
	imp.Annotations = map[string]string{"multicluster.kubernetes.io/derived-service": "his"}
	for _, object := range []client.Object{slice("probe", map[string]string{labelService: "probe", labelManager: controller, labelKeeper: controller}, "10.9.1.1"), imp} {
		object.SetNamespace(s.namespace)
		if err := tenant.Create(contextOf(s.T), object, client.DryRunAll); refusedFor(err, "") != refused {
			return orElse(err, "not refused yet")
		}
	}
	return nil
}

// refusedFor is true for a refusal by a policy, with these words in it.
func refusedFor(err error, words string) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") && strings.Contains(err.Error(), words)
}

// account is a client of an account of a namespace of its own, with rights in the stage's.
func (s *stage) account(namespace, name string, rules ...rbacv1.PolicyRule) clientOf {
	s.Helper()
	config, _, err := s.c1.ServiceAccount(s.Context(), namespace, name)
	if err != nil {
		s.Fatal(err)
	}
	s.bind(name, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}, rules)
	return s.clientFor(config)
}

// user is a client of a user with rights in the stage's namespace.
func (s *stage) user(name string, rules ...rbacv1.PolicyRule) clientOf {
	s.Helper()
	s.bind("user", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}, rules)
	config := rest.CopyConfig(s.c1.Config)
	config.Impersonate.UserName = name
	return s.clientFor(config)
}

// bind gives rights in the stage's namespace.
func (s *stage) bind(name string, who rbacv1.Subject, rules []rbacv1.PolicyRule) {
	s.Helper()
	role := &rbacv1.Role{Rules: rules}
	role.Name = name
	binding := &rbacv1.RoleBinding{Subjects: []rbacv1.Subject{who}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}}
	binding.Name = name
	s.create(s.c1.Admin, role, binding)
}

func (s *stage) clientFor(config *rest.Config) clientOf {
	s.Helper()
	by, err := client.New(config, client.Options{Scheme: rules.Scheme})
	if err != nil {
		s.Fatal(err)
	}
	return by
}

// TestPoliciesNameTheControllersAccount: the account in deploy/policy is the one of deploy/controller.
func TestPoliciesNameTheControllersAccount(t *testing.T) {
	s := newStage(t)
	text, err := binaries.Kubectl(t.Context(), s.c1.Cluster, "kustomize", "deploy/policy")
	if err != nil {
		t.Fatal(err)
	}
	account := "system:serviceaccount:" + rules.SystemNamespace + ":" + controller
	if n := strings.Count(text, "'"+account+"'"); n != 2 {
		t.Errorf("%s is there %d times; want it once in each policy", account, n)
	}
	if n := strings.Count(text, "failurePolicy: Fail"); n != 2 {
		t.Errorf("%d policies refuse what they cannot judge; want both to", n)
	}
}
