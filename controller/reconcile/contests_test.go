package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// A value that must be written again after each of three reverts in a minute is contested. A value
// that changes meanwhile is not.
func TestContests(t *testing.T) {
	name, now := types.NamespacedName{Name: "foo"}, time.Unix(0, 0)
	ips := func(value string) contested.Fields { return contested.Fields{contested.FieldIPs: value} }
	var c contests
	for i := range 20 {
		if news := c.wrote(name, ips(fmt.Sprint(i%2)), now); len(news) > 0 {
			t.Fatal("values that come in turn are contested")
		}
	}
	for i := range 8 {
		if news := c.wrote(name, ips("a"), now); (len(news) > 0) != (i == contestReverts) {
			t.Errorf("write %d: news %v", i+1, news)
		}
		if held, _ := c.of(name, now); (held[contested.FieldIPs] == "a") != (i >= contestReverts) {
			t.Errorf("write %d: held %v", i+1, held)
		}
	}
	held, next := c.of(name, now)
	if held[contested.FieldIPs] != "a" || next != 160*time.Second {
		t.Errorf("held %v, tried again after %v", held, next)
	}
	if held, next := c.of(name, now.Add(next)); len(held) > 0 || next > 0 {
		t.Errorf("after the pause held %v for %v", held, next)
	}
	for range 10 {
		c.wrote(name, ips("a"), now)
	}
	if _, next := c.of(name, now); next != longestPause {
		t.Errorf("the longest pause is %v", next)
	}
	if c.of(name, now.Add(longestPause+2*contestWindow)); len(c.by) > 0 {
		t.Errorf("what has stayed is not forgotten: %v", c.by)
	}
	for range 20 { // one revert in a minute is not a contest
		now = now.Add(contestWindow + time.Second)
		if news := c.wrote(name, ips("b"), now); len(news) > 0 {
			t.Fatal("a value that is written now and then is contested")
		}
	}
	if news := c.noEffect(name, ips("b"), now); len(news) != 1 {
		t.Errorf("a write without effect: news %v", news)
	}
	if news := c.noEffect(name, ips("b"), now); len(news) != 0 {
		t.Errorf("the same again: news %v", news)
	}
	if held, next := c.of(name, now); held[contested.FieldIPs] != "b" || next != 2*longestPause {
		t.Errorf("a second write without effect: held %v, tried again after %v", held, next)
	}
	for range 9 {
		c.noEffect(name, ips("b"), now)
	}
	if _, next := c.of(name, now); next != longestWithoutEffect {
		t.Errorf("the longest pause without effect is %v", next)
	}
	c.wrote(types.NamespacedName{Name: "bar"}, ips("c"), now.Add(2*longestWithoutEffect))
	if len(c.by) != 1 {
		t.Errorf("an entry without requests is not forgotten: %v", c.by)
	}
}

// A user who deletes an object and creates it again does not revert a field.
func TestContestsEndWithTheObject(t *testing.T) {
	name, now := types.NamespacedName{Name: "foo"}, time.Unix(0, 0)
	both := contested.Fields{contested.FieldIPs: "a", contested.FieldExport: "b"}
	var c contests
	for range 2 * contestReverts {
		c.wrote(name, both, now)
		c.gone(name, ofImport)
	}
	if held, _ := c.of(name, now); len(held) != 1 || held[contested.FieldExport] != "b" {
		t.Errorf("held %v; want what the export has, which was there all the time", held)
	}
	if c.gone(name, ofExport); len(c.by) > 0 {
		t.Errorf("not forgotten: %v", c.by)
	}
}

