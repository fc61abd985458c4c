package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
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
	s := newTenants(t)
	tenant := s.tenant("c1", "edit", slicesToo, importsToo, servicesToo, policiesToo)
	s.readsPolicies("tenant")
	s.enforce(tenant)

	s.Export("c1", world.Service("db", world.Headless), "10.9.1.1")
	s.Export("c2", world.Service("foo"), "10.9.2.1")
	s.answers("db", "NOERROR 10.9.1.1")
	s.answersOfImport("foo")
	s.Until("endpoints come, too", func() error { return s.leads("c1", labelLeadsTo, "derived-foo", "10.9.2.1") })

	imp := s.MustImport("c1", "foo")
	for what, spy := range spies(imp) {
		s.try("a slice "+what, noEndpoints, s.Try(tenant, spy))
	}
	s.creations(tenant)
	s.editions(tenant)
	s.statuses(tenant)
	s.deletions(tenant)
	s.keepsHisOwn(tenant)
	s.choosesNoAddress(tenant)
	s.takesNoImport(tenant)

	s.lets()
	s.administers()
	s.Delete("c1", world.Export("db")) // the controller deletes an import that no cluster exports any more
	s.Until("the import is gone", func() error { return s.Gone("c1", new(mcsv1beta1.ServiceImport), "db") })
}

// try takes what came of an attempt, each of which one clause of a policy alone refuses, so that no clause is there for nothing. Words are
// of the refusal, and permitted where it must succeed.
func (s *tenants) try(what, words string, err error) {
	s.Helper()
	switch {
	case words == permitted:
		if err != nil {
			s.Errorf("%s: %v", what, err)
		}
	case !refusedFor(err, words):
		s.Errorf("%s: %v; want it refused: he %s", what, err, words)
	}
}

const (
	permitted   = ""
	noEndpoints = "may not give endpoints"
	noMark      = "is not the multicluster-controller"
	noDerived   = "may not write derived Services"
	noTaking    = "may not take a ServiceImport from the multicluster-controller"
	noAddresses = "may not choose the addresses"
	noService   = "may not choose the derived Service"
)

