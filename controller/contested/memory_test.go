package contested

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// A value that must be written again after each of three reverts in a minute is contested. A value
// that changes meanwhile is not.
func TestContests(t *testing.T) {
	now := time.Unix(0, 0)
	field := Field{Kind: "ServiceImport", Place: inSpec, Key: "ips"}
	ips := func(value string) Fields { return Fields{field: value} }
	var m Memory
	for i := range 20 {
		if news := m.Wrote(ips(fmt.Sprint(i%2)), now); len(news) > 0 {
			t.Fatal("values that come in turn are contested")
		}
	}
	for i := range 8 {
		if news := m.Wrote(ips("a"), now); (len(news) > 0) != (i == reverts) {
			t.Errorf("write %d: news %v", i+1, news)
		}
		if held, _ := m.Held(now); (held[field] == "a") != (i >= reverts) {
			t.Errorf("write %d: held %v", i+1, held)
		}
	}
	held, next := m.Held(now)
	if held[field] != "a" || next != 160*time.Second {
		t.Errorf("held %v, tried again after %v", held, next)
	}
	if held, next := m.Held(now.Add(next)); len(held) > 0 || next > 0 {
		t.Errorf("after the pause held %v for %v", held, next)
	}
	for range 10 {
		m.Wrote(ips("a"), now)
	}
	if _, next := m.Held(now); next != longestPause {
		t.Errorf("the longest pause is %v", next)
	}
	if m.Held(now.Add(longestPause + 2*window)); !m.Empty() {
		t.Errorf("what has stayed is not forgotten: %v", m.fields)
	}
	for range 20 { // one revert in a minute is not a contest
		now = now.Add(window + time.Second)
		if news := m.Wrote(ips("b"), now); len(news) > 0 {
			t.Fatal("a value that is written now and then is contested")
		}
	}
	if news := m.NoEffect(ips("b"), now); len(news) != 1 {
		t.Errorf("a write without effect: news %v", news)
	}
	if news := m.NoEffect(ips("b"), now); len(news) != 0 {
		t.Errorf("the same again: news %v", news)
	}
	if held, next := m.Held(now); held[field] != "b" || next != 2*longestPause {
		t.Errorf("a second write without effect: held %v, tried again after %v", held, next)
	}
	for range 9 {
		m.NoEffect(ips("b"), now)
	}
	if _, next := m.Held(now); next != longestWithoutEffect {
		t.Errorf("the longest pause without effect is %v", next)
	}
}

// A field that nobody reverts is not left alone because its last write seems to lie in the future.
func TestContestsAfterTheClockWentBack(t *testing.T) {
	var m Memory
	now := time.Now()
	m.Wrote(Fields{{Kind: "Service", Place: inSpec, Key: "trafficDistribution"}: "x"}, now)
	if held, next := m.Held(now.Add(-time.Minute)); len(held) > 0 || next > 0 {
		t.Errorf("held %v for %v, want none", held, next)
	}
}

// An edit of any object is a set of fields. What is held of it stays as it is, with what belongs to it.
func TestEdits(t *testing.T) {
	imp := &mcsv1beta1.ServiceImport{}
	imp.Spec.IPs, imp.Spec.IPFamilies, imp.Labels = []string{"10.0.0.1"}, []corev1.IPFamily{corev1.IPv4Protocol}, map[string]string{"a": "1"}
	imp.Status.Conditions = []metav1.Condition{{Type: "Other", LastTransitionTime: metav1.Unix(1, 0)}, {Type: "Ready", Reason: "Ready"}}
	changed := imp.DeepCopy()
	changed.Spec.IPs, changed.Spec.IPFamilies, changed.Labels = nil, nil, map[string]string{"b": "2"}
	changed.Status.Conditions[0].LastTransitionTime, changed.Status.Conditions[1].Reason = metav1.Unix(2, 0), "Pending"
	changed.Status.Clusters = []mcsv1beta1.ClusterStatus{{Cluster: "c1"}}

	service, external := &corev1.Service{}, &corev1.Service{}
	service.Spec.Ports, service.Spec.Type = []corev1.ServicePort{{Port: 80}}, corev1.ServiceTypeLoadBalancer
	external.Spec.Type = corev1.ServiceTypeExternalName
	own := service.DeepCopy()
	own.Spec.Ports, own.Spec.Type, own.Labels, own.Spec.Selector = nil, corev1.ServiceTypeClusterIP, map[string]string{"a": "1"}, map[string]string{"b": "2"}
	slice := &discoveryv1.EndpointSlice{}
	slice.Labels = map[string]string{"a": "1"}

	for want, edit := range map[string]struct{ old, edited Object }{
		"condition Ready of the ServiceImport; label a of the ServiceImport; label b of the ServiceImport; spec.ips of the ServiceImport; status.clusters of the ServiceImport": {imp, changed},
		"spec.ports of the derived Service; spec.type of the derived Service":                                                                                                   {service, own}, // not the label and the selector
		"":  {external, own},
		" ": {&discoveryv1.EndpointSlice{}, slice},
	} {
		fields := Of(edit.old, edit.edited)
		if got := names(fields); got != strings.TrimSpace(want) {
			t.Errorf("the fields are %s; want %s", got, want)
		}
	}
	held := Fields{}
	for field, value := range Of(imp, changed) {
		if field.IPs() || field.Condition() != "" || field.Key == "a" {
			held[field] = value
		}
	}
	left, fields := Without(held, imp, changed)
	if got := names(Of(imp, left)); len(fields) != 3 || got != "label b of the ServiceImport; status.clusters of the ServiceImport" {
		t.Errorf("left %s, left out %v", got, fields)
	}
	if len(left.Spec.IPFamilies) != 1 || left.Status.Conditions[0].Type != "Other" {
		t.Errorf("left %+v", left)
	}
	if changed.Spec.IPs = []string{"10.0.0.2"}; len(Of(imp, changed)) != 5 {
		t.Fatal(Of(imp, changed))
	} else if left, _ := Without(held, imp, changed); left.Spec.IPs[0] != "10.0.0.2" {
		t.Errorf("another value is held: %v", left.Spec.IPs)
	}
}

func names(fields Fields) string {
	var all []string
	for field := range fields {
		all = append(all, field.String())
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}