// TestAnotherWriterOfIPs is a regression test: another writer empties ips as soon as they are
// filled, as Karmada does without deploy/karmada. Both wrote as fast as they could: 2254
// generations in 47 s, without any event.
func TestAnotherWriterOfIPs(t *testing.T) {
	cluster := shared.Cluster(t)
	start(t, account(t, cluster))
	p := newPlace(t, cluster)
	if err := p.create(plainService("derived-foo"), imported("foo", func(imp *mcsv1beta1.ServiceImport) {
		imp.Labels = map[string]string{mcs.LabelKarmadaManaged: "true"}
	})); err != nil {
		t.Fatal(err)
	}
	until(t, "filled", func() error { return p.has("foo", 1) })
	counted := func() float64 { return testutil.ToFloat64(contestedFields.WithLabelValues(string(contested.FieldIPs))) }
	before := counted()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() { ended <- p.empty(ctx, "foo") }()
	until(t, "told", func() error { return p.told("foo", desired.ReasonContested) })
	until(t, "left alone", func() error { return p.has("foo", 0) })
	if got := counted() - before; got != 1 {
		t.Errorf("the metric counts %v contested fields", got)
	}
	stop()
	if reverts := <-ended; reverts > 2*contestReverts+2 {
		t.Errorf("ips were filled %d times before they were left alone", reverts)
	}
	until(t, "filled again, when no writer empties them any more", func() error { return p.has("foo", 1) })
}

