package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
)

// refuse lets the API server of a cluster refuse, in the stage's namespace, what does not fulfil an expression of CEL, and waits until it
// refuses what the probe tries.
func (s *stage) refuse(in int, group, resource, operation, unless string, probe func() error) (allow func()) {
	s.Helper()
	policy := fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s-%[4]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    resourceRules: [{apiGroups: [%[2]s], apiVersions: ["*"], resources: [%[3]s], operations: [%[5]s]}]
  validations: [{expression: %[6]q, message: refused by a test}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s-%[4]s}
spec: {policyName: %[1]s-%[4]s, validationActions: [Deny]}
`, s.namespace, group, resource, strings.ToLower(operation), operation, unless)
	if err := s.set[in].Apply(s.Context(), "", policy); err != nil {
		s.Fatal(err)
	}
	allow = func() { _ = s.set[in].Delete(s.Context(), "", policy) }
	s.Cleanup(allow)
	s.until("refused", func() error {
		err := probe()
		if err == nil || !strings.Contains(err.Error(), "refused by a test") {
			return fmt.Errorf("not yet: %w", err)
		}
		return nil
	})
	return allow
}

// A refusal of the API server is reported in the object's status. Nothing else is written
// meanwhile. When the write is permitted, it is made.
func TestRefusedUpdateOfAnImport(t *testing.T) {
	s := newStage(t, three.start(t))
	s.export(0, service("foo", withPorts(corev1.ServicePort{Name: "http", Port: 82})), "10.9.1.1")
	s.until("imported", func() error { return s.imported(1, "foo", []string{"c1"}, "10.9.1.1") })
	allow := s.refuse(1, "multicluster.x-k8s.io", "serviceimports", "UPDATE", "object.spec.ports.all(p, p.port != 81)", func() error {
		imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "foo"}}
		return s.set[1].Admin.Patch(t.Context(), imp, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"ports":[{"port":81}]}}`)), client.DryRunAll)
	})
	edit(s, 0, new(corev1.Service), "foo", func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 81 })
	s.until("said", func() error {
		imp, err := s.imp(1, "foo")
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(imp.Status.Conditions, "Ready")
		if ready == nil || ready.Reason != desired.ReasonImportRefused || !strings.Contains(ready.Message, "refused by a test") {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
	versions := func() string {
		imp, err := s.imp(1, "foo")
		svc := new(corev1.Service)
		if err := errors.Join(err, s.set[1].Admin.Get(t.Context(), s.key("derived-foo"), svc)); err != nil {
			t.Fatal(err)
		}
		return imp.ResourceVersion + " " + svc.ResourceVersion
	}
	before := versions()
	s.export(0, service("another"), "10.9.1.2")
	s.until("others go on", func() error { return s.imported(1, "another", []string{"c1"}, "10.9.1.2") })
	if after := versions(); after != before {
		t.Errorf("the import and its Service are still written: %s, then %s", before, after)
	}
	allow()
	s.until("done at last", func() error {
		edit(s, 1, new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) { // Else it would be tried in a minute.
			imp.Labels["tried"] = imp.ResourceVersion
		})
		imp, err := s.imp(1, "foo")
		if err == nil && imp.Spec.Ports[0].Port != 81 {
			err = fmt.Errorf("its port is %d", imp.Spec.Ports[0].Port)
		}
		return errors.Join(err, s.imported(1, "foo", []string{"c1"}, "10.9.1.1"))
	})
}

// C8: an export is not Ready where peers do not find its endpoints.
func TestRefusedSlicesOfAnExport(t *testing.T) {
	s := newStage(t, three.start(t))
	probe := endpointsOf(service("probe"), "", "10.9.1.1")
	probe.Namespace, probe.Labels[mcsv1beta1.LabelSourceCluster] = s.namespace, "c1"
	s.refuse(0, "discovery.k8s.io", "endpointslices", "CREATE", "!has(object.metadata.labels) || !('multicluster.kubernetes.io/source-cluster' in object.metadata.labels)",
		func() error { return s.set[0].Admin.Create(t.Context(), probe.DeepCopy(), client.DryRunAll) })
	s.export(0, service("foo"), "10.9.1.1")
	s.until("said", func() error { return s.condition(0, "foo", "Ready", metav1.ConditionFalse, "Failed") })
	if err := s.condition(0, "foo", "Valid", metav1.ConditionTrue, "Valid"); err != nil {
		t.Error(err)
	}
}

// A foreign slice is never deleted: one with the name of a controller's slice stays unchanged, and
// the import reports it.
func TestForeignSliceOfOurName(t *testing.T) {
	s := newStage(t, three.start(t), 0, 1)
	s.export(0, service("foo"), "10.9.1.1")
	s.until("imported", func() error { return s.imported(0, "foo", []string{"c1"}, "10.9.1.1") })
	by, err := s.set[0].Imported(t.Context(), s.key("foo"))
	if err != nil || len(by["c1"]) != 1 {
		t.Fatalf("slices: %v %v", by, err)
	}
	name := by["c1"][0].Name
	s.delete(0, exportOf("foo"))
	s.until("unexported", func() error { return s.nothing(1, "foo") })
	theirs := endpointsOf(service("foo"), "", "10.8.8.8")
	theirs.Name, theirs.Labels = name, map[string]string{"is": "theirs"}
	s.create(1, theirs)
	s.create(0, exportOf("foo"))
	s.until("said", func() error {
		imp, err := s.imp(1, "foo")
		if err != nil {
			return err
		}
		if ready := meta.FindStatusCondition(imp.Status.Conditions, "Ready"); ready == nil || !strings.Contains(ready.Message, "endpoints of c1") {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
	live := new(discoveryv1.EndpointSlice)
	if err := s.set[1].Admin.Get(t.Context(), s.key(name), live); err != nil || live.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("theirs is %+v: %v", live, err)
	}
}
