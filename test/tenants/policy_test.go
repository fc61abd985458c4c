package tenants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/clusterset"
	"github.com/clusterset-dns/multicluster/test/ours"
)

// karmada is an account that an administrator adds to the writers of deploy/policy.
const karmada = "system:serviceaccount:karmada-cluster:karmada-c1"

// TestPolicies: with deploy/policy the tenants who may write slices and imports do nothing to what the controller keeps. The controllers
// go on, and so does another implementation that is on the list.
func TestPolicies(t *testing.T) {
	s := newStage(t)
	tenant := s.tenant(s.c1, "edit", slicesToo, importsToo)
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
	forged := slice("forged", map[string]string{labelManager: controller}, "10.66.0.1")
	if err := s.try(tenant, forged); !refusedFor(err, "is not the multicluster-controller") {
		t.Errorf("a slice of the controller's mark: %v; want it refused", err)
	}
	for label, value := range map[string]string{labelService: "", labelLeadsTo: "", labelManager: "me"} {
		if err := s.relabel(tenant, label, value); !refusedFor(err, "endpoints") && !refusedFor(err, "is not the multicluster-controller") {
			t.Errorf("to edit %s of the controller's slices: %v; want it refused", label, err)
		}
	}
	spy := service("spy")
	spy.Labels = map[string]string{labelService: "db", labelCluster: "c1"}
	if err := s.try(tenant, spy); !refusedFor(err, "may not give endpoints") {
		t.Errorf("a Service of these labels: %v; want it refused", err)
	}
	s.create(tenant, service("plain"), slice("plain", map[string]string{labelLeadsTo: "plain"}, "10.9.3.1")) // his own stay his

	s.choosesNoAddress(tenant)

	other := s.account("karmada-cluster", "karmada-c1", slicesToo)
	s.create(other, slice("theirs", map[string]string{labelService: "byhand", labelCluster: "c2", labelManager: "endpointslice-controller.karmada.io"}, "10.9.4.1"))
	if err := s.try(other, slice("theirs-forged", map[string]string{labelService: "db", labelManager: controller}, "10.66.0.1")); !refusedFor(err, "is not the multicluster-controller") {
		t.Errorf("the controller's mark by another implementation: %v; want it refused", err)
	}
	kubernetes := s.account("kube-system", "endpointslice-controller", slicesToo)
	s.create(kubernetes, slice("copied", map[string]string{labelLeadsTo: "derived-by-the-user", labelManager: "endpointslice-controller.k8s.io"}, "10.9.4.2"))
}

// choosesNoAddress has a tenant try to give an import addresses.
func (s *stage) choosesNoAddress(tenant clientOf) {
	s.Helper()
	const refusal = "may not choose the addresses"
	if err := s.try(tenant, importOf("vip", mcsv1beta1.ClusterSetIP, "192.0.2.1")); !refusedFor(err, refusal) {
		s.Errorf("an import with ips: %v; want it refused", err)
	}
	kept := importOf("kept", mcsv1beta1.ClusterSetIP)
	kept.Annotations = map[string]string{"clusterset-dns.io/vips": "192.0.2.1"}
	if err := s.try(tenant, kept); !refusedFor(err, refusal) {
		s.Errorf("an import with ips in its annotation: %v; want it refused", err)
	}
	s.create(tenant, importOf("byhand", mcsv1beta1.Headless), importOf("none", mcsv1beta1.ClusterSetIP))
	s.answersOfImport("none") // the controller's own writes of ips are allowed
	for what, patch := range map[string]string{
		"ips":            `{"spec":{"ips":["192.0.2.1"]}}`,
		"the annotation": `{"metadata":{"annotations":{"clusterset-dns.io/vips":"192.0.2.1"}}}`,
	} {
		imp := importOf("none", mcsv1beta1.ClusterSetIP)
		imp.Namespace = s.namespace
		if err := tenant.Patch(s.Context(), imp, client.RawPatch("application/merge-patch+json", []byte(patch))); !refusedFor(err, refusal) {
			s.Errorf("to change %s: %v; want it refused", what, err)
		}
	}
	edit(s, tenant, "none", new(mcsv1beta1.ServiceImport), func(imp *mcsv1beta1.ServiceImport) { imp.Labels = map[string]string{"his": "own"} })
}

// enforce applies deploy/policy, with one account more on its lists, until the test's end. The API server heeds policies a moment after
// they are written, and after they are deleted.
func (s *stage) enforce(tenant clientOf) {
	s.Helper()
	var text string
	for _, name := range []string{"endpoints.yaml", "imports.yaml"} {
		file, err := os.ReadFile(filepath.Join(ours.Root(), "deploy", "policy", name))
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

// probes has a tenant try what each policy refuses.
func (s *stage) probes(tenant clientOf, refused bool) error {
	for _, object := range []client.Object{
		slice("probe", map[string]string{labelService: "probe"}, "10.9.1.1"), importOf("probe", mcsv1beta1.ClusterSetIP, "192.0.2.1"),
	} {
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

// relabel has somebody try to change a label of the slice that the controller made for foo; "" takes it away.
func (s *stage) relabel(by clientOf, label, value string) error {
	var all endpointSlices
	if err := s.c1.Admin.List(s.Context(), &all, client.InNamespace(s.namespace), client.MatchingLabels{labelService: "foo"}); err != nil || len(all.Items) != 1 {
		return orElse(err, "there is not one slice of foo")
	}
	edited := all.Items[0].DeepCopy()
	edited.Labels[label] = value
	if value == "" {
		delete(edited.Labels, label)
	}
	return by.Update(s.Context(), edited)
}

// account is a client of an account of a namespace of its own, with rights in the stage's.
func (s *stage) account(namespace, name string, rules ...rbacv1.PolicyRule) clientOf {
	s.Helper()
	config, _, err := s.c1.ServiceAccount(s.Context(), namespace, name)
	if err != nil {
		s.Fatal(err)
	}
	role := &rbacv1.Role{Rules: rules}
	role.Name = name
	binding := &rbacv1.RoleBinding{
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}
	binding.Name = name
	s.create(s.c1.Admin, role, binding)
	by, err := client.New(config, client.Options{Scheme: clusterset.Scheme})
	if err != nil {
		s.Fatal(err)
	}
	return by
}

// TestPoliciesNameTheControllersAccount: the account in deploy/policy is the one of deploy/controller.
func TestPoliciesNameTheControllersAccount(t *testing.T) {
	s := newStage(t)
	text, err := ours.Kubectl(t.Context(), s.c1.Cluster, "kustomize", "deploy/policy")
	if err != nil {
		t.Fatal(err)
	}
	account := "system:serviceaccount:" + clusterset.SystemNamespace + ":" + controller
	if n := strings.Count(text, "'"+account+"'"); n != 2 {
		t.Errorf("%s is there %d times; want it once in each policy", account, n)
	}
}
