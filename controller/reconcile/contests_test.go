package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// TestServerThatUndoesAField is a regression test: a policy of the cluster sets trafficDistribution
// on every Service. The patch that removes it changed nothing and was planned forever, so that no
// condition was ever written.
func TestServerThatUndoesAField(t *testing.T) {
	cluster := shared.Cluster(t)
	wire := newWire()
	start(t, wire.config(account(t, cluster)))
	p := newPlace(t, cluster)
	mutate(t, p, cluster, `{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [services]}`,
		`{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{spec: Object.spec{trafficDistribution: "PreferClose"}}'}}`,
		func() error {
			svc := plainService("try")
			svc.Namespace = p.namespace
			err := p.Create(p.ctx, svc, client.DryRunAll)
			if err == nil && (svc.Spec.TrafficDistribution == nil || *svc.Spec.TrafficDistribution != corev1.ServiceTrafficDistributionPreferClose) {
				err = errors.New("it is not")
			}
			return err
		})
	counted := func() float64 {
		return testutil.ToFloat64(contestedFields.WithLabelValues("spec.trafficDistribution of the derived Service"))
	}
	before := counted()
	if err := p.create(imported("foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return p.served("foo") })
	until(t, "told", func() error { return p.told("foo", desired.ReasonContested) })
	if got := counted() - before; got != 1 {
		t.Errorf("the metric counts %v contested fields", got)
	}
	imp, err := p.imp("foo")
	if err := errors.Join(err, ready(imp, metav1.ConditionTrue, "Ready")); err != nil {
		t.Error(err)
	}
	if err := p.edit("foo", func(imp *mcsv1beta1.ServiceImport) { imp.Spec.Ports[0].Port = 81 }); err != nil {
		t.Fatal(err)
	}
	until(t, "another field is written", func() error {
		svc, err := p.svc("derived-foo")
		if err == nil && svc.Spec.Ports[0].Port != 81 {
			err = fmt.Errorf("ports %v", svc.Spec.Ports)
		}
		return err
	})
}

// TestWriterOfReady uses the managedFields of an API server: with the CRD of mcs-api, whose
// conditions are a map by type, and with a CRD whose conditions are one value.
func TestWriterOfReady(t *testing.T) {
	for name, c := range map[string]struct {
		manager, fields string
		theirs          bool
	}{
		"another, as a map":         {"theirs", `{"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:message": {}, "f:type": {}}}}}`, true},
		"another, as one value":     {"theirs", `{"f:status": {"f:conditions": {}}}`, true},
		"another condition":         {"theirs", `{"f:status": {"f:conditions": {"k:{\"type\":\"Valid\"}": {".": {}, "f:message": {}, "f:type": {}}}}}`, false},
		"another, the type alone":   {"theirs", `{"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:type": {}}}}}`, false},
		"this controller":           {mcs.ControllerName, `{"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:message": {}, "f:type": {}}}}}`, false},
		"another, what is no field": {"theirs", `[]`, false},
	} {
		imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: c.manager, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(c.fields)}}}}
		for range 2 { // a transform can run again on its own result
			if _, err := markReady(imp); err != nil {
				t.Fatal(err)
			}
		}
		if readyByOthers(imp) != c.theirs || imp.ManagedFields != nil {
			t.Errorf("%s: by others %v; want %v", name, readyByOthers(imp), c.theirs)
		}
	}
}

// mutate makes the API server change each object in the place that matches a rule, as a mutating
// webhook does.
func mutate(t *testing.T, p *place, cluster *kube.Cluster, rule, mutation string, inForce func() error) {
	t.Helper()
	text := `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAME}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAME}}
    resourceRules: [RULE]
  mutations: [MUTATION]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME}
`
	text = strings.NewReplacer("NAME", p.namespace, "RULE", rule, "MUTATION", mutation).Replace(text)
	if err := cluster.Apply(t.Context(), "default", text); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Delete(context.WithoutCancel(t.Context()), "default", text); err != nil {
			t.Error(err)
		}
	})
	until(t, "the policy in force", inForce)
}