// of gives an object the stage's namespace, for requests other than its creation.
func of[T client.Object](s *tenants, object T) T {
	object.SetNamespace(s.Name)
	return object
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

func (s *tenants) creations(tenant client.Client) {
	generated := world.Service("")
	generated.GenerateName = "derived-"
	for _, c := range []struct {
		what, words string
		object      client.Object
	}{
		{"a slice that names an import", noEndpoints, world.Slice("x", map[string]string{labelService: "foo"}, "10.66.0.1")},
		{"a slice that names a cluster", noEndpoints, world.Slice("x", map[string]string{labelCluster: "c1"}, "10.66.0.1")},
		{"a slice of a derived Service", noEndpoints, world.Slice("x", map[string]string{labelLeadsTo: "derived-foo"}, "10.66.0.1")},
		{"a slice of the controller's mark", noMark, world.Slice("x", map[string]string{labelManager: controller}, "10.66.0.1")},
		{"a Service that names an import", noEndpoints, labelled(world.Service("x"), labelService, "db")},
		{"Endpoints that name an import", noEndpoints, labelled(endpointsOf("x"), labelService, "db")},
		{"a Service of the controller's label", noDerived, labelled(world.Service("x"), labelKeeper, controller)},
		{"a Service of a derived one's name", noDerived, world.Service("derived-x")},
		{"a slice of the controller's label", noDerived, labelled(world.Slice("x", nil, "10.66.0.1"), labelKeeper, controller)},
		{"Endpoints of the controller's label", noDerived, labelled(endpointsOf("x"), labelKeeper, controller)},
		{"a Service of such a name that the API server chooses", noDerived, generated},
		{"Endpoints of a derived Service", noDerived, endpointsOf("derived-foo")},
	} {
		s.try(c.what, c.words, s.Try(tenant, c.object))
	}
}

// editions remove what each object has, or change which Service it belongs to.
func (s *tenants) editions(tenant client.Client) {
	const unlabelled = `{"metadata":{"labels":null}}`
	for _, e := range []struct {
		what, words, patch string
		object             client.Object
	}{
		{"to take the label that names an import", noEndpoints, unlabelled, world.Slice("named", map[string]string{labelService: "byhand"}, "10.9.4.3")},
		{"to take the label that names a cluster", noEndpoints, unlabelled, world.Slice("of-c2", map[string]string{labelCluster: "c2"}, "10.9.4.3")},
		{"to lead elsewhere", noEndpoints, `{"metadata":{"labels":{"kubernetes.io/service-name":"plain"}}}`,
			world.Slice("led", map[string]string{labelLeadsTo: "derived-other"}, "10.9.4.3")},
		{"to take the controller's mark", noMark, unlabelled, labelled(world.Service("marked"), labelManager, controller)},
		{"to take the controller's label", noDerived, unlabelled, labelled(world.Service("kept"), labelKeeper, controller)},
		{"to change the addresses of Endpoints", noDerived, `{"subsets":null}`, endpointsOf("derived-other")},
		{"to give a Service the controller's label", noDerived, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"multicluster-controller"}}}`,
			world.Service("relabelled")},
	} {
		s.Create("c1", e.object)
		s.try(e.what, e.words, s.patch(tenant, e.object, e.patch))
	}
	derived := of(s, world.Service("derived-foo"))
	s.try("to have a derived Service select pods", noDerived, s.patch(tenant, derived, `{"spec":{"selector":{"app":"his"}}}`))
}

// statuses write the metadata of Services by their status.
func (s *tenants) statuses(tenant client.Client) {
	const labels = `{"metadata":{"labels":{"%s":"%s"}}}`
	plain, derived := world.Service("of-a-status"), of(s, world.Service("derived-foo"))
	s.Create("c1", plain)
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
		s.try("by a Service's status, "+e.what, e.words, s.patchStatus(tenant, e.object, e.patch))
	}
}

func (s *tenants) patchStatus(by client.Client, object client.Object, patch string) error {
	return by.Status().Patch(s.Context(), object.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", []byte(patch)))
}

func (s *tenants) patch(by client.Client, object client.Object, patch string) error {
	return by.Patch(s.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// deletions are of Services whose address is free then.
func (s *tenants) deletions(tenant client.Client) {
	custom := labelled(world.Service("custom"), labelKeeper, controller)
	s.Create("c1", custom)
	s.try("to delete a derived Service", noDerived, tenant.Delete(s.Context(), of(s, world.Service("derived-foo"))))
	s.try("to delete a Service of another derived name", noDerived, tenant.Delete(s.Context(), custom))
}

// keepsHisOwn: with the policy, a tenant can write slices that belong to no import, and delete
// slices that they cannot write.
func (s *tenants) keepsHisOwn(tenant client.Client) {
	s.Helper()
	plain, endpoints := world.Service("plain"), endpointsOf("plain")
	s.CreateAs(tenant, plain, endpoints, labelled(world.Service("packed"), labelKeeper, "Helm"),
		world.Slice("plain", map[string]string{labelLeadsTo: "plain", labelManager: "me"}, "10.9.3.1"), world.Slice("derived-plain", nil, "10.9.3.2"))
	labels, mark := labelled(world.Service("labels"), labelService, "byhand"), labelled(world.Service("mark"), labelManager, controller)
	s.Create("c1", labels, mark)
	world.EditAs(s.Namespace, tenant, plain, "plain", func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"app": "his"} })
	for _, object := range []client.Object{endpoints, plain, labels, mark} {
		s.try("to delete "+object.GetName(), permitted, tenant.Delete(s.Context(), object))
	}
}

// lets: another implementation that is on the list continues, and so do Kubernetes' own
// controllers, with either form of account.
func (s *tenants) lets() {
	s.Helper()
	other, who := s.account("c1", "karmada-cluster", "karmada-c1")
	s.permit("c1", "karmada-c1", who, slicesToo, servicesToo)
	s.CreateAs(other, world.Slice("theirs", map[string]string{labelService: "byhand", labelCluster: "c2", labelManager: "endpointslice-controller.karmada.io"}, "10.9.4.1"))
	theirs := world.Service("derived-byhand")
	s.CreateAs(other, theirs, endpointsOf("derived-theirs"))
	s.try("to delete a derived Service by another implementation", permitted, other.Delete(s.Context(), theirs))
	forged := world.Slice("theirs-forged", map[string]string{labelService: "db", labelManager: controller}, "10.66.0.1")
	s.try("the controller's mark by another implementation", noMark, s.Try(other, forged))
	s.balances()
	account, who := s.account("c1", "kube-system", "endpointslice-controller")
	s.permit("c1", "account", who, slicesToo, servicesToo, importsToo)
	const manager = "system:kube-controller-manager"
	s.permit("c1", "user", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: manager}, slicesToo, servicesToo, importsToo)
	for name, kubernetes := range map[string]client.Client{"account": account, "user": s.impersonating(manager)} {
		s.CreateAs(kubernetes, world.Slice("copied-"+name, map[string]string{labelLeadsTo: "derived-by-the-user", labelManager: "endpointslice-controller.k8s.io"}, "10.9.4.2"))
		collected := labelled(world.Import("collected-"+name, mcsv1beta1.Headless), labelKeeper, controller)
		collected.Finalizers = []string{held} // or the controller is faster: no cluster exports it
		s.Create("c1", collected)
		s.try("to delete the controller's import by Kubernetes' own "+name, permitted, kubernetes.Delete(s.Context(), collected))
		world.EditAs(s.Namespace, s.Admin("c1"), collected, collected.Name, func(imp *mcsv1beta1.ServiceImport) { imp.Finalizers = nil })
		s.CreateAs(kubernetes, endpointsOf("derived-"+name), labelled(world.Service("collected-"+name), labelKeeper, controller), labelled(world.Slice("mark-"+name, nil, "10.9.4.2"), labelManager, controller))
	}
}

// balances: who is on no list, and gives load balancers their addresses, may do so for any Service.
func (s *tenants) balances() {
	s.Helper()
	balancer, who := s.account("c1", "metallb-system", "metallb")
	s.permit("c1", "metallb", who, may("", "services/status"))
	svc := world.Service("balanced") // of the derived name, it would be deleted: nobody exports it
	svc.Labels = map[string]string{labelService: "byhand", labelManager: controller, labelKeeper: controller}
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Create("c1", svc)
	const patch = `{"metadata":{"finalizers":["service.kubernetes.io/load-balancer-cleanup"]},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.8"}]}}}`
	s.try("a load balancer's address", permitted, s.patchStatus(balancer, svc, patch))
	world.EditAs(s.Namespace, s.Admin("c1"), svc, svc.Name, func(svc *corev1.Service) { svc.Finalizers = nil })
}

// administers: users with permission to change the policies are administrators, whatever their
// group is.
func (s *tenants) administers() {
	s.Helper()
	const group = "example:cluster-admins"
	s.bindCluster("cluster-admin", rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group})
	by := s.impersonating("administrator", group)
	s.Until("the tenant has the rights", func() error {
		return by.Create(s.Context(), namespaceOf("administrators"), client.DryRunAll)
	})
	s.CreateAs(by, world.Import("administrators", mcsv1beta1.ClusterSetIP, "192.0.2.9"),
		world.Slice("administrators", map[string]string{labelService: "administrators", labelManager: controller}, "10.9.5.1"))
	s.try("to delete the derived Service by an administrator", permitted, by.Delete(s.Context(), of(s, world.Service("derived-foo"))))
	s.try("to delete the import by an administrator", permitted, by.Delete(s.Context(), of(s, world.Import("foo", mcsv1beta1.ClusterSetIP))))
}

