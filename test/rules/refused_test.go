package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/world"
)

// refuse lets the API server of a cluster refuse, in the stage's namespace, what does not fulfil an expression of CEL, and waits until it
// refuses what the probe tries.
func refuse(s *world.Namespace, id, group, resource, operation, unless string, probe func() error) (allow func()) {
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
`, s.Name, group, resource, strings.ToLower(operation), operation, unless)
	s.Must(s.Cluster(id).Apply(s.Context(), "", policy))
	allow = func() { _ = s.Cluster(id).Delete(s.Context(), "", policy) }
	s.Cleanup(allow)
	s.Until("refused", func() error {
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
	s := world.Three(t).Namespace()
	s.Export("c1", world.Service("foo", world.Ports(corev1.ServicePort{Name: "http", Port: 82})), "10.9.1.1")
	s.Until("imported", func() error { return s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1") })
	allow := refuse(s, "c2", "multicluster.x-k8s.io", "serviceimports", "UPDATE", "object.spec.ports.all(p, p.port != 81)", func() error {
		imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "foo"}}
		return s.Admin("c2").Patch(t.Context(), imp, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"ports":[{"port":81}]}}`)), client.DryRunAll)
	})
	world.Edit(s, "c1", new(corev1.Service), "foo", func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 81 })
	s.Says("c2", "foo", "Ready", desired.ReasonImportRefused, "refused by a test")
	before := versionsOf(s, "c2", "foo")
	s.Export("c1", world.Service("another"), "10.9.1.2")
	s.Until("others go on", func() error { return s.Imported("c2", "another", []string{"c1"}, "10.9.1.2") })
	if after := versionsOf(s, "c2", "foo"); after != before {
		t.Errorf("the import and its Service are still written: %s, then %s", before, after)
	}
	allow()
	s.Until("done at last", func() error {
		world.Edit(s, "c2", new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) { // Else it would be tried in a minute.
			imp.Labels["tried"] = imp.ResourceVersion
		})
		imp, err := s.Import("c2", "foo")
		if err == nil && imp.Spec.Ports[0].Port != 81 {
			err = fmt.Errorf("its port is %d", imp.Spec.Ports[0].Port)
		}
		return errors.Join(err, s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1"))
	})
}

// versionsOf changes with each write of an import and its derived Service.
func versionsOf(s *world.Namespace, id, name string) string {
	s.Helper()
	return s.MustImport(id, name).ResourceVersion + " " + world.Live(s, id, new(corev1.Service), "derived-"+name).ResourceVersion
}

// C8: an export is not Ready where peers do not find its endpoints.
func TestRefusedSlicesOfAnExport(t *testing.T) {
	s := world.Three(t).Namespace()
	probe := world.Endpoints(world.Service("probe"), "", "10.9.1.1")
	probe.Namespace, probe.Labels[mcsv1beta1.LabelSourceCluster] = s.Name, "c1"
	refuse(s, "c1", "discovery.k8s.io", "endpointslices", "CREATE", "!has(object.metadata.labels) || !('multicluster.kubernetes.io/source-cluster' in object.metadata.labels)",
		func() error { return s.Admin("c1").Create(t.Context(), probe.DeepCopy(), client.DryRunAll) })
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Until("said", func() error { return s.Condition("c1", "foo", "Ready", metav1.ConditionFalse, "Failed") })
	s.Check(s.Condition("c1", "foo", "Valid", metav1.ConditionTrue, "Valid"))
}

// A foreign slice is never deleted: one with the name of a controller's slice stays unchanged, and
// the import reports it.
func TestForeignSliceOfOurName(t *testing.T) {
	s := world.Three(t).Namespace("c1", "c2")
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Until("imported", func() error { return s.Imported("c1", "foo", []string{"c1"}, "10.9.1.1") })
	name := s.SliceOf("c1", "foo", "c1").Name
	s.Delete("c1", world.Export("foo"))
	s.Until("unexported", func() error { return s.Nothing("c2", "foo") })
	theirs := world.Endpoints(world.Service("foo"), "", "10.8.8.8")
	theirs.Name, theirs.Labels = name, map[string]string{"is": "theirs"}
	s.Create("c2", theirs)
	s.Create("c1", world.Export("foo"))
	s.Says("c2", "foo", "Ready", "Ready", "endpoints of c1")
	if live := world.Live(s, "c2", new(discoveryv1.EndpointSlice), name); live.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("theirs is %+v", live)
	}
}

