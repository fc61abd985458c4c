package reconcile

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/apply"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// Of the import that had a name before, the record is known for a minute, and no longer.
func TestFormers(t *testing.T) {
	began := time.Unix(0, 0)
	imp := func(uid types.UID, record string) *mcsv1beta1.ServiceImport {
		all := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{UID: uid}}
		if record != "" {
			all.Annotations = map[string]string{mcs.AnnotationClusterIPs: record}
		}
		return all
	}
	type step struct {
		after time.Duration
		imp   *mcsv1beta1.ServiceImport
		want  string
	}
	for name, steps := range map[string][]step{
		"replaced":                     {{0, imp("1", "10.0.0.1"), ""}, {time.Hour, imp("2", ""), "10.0.0.1"}, {time.Hour + time.Second, imp("2", "10.0.0.1"), ""}},
		"deleted and created again":    {{0, imp("1", "10.0.0.1"), ""}, {1, nil, "10.0.0.1"}, {formerFor, imp("2", ""), "10.0.0.1"}},
		"too late":                     {{0, imp("1", "10.0.0.1"), ""}, {1, nil, "10.0.0.1"}, {formerFor + 1, nil, ""}, {formerFor + 2, imp("2", ""), ""}},
		"a record that a user removes": {{0, imp("1", "10.0.0.1"), ""}, {1, imp("1", ""), ""}, {2, imp("2", ""), ""}},
		"never seen":                   {{0, nil, ""}, {1, imp("1", ""), ""}},
		"a long text":                  {{0, imp("1", "10.0.0.1"), ""}, {1, imp("1", strings.Repeat("1", longestRecord+1)), ""}, {2, nil, ""}},
	} {
		var f former
		for _, s := range steps {
			got, again := f.of(s.imp, began.Add(s.after))
			if got != s.want || (again > 0) != (got != "") {
				t.Errorf("%s, after %v: %q, again in %v; want %q", name, s.after, got, again, s.want)
			}
		}
		if last := steps[len(steps)-1]; last.want == "" && (last.imp == nil || last.imp.Annotations == nil) && f != (former{}) {
			t.Errorf("%s: not forgotten: %v", name, f)
		}
	}
}

// A name whose namespace loses its labels stays for a while. A name that was never imported does
// not.
func TestDeselectedNamesStayForAWhile(t *testing.T) {
	var d deselected
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after              time.Duration
		selected, imported bool
		want               time.Duration
	}{
		{0, false, false, 0}, {0, true, true, 0}, {time.Second, false, true, time.Minute}, {31 * time.Second, false, true, 30 * time.Second},
		{32 * time.Second, true, true, 0}, {40 * time.Second, false, true, time.Minute}, {100 * time.Second, false, true, 0},
		{101 * time.Second, false, false, 0}, {200 * time.Second, false, true, time.Minute},
	} {
		if got := d.left(step.selected, step.imported, noon.Add(step.after), time.Minute); got != step.want {
			t.Errorf("after %v: %v, want %v", step.after, got, step.want)
		}
	}
	d.left(true, true, noon, time.Minute)
	if d != (deselected{}) {
		t.Errorf("it remembers %v", d)
	}
}

// A name is left alone for a moment after its Service was deleted by anybody else.
func TestDeletedServicesLeaveTheirNameForAMoment(t *testing.T) {
	n, now := replaced{}, time.Unix(1e9, 0)
	for i, step := range []struct {
		exists bool
		active bool
		after  time.Duration
		want   time.Duration
	}{
		{false, false, 0, 0}, // nothing is there
		{true, false, 0, 0},  // a user's Service without a native name
		{false, false, 0, 0},
		{true, true, 0, 0},
		{false, true, time.Second, replaceGrace},
		{false, true, time.Second, replaceGrace - time.Second},
		{true, true, time.Second, 0}, // created again
		{false, true, time.Second, replaceGrace},
		{false, true, replaceGrace, 0}, // it is not
		{false, true, 0, 0},
		{true, true, 0, 0},
		{false, false, 0, replaceGrace}, // headless or without endpoints, nothing else is left
		{true, false, 0, 0},
		{false, false, 0, 0},
	} {
		now = now.Add(step.after)
		if got := n.left(step.exists, step.active, now); got != step.want {
			t.Errorf("step %d: it is left alone for %v, want %v", i, got, step.want)
		}
	}
	if n != (replaced{}) {
		t.Errorf("it remembers %v", n)
	}
}

// A name of which nothing exists leaves nothing in memory, as soon as nothing is waited for.
func TestForgottenNames(t *testing.T) {
	key := types.NamespacedName{Namespace: "shop", Name: "foo"}
	imp := &mcsv1beta1.ServiceImport{}
	exported := &observed.Clusterset{Members: []merge.Member{{Cluster: "c2", Export: &merge.Export{}}}}
	var all memories
	for what, c := range map[string]struct {
		state  observed.State
		former string
		want   bool
	}{
		"nothing":          {want: true},
		"import":           {state: observed.State{Import: imp}},
		"export of a peer": {state: observed.State{Clusterset: exported, Native: &observed.Native{}}},
		"former addresses": {former: "10.0.0.1"},
	} {
		all.of(key).former.ips = c.former
		all.forget(key, c.state)
		if _, known := all.by[key]; known == c.want {
			t.Errorf("%s: forgotten %t, want %t", what, !known, c.want)
		}
	}
}

// What the API server answers is read as what a cache shows: who has applied a Service is known before its managedFields go.
func TestAnswersAreAsInTheCaches(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: "derived-foo", Labels: map[string]string{mcs.LabelManagedBy: mcs.ControllerName},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply}},
	}}
	p := &pass{}
	if !p.put(apply.Outcome{Result: apply.Created, Object: svc}) || !ownership.Applied(p.state.Service) || p.state.Service.ManagedFields != nil {
		t.Errorf("the state has %+v", p.state.Service)
	}
	native := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "foo", Labels: map[string]string{mcs.LabelNativeOf: "foo"}}}
	if p.put(apply.Outcome{Result: apply.Changed, Object: native}) || p.state.Service != svc {
		t.Error("a Service with the own name is the derived one")
	}
}