// empty empties an import's ips whenever they are filled, until ctx ends. It returns how often.
func (p *place) empty(ctx context.Context, name string) (times int) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return times
		case <-tick.C:
		}
		if imp, err := p.imp(name); err == nil && len(imp.Spec.IPs) > 0 && p.edit(name, withIPs()) == nil {
			times++
		}
	}
}

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
	if err := p.create(imported("foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return p.served("foo") })
	until(t, "told", func() error { return p.told("foo", desired.ReasonContested) })
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

// TestWebhookThatKeepsAnnotations is a regression test for metadata: a policy of the cluster allows
// one annotation only. The patch of the annotation that records the addresses changed nothing and
// was planned forever, so that no condition was ever written.
func TestWebhookThatKeepsAnnotations(t *testing.T) {
	cluster := shared.Cluster(t)
	start(t, account(t, cluster))
	p := newPlace(t, cluster)
	mutate(t, p, cluster, `{apiGroups: [multicluster.x-k8s.io], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [serviceimports]}`,
		`{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/metadata/annotations", value: {"a": "b"}}]'}}`,
		func() error {
			imp := imported("try", inNamespace(p.namespace))
			err := p.Create(p.ctx, imp, client.DryRunAll)
			if err == nil && imp.Annotations["a"] != "b" {
				err = errors.New("it is not")
			}
			return err
		})
	if err := p.create(imported("foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "told", func() error { // once for each annotation
		all, err := p.events("foo")
		contested := slices.ContainsFunc(all, func(e eventsv1.Event) bool { return e.Reason == desired.ReasonContested })
		if err == nil && !contested {
			err = errors.New("no event")
		}
		return err
	})
	until(t, "ready, with the Service's address", func() error {
		imp, err := p.imp("foo")
		svc, missing := p.svc("derived-foo")
		if err := errors.Join(err, missing); err != nil {
			return err
		}
		if !slices.Equal(imp.Spec.IPs, svc.Spec.ClusterIPs) {
			err = fmt.Errorf("ips are %v, and the Service has %v", imp.Spec.IPs, svc.Spec.ClusterIPs)
		}
		return errors.Join(err, ready(imp, metav1.ConditionTrue, "Ready"))
	})
}

// TestWebhookThatKeepsTheStatus is a regression test for conditions: a policy of the cluster
// removes them. The patch was planned in every pass.
func TestWebhookThatKeepsTheStatus(t *testing.T) {
	cluster := shared.Cluster(t)
	statusPatch := access{mcsv1beta1.GroupName, "serviceimports/status", "patch"}
	wire := newWire()
	start(t, wire.config(account(t, cluster)))
	p := newPlace(t, cluster)
	mutate(t, p, cluster, `{apiGroups: [multicluster.x-k8s.io], apiVersions: ["*"], operations: [UPDATE], resources: [serviceimports/status]}`,
		`{patchType: JSONPatch, jsonPatch: {expression: 'has(object.status) && has(object.status.conditions) ? [JSONPatch{op: "remove", path: "/status/conditions"}] : []'}}`,
		func() error {
			if err := p.create(imported("try")); client.IgnoreAlreadyExists(err) != nil {
				return err
			}
			imp, err := p.imp("try")
			imp.Status.Conditions = []metav1.Condition{{Type: "Try", Status: metav1.ConditionTrue, Reason: "Try", LastTransitionTime: metav1.Now()}}
			err = errors.Join(err, p.Status().Update(p.ctx, imp, client.DryRunAll))
			if err == nil && len(imp.Status.Conditions) > 0 {
				err = errors.New("it is not")
			}
			return err
		})
	if err := p.create(imported("foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "told", func() error { return p.told("foo", desired.ReasonContested) })
	before := wire.count(statusPatch)
	for i := range 2 * contestReverts { // each edit causes a pass
		if err := p.edit("foo", func(imp *mcsv1beta1.ServiceImport) { imp.Annotations["pass"] = fmt.Sprint(i) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.edit("foo", func(imp *mcsv1beta1.ServiceImport) { imp.Spec.Ports[0].Port = 81 }); err != nil {
		t.Fatal(err)
	}
	until(t, "the Service follows", func() error {
		svc, err := p.svc("derived-foo")
		if err == nil && svc.Spec.Ports[0].Port != 81 {
			err = fmt.Errorf("ports %v", svc.Spec.Ports)
		}
		return err
	})
	if n := wire.count(statusPatch) - before; n > 1 { // the new generation allows one more
		t.Errorf("the status was patched %d times more", n)
	}
}

// TestWebhookThatKeepsTheIngress is a regression test for a user's addresses: a policy of the
// cluster removes them from the derived Service's status, as servers before Kubernetes 1.30 do with
// their ipMode. The patch was planned in every pass, and no condition was ever written.
func TestWebhookThatKeepsTheIngress(t *testing.T) {
	cluster := shared.Cluster(t)
	start(t, account(t, cluster))
	p := newPlace(t, cluster)
	mutate(t, p, cluster, `{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [services/status]}`,
		`{patchType: JSONPatch, jsonPatch: {expression: 'has(object.status.loadBalancer) && has(object.status.loadBalancer.ingress) ? [JSONPatch{op: "remove", path: "/status/loadBalancer/ingress"}] : []'}}`,
		func() error {
			try := plainService("try")
			try.Spec.Type = corev1.ServiceTypeLoadBalancer
			if err := p.create(try); client.IgnoreAlreadyExists(err) != nil {
				return err
			}
			svc, err := p.svc("try")
			svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			err = errors.Join(err, p.Status().Update(p.ctx, svc, client.DryRunAll))
			if err == nil && len(svc.Status.LoadBalancer.Ingress) > 0 {
				err = errors.New("it is not")
			}
			return err
		})
	if err := p.create(imported("foo", withIPs("192.0.2.7"))); err != nil {
		t.Fatal(err)
	}
	until(t, "told", func() error { return p.told("foo", desired.ReasonContested) })
	until(t, "ready, with a note", func() error {
		imp, err := p.imp("foo")
		if err == nil {
			err = ready(imp, metav1.ConditionTrue, "Ready")
		}
		if err == nil && !strings.Contains(imp.Status.Conditions[0].Message, string(contested.FieldIngress)) {
			err = fmt.Errorf("the message is %q", imp.Status.Conditions[0].Message)
		}
		return err
	})
}

// TestWebhookThatKeepsALabelOfASlice is a regression test: a policy of the cluster sets a label on
// each slice, and kube-proxy ignores slices with that label. The removal of the label was planned
// in every pass, and no condition was ever written.
func TestWebhookThatKeepsALabelOfASlice(t *testing.T) {
	cluster := shared.Cluster(t)
	p := newPlace(t, cluster)
	const label = "service.kubernetes.io/service-proxy-name"
	mutate(t, p, cluster, `{apiGroups: [discovery.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [endpointslices]}`,
		`{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"`+label+`": "none"}}}'}}`,
		func() error {
			try := endpoints("try", "try")
			try.Namespace = p.namespace
			err := p.Create(p.ctx, try, client.DryRunAll)
			if err == nil && try.Labels[label] == "" {
				err = errors.New("it is not")
			}
			return err
		})
	imp := imported("foo", func(imp *mcsv1beta1.ServiceImport) {
		imp.Labels = map[string]string{mcs.LabelManagedBy: mcs.ControllerName}
	})
	slice := endpoints("foo.c2.v4-0123456789", "foo", discoveryv1.LabelManagedBy, mcs.ControllerName, mcsv1beta1.LabelSourceCluster, "c2")
	if err := p.create(imp, slice); err != nil {
		t.Fatal(err)
	}
	start(t, account(t, cluster))
	until(t, "ready, with a note", func() error {
		imp, err := p.imp("foo")
		if err == nil {
			err = ready(imp, metav1.ConditionTrue, "Ready")
		}
		if err == nil && !strings.Contains(imp.Status.Conditions[0].Message, "endpoints of c2") {
			err = fmt.Errorf("the message is %q", imp.Status.Conditions[0].Message)
		}
		return err
	})
}

// TestWebhookThatKeepsFinalizersOfASlice is for a policy of the cluster that sets a finalizer on
// each slice, so that a slice of the controller cannot be deleted. That is reported, and conditions
// are still written.
func TestWebhookThatKeepsFinalizersOfASlice(t *testing.T) {
	cluster := shared.Cluster(t)
	p := newPlace(t, cluster)
	start(t, account(t, cluster))
	theirs := endpoints("theirs", "foo")
	if err := p.create(imported("foo"), theirs); err != nil {
		t.Fatal(err)
	}
	until(t, "copied", func() error { return p.label("theirs", "derived-foo") })
	const finalizer = "example.org/held"
	mutate(t, p, cluster, `{apiGroups: [discovery.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [endpointslices]}`,
		`{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{finalizers: ["`+finalizer+`"]}}'}}`,
		func() error {
			try := endpoints("try", "try")
			try.Namespace = p.namespace
			err := p.Create(p.ctx, try, client.DryRunAll)
			if err == nil && len(try.Finalizers) == 0 {
				err = errors.New("it is not")
			}
			return err
		})
	var all discoveryv1.EndpointSliceList
	err := p.List(p.ctx, &all, client.InNamespace(p.namespace), client.MatchingLabels{discoveryv1.LabelManagedBy: mcs.ControllerName})
	if err != nil || len(all.Items) != 1 {
		t.Fatalf("%d copies: %v", len(all.Items), err)
	}
	held := all.Items[0].DeepCopy()
	held.Finalizers = []string{finalizer}
	if err := p.Update(p.ctx, held); err != nil {
		t.Fatal(err)
	}
	if err := p.Delete(p.ctx, theirs); err != nil {
		t.Fatal(err)
	}
	until(t, "ready, with a note", func() error {
		imp, err := p.imp("foo")
		if err == nil {
			err = ready(imp, metav1.ConditionTrue, "Ready")
		}
		if err == nil && !strings.Contains(imp.Status.Conditions[0].Message, "endpoints of EndpointSlice "+held.Name) {
			err = fmt.Errorf("the message is %q", imp.Status.Conditions[0].Message)
		}
		return err
	})
}

// TestReadyOfAnotherWriterStays is for a controller such as Cilium's, which sets Ready on its
// imports. The API server records the writer. From then on this controller does not write the
// condition, whatever else changes.
func TestReadyOfAnotherWriterStays(t *testing.T) {
	cluster := shared.Cluster(t)
	start(t, account(t, cluster))
	p := newPlace(t, cluster)
	if err := p.create(imported("foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "ours", func() error {
		imp, err := p.imp("foo")
		return errors.Join(err, ready(imp, metav1.ConditionTrue, "Ready"))
	})
	theirs := []byte(`{"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport", "metadata": {"name": "foo"}, "status": {"conditions": [
		{"type": "Ready", "status": "False", "reason": "Theirs", "message": "theirs", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`)
	imp, err := p.imp("foo")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Status().Patch(p.ctx, imp, client.RawPatch(types.ApplyPatchType, theirs), client.FieldOwner("theirs"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	for port := range int32(3) {
		if err := p.edit("foo", func(imp *mcsv1beta1.ServiceImport) { imp.Spec.Ports[0].Port = 81 + port }); err != nil {
			t.Fatal(err)
		}
		until(t, "the Service follows", func() error {
			svc, err := p.svc("derived-foo")
			if err == nil && svc.Spec.Ports[0].Port != 81+port {
				err = fmt.Errorf("ports %v", svc.Spec.Ports)
			}
			return err
		})
	}
	imp, err = p.imp("foo")
	if c := meta.FindStatusCondition(imp.Status.Conditions, "Ready"); err != nil || c == nil || c.Reason != "Theirs" {
		t.Errorf("the condition is %+v: %v", c, err)
	}
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