// TestAnotherWriterOfStatus is a regression test for the status of an export: another writer sets it back each time. Both wrote as fast as they
// could, and nothing told of it. The story mutated is for that of an import.
func TestAnotherWriterOfStatus(t *testing.T) {
	for what, setBack := range map[string]func(*metav1.Condition){
		"a condition":    func(c *metav1.Condition) { c.Status, c.Reason = metav1.ConditionFalse, "Theirs" },
		"its generation": func(c *metav1.Condition) { c.ObservedGeneration = 0 },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := world.Three(t).Namespace("c1")
			s.Export("c1", world.Service("foo"), "10.9.1.1")
			s.Until("well", func() error { return s.Healthy("c1", "foo") })
			ours := func(export *mcsv1beta1.ServiceExport) *metav1.Condition {
				c := meta.FindStatusCondition(export.Status.Conditions, "Ready")
				if c == nil || c.Reason != "Ready" || c.ObservedGeneration == 0 {
					return nil
				}
				return c
			}
			ctx, stop := context.WithCancel(t.Context())
			reverts := make(chan int, 1)
			go func() {
				times := 0
				for tick := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-tick.C {
					export := new(mcsv1beta1.ServiceExport)
					_ = s.Admin("c1").Get(ctx, s.Key("foo"), export)
					if c := ours(export); c != nil {
						setBack(c)
						if s.Admin("c1").Status().Update(ctx, export) == nil {
							times++
						}
					}
				}
				reverts <- times
			}()
			s.Until("told", func() error { return told(s, "c1", "ServiceExport", "foo", desired.ReasonContested) })
			alone := func(export *mcsv1beta1.ServiceExport) bool { return ours(export) == nil }
			world.Becomes(s, "c1", new(mcsv1beta1.ServiceExport), "foo", "left alone", alone)
			stop()
			if n := <-reverts; n > 8 {
				t.Errorf("written %d times before it was left alone", n)
			}
			s.Until("as it should be, when no writer sets it back any more", func() error { return s.Healthy("c1", "foo") })
		})
	}
}

// told wants an event with a reason on an object.
func told(s *world.Namespace, id, kind, name, reason string) error {
	var all eventsv1.EventList
	if err := s.Admin(id).List(s.Context(), &all, client.InNamespace(s.Name)); err != nil {
		return err
	}
	for _, e := range all.Items {
		if e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason && e.Type == corev1.EventTypeWarning {
			return nil
		}
	}
	return fmt.Errorf("no event %s on %s %s among %d", reason, kind, name, len(all.Items))
}

// An import that others created stays theirs: its content stays, it gets none of the clusterset's
// endpoints, and the export's message contains what to do.
func TestForeignImportIsLeftAlone(t *testing.T) {
	s := world.Three(t).Namespace()
	theirs := &mcsv1beta1.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Name: "foo", Labels: map[string]string{mcs.LabelManagedBy: "somebody"}},
		Spec:       mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.Headless, Ports: []mcsv1beta1.ServicePort{{Port: 7}}},
	}
	slice := world.Endpoints(world.Service("foo"), "-theirs", "10.8.8.8")
	slice.Labels = map[string]string{mcsv1beta1.LabelServiceName: "foo", mcsv1beta1.LabelSourceCluster: "c1", discoveryv1.LabelManagedBy: "cilium"}
	s.Create("c1", theirs, slice)
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Until("said", func() error { return s.Condition("c1", "foo", "Ready", metav1.ConditionFalse, "Failed") })
	imp := s.MustImport("c1", "foo")
	if imp.Spec.Type != mcsv1beta1.Headless || imp.Spec.Ports[0].Port != 7 || imp.Labels[mcs.LabelManagedBy] != "somebody" || len(imp.Status.Clusters) > 0 {
		t.Errorf("it is %+v %+v", imp.Spec, imp.Status)
	}
	by, err := s.Cluster("c1").Imported(t.Context(), s.Key("foo"))
	if err != nil || len(by["c1"]) != 2 {
		t.Fatalf("its slices are %v: %v", by, err)
	}
	for _, one := range by["c1"] { // The other one describes the Service for the peers.
		if one.Name != slice.Name && (len(one.Endpoints) > 0 || one.Annotations[mcs.AnnotationTerms] == "") {
			t.Errorf("it got %+v", one)
		}
	}
	// Handed over by the label, it is ours; their slice stays.
	world.Edit(s, "c1", new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) { imp.Labels[mcs.LabelManagedBy] = mcs.ControllerName })
	s.Until("handed over", func() error { return s.Healthy("c1", "foo") })
	if live := world.Live(s, "c1", new(discoveryv1.EndpointSlice), slice.Name); len(live.Endpoints) != 1 || len(live.OwnerReferences) > 0 {
		t.Errorf("their slice is %+v", live)
	}
}