// impersonating is the client of a user.
func (s *tenants) impersonating(user string, groups ...string) client.Client {
	s.Helper()
	config := rest.CopyConfig(s.Cluster("c1").Config)
	config.Impersonate.UserName, config.Impersonate.Groups = user, groups
	return s.As(config)
}

// readsPolicies permits an account of the stage's namespace to read policies. This makes the
// account no administrator.
func (s *tenants) readsPolicies(account string) {
	s.Helper()
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{policiesToo}}
	role.Name, role.Rules[0].Verbs = s.Name+"-policies", []string{"get", "list", "watch"}
	s.Create("c1", role)
	s.Cleanup(func() { _ = s.Admin("c1").Delete(s.Late(), role) })
	s.bindCluster(role.Name, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.Name, Name: account})
}

// bindCluster gives a ClusterRole in the whole cluster, until the test's end.
func (s *tenants) bindCluster(role string, who rbacv1.Subject) {
	s.Helper()
	binding := &rbacv1.ClusterRoleBinding{Subjects: []rbacv1.Subject{who}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}
	binding.Name = s.Name + "-" + role
	s.Create("c1", binding)
	s.Cleanup(func() { _ = s.Admin("c1").Delete(s.Late(), binding) })
}

// takesNoImport has a tenant try to take from the controller an import that it keeps: its endpoints would go, and with it its address.
func (s *tenants) takesNoImport(tenant client.Client) {
	s.Helper()
	kept := of(s, world.Import("foo", mcsv1beta1.ClusterSetIP))
	s.try("to delete an import", noTaking, tenant.Delete(s.Context(), kept))
	s.try("to delete all imports", noTaking, tenant.DeleteAllOf(s.Context(), kept, client.InNamespace(s.Name)))
	for _, patch := range []string{
		`{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"me"}}}`,
		`{"metadata":{"labels":{"karmada.io/managed":"true"}}}`, `{"metadata":{"annotations":{"work.karmada.io/name":"x"}}}`,
	} {
		s.try("to change an import by "+patch, noTaking, s.patch(tenant, kept, patch))
	}
	s.try("the tenant's own label on the controller's import", permitted,
		s.patch(tenant, kept, `{"metadata":{"labels":{"his":"own","karmada.io/managed":"false"},"annotations":{"work.karmada.io/name":""}}}`))
	his, karmadas := world.Import("his", mcsv1beta1.ClusterSetIP), labelled(world.Import("karmadas", mcsv1beta1.ClusterSetIP), labelKeeper, controller)
	karmadas.Labels["karmada.io/managed"] = "true"
	s.Create("c1", his, karmadas, labelled(world.Import("theirs", mcsv1beta1.ClusterSetIP), labelKeeper, "theirs"))
	for _, imp := range []*mcsv1beta1.ServiceImport{his, karmadas} {
		s.try("to delete an import that the controller does not keep, "+imp.Name, permitted, tenant.Delete(s.Context(), imp))
	}
}

// choosesNoAddress lets a tenant try to give addresses, or a Service of a chosen name, to an
// import.
func (s *tenants) choosesNoAddress(tenant client.Client) {
	s.Helper()
	s.try("an import with ips", noAddresses, s.Try(tenant, world.Import("vip", mcsv1beta1.ClusterSetIP, "192.0.2.1")))
	for annotation, words := range map[string]string{"clusterset-dns.io/vips": noAddresses, "multicluster.kubernetes.io/derived-service": noService} {
		annotated := world.Import("annotated", mcsv1beta1.ClusterSetIP)
		annotated.Annotations = map[string]string{annotation: "192-0-2-1"}
		s.try("an import with "+annotation, words, s.Try(tenant, annotated))
	}
	s.CreateAs(tenant, world.Import("byhand", mcsv1beta1.Headless), world.Import("none", mcsv1beta1.ClusterSetIP))
	s.answersOfImport("none") // the controller's own writes of ips are allowed
	none := of(s, world.Import("none", mcsv1beta1.ClusterSetIP))
	for patch, words := range map[string]string{
		`{"spec":{"ips":["192.0.2.1"]}}`:                                                    noAddresses,
		`{"metadata":{"annotations":{"clusterset-dns.io/vips":"192.0.2.1"}}}`:               noAddresses,
		`{"metadata":{"annotations":{"multicluster.kubernetes.io/derived-service":"his"}}}`: noService,
	} {
		s.try("to change an import by "+patch, words, s.patch(tenant, none, patch))
	}
	world.EditAs(s.Namespace, tenant, new(mcsv1beta1.ServiceImport), "none", func(imp *mcsv1beta1.ServiceImport) { imp.Labels = map[string]string{"his": "own"} })
	s.empties(tenant)
}

// empties: a tenant can remove what they cannot choose, also if an administrator chose it.
func (s *tenants) empties(tenant client.Client) {
	s.Helper()
	chosen := world.Import("chosen", mcsv1beta1.ClusterSetIP, "192.0.2.7")
	chosen.Annotations = map[string]string{"clusterset-dns.io/vips": "192.0.2.7", "multicluster.kubernetes.io/derived-service": "derived-other"}
	s.Create("c1", chosen)
	s.try("other addresses than an administrator chose", noAddresses,
		s.patch(tenant, chosen, `{"metadata":{"annotations":{"clusterset-dns.io/vips":"192.0.2.8"}}}`))
	for _, patch := range []string{
		`{"metadata":{"labels":{"his":"own"}}}`, `{"spec":{"ips":null}}`,
		`{"metadata":{"annotations":{"clusterset-dns.io/vips":null,"multicluster.kubernetes.io/derived-service":null}}}`,
	} {
		s.try("to change an import that an administrator made by "+patch, permitted, s.patch(tenant, chosen, patch))
	}
}

// enforce applies deploy/policy, with one account more on its lists, until the test's end. The API server heeds policies a moment after
// they are written, and after they are deleted.
func (s *tenants) enforce(tenant client.Client) {
	s.Helper()
	var text string
	for _, name := range []string{"endpoints.yaml", "imports.yaml"} {
		file, err := os.ReadFile(filepath.Join(binaries.Root(), "deploy", "policy", name))
		s.Must(err)
		text += string(file) + "---\n"
	}
	const list = "[variables.controller]"
	if strings.Count(text, list) != 1 {
		s.Fatalf("%s is not there once:\n%s", list, text)
	}
	text = strings.Replace(text, list, "[variables.controller, '"+karmada+"']", 1)
	s.Must(s.Cluster("c1").Apply(s.Context(), "", text))
	s.Cleanup(func() {
		s.Check(s.Cluster("c1").Delete(s.Late(), "", text))
		s.Until("the policies are gone", func() error { return s.probes(tenant, false) })
	})
	s.Until("the policies are there", func() error { return s.probes(tenant, true) })
}

// probes lets a tenant try what several clauses of each policy refuse: if one clause is missing,
// its tests fail.
func (s *tenants) probes(tenant client.Client, refused bool) error {
	imp := world.Import("probe", mcsv1beta1.ClusterSetIP, "192.0.2.1")
	imp.Annotations = map[string]string{"multicluster.kubernetes.io/derived-service": "his"}
	for _, object := range []client.Object{world.Slice("probe", map[string]string{labelService: "probe", labelManager: controller, labelKeeper: controller}, "10.9.1.1"), imp} {
		object.SetNamespace(s.Name)
		if err := tenant.Create(s.Late(), object, client.DryRunAll); refusedFor(err, "") != refused {
			return fmt.Errorf("refused has to be %t: %w", refused, err)
		}
	}
	return nil
}

// refusedFor is true for a refusal by a policy, with these words in it.
func refusedFor(err error, words string) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") && strings.Contains(err.Error(), words)
}

// TestPoliciesNameTheControllersAccount: the account in deploy/policy is the one of deploy/controller.
func TestPoliciesNameTheControllersAccount(t *testing.T) {
	s := newTenants(t)
	text, err := binaries.Kubectl(t.Context(), s.Cluster("c1").Cluster, "kustomize", "deploy/policy")
	s.Must(err)
	account := "system:serviceaccount:" + world.SystemNamespace + ":" + controller
	if n := strings.Count(text, "'"+account+"'"); n != 2 {
		t.Errorf("%s is there %d times; want it once in each policy", account, n)
	}
	if n := strings.Count(text, "failurePolicy: Fail"); n != 2 {
		t.Errorf("%d policies refuse what they cannot judge; want both to", n)
	}
}
