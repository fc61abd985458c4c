package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// regional is a clusterset of the home cluster c1 and of c2, both in eu, and of c3 in us. Each has
// one endpoint.
type regional struct {
	*oneName
	ready map[string]bool
	list  string
	kind  mcsv1beta1.ServiceImportType
}

func newRegional(t *testing.T, list string) *regional {
	t.Helper()
	r := &regional{newName("c1"), map[string]bool{"c1": true, "c2": true, "c3": true}, list, mcsv1beta1.ClusterSetIP}
	r.update("c1", "c2", "c3")
	r.settle(t)
	return r
}

// update sets what the clusters report. The others are away.
func (r *regional) update(present ...string) {
	regions := map[string]string{"c1": "eu", "c2": "eu", "c3": "us"}
	r.Members, r.Silent = nil, nil
	for i, id := range []string{"c1", "c2", "c3"} {
		if !slices.Contains(present, id) {
			r.Silent = append(r.Silent, id)
			continue
		}
		m := exporting(id, i, 80, fmt.Sprintf("10.%d.0.1", i+1))
		m.Service.Type = r.kind
		m.Slices[0].Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(r.ready[id]), Serving: new(r.ready[id]), Terminating: new(false)}
		if id != "c1" {
			m = mirrored(m)
		}
		m.Export.Preference, m.Properties = preference.Texts{Clusters: r.list}, map[string]string{"region.topology.kubernetes.io": regions[id]}
		r.Members = append(r.Members, m)
	}
}

// usable returns the clusters whose endpoints kube-proxy uses.
func (r *regional) usable() string {
	var all []string
	for _, slice := range r.slices {
		for _, e := range slice.Endpoints {
			if slice.Labels[discoveryv1.LabelServiceName] == "derived-foo" && *e.Conditions.Ready {
				all = append(all, slice.Labels[mcsv1beta1.LabelSourceCluster])
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// to changes the readiness, plans and writes one object at a time, and checks that after each write
// some endpoint is usable.
func (r *regional) to(t *testing.T, ready, want string) {
	t.Helper()
	for _, id := range []string{"c1", "c2", "c3"} {
		r.ready[id] = slices.Contains(strings.Fields(ready), id)
	}
	r.update("c1", "c2", "c3")
	r.writes(t, want)
}

func (r *regional) writes(t *testing.T, want string) {
	t.Helper()
	for range 40 {
		changes := Plan(r.state())
		r.choice = changes.Preference
		if changes.Empty() {
			equal(t, "usable", r.usable(), want)
			return
		}
		r.apply(changes, 1)
		if r.usable() == "" {
			t.Fatalf("on the way to %q nothing is usable", want)
		}
		if changes.ExportStatus != nil {
			r.Export = changes.ExportStatus.New
		}
	}
	t.Fatal("it plans forever")
}

func (r *regional) condition() string {
	c := meta.FindStatusCondition(r.imp.Status.Conditions, "ClusterPreference")
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

const nearest = "local, topology.kubernetes.io/region, any"

// Endpoints go away one by one and come back. At each write some endpoint is usable. Returning to an
// earlier entry takes return-after.
func TestTrafficFollowsThePreference(t *testing.T) {
	r := newRegional(t, nearest)
	equal(t, "at first", r.usable(), "c1")
	equal(t, "the condition", r.condition(), "True Preferred: entry 1 of 3, local, is used: the traffic goes to c1")
	r.to(t, "c2 c3", "c2")
	equal(t, "the condition", r.condition(), "True Fallback: entry 2 of 3, topology.kubernetes.io/region, is used: the traffic goes to c1, c2")
	r.to(t, "c3", "c3")
	equal(t, "the condition", r.condition(), "True Fallback: entry 3 of 3, any, is used: the traffic goes to c1, c2, c3")

	r.to(t, "c2 c3", "c2 c3")
	equal(t, "the next look", Plan(r.state()).Again, 10*time.Second)
	r.later += 10 * time.Second
	r.writes(t, "c2")
	r.to(t, "c1 c2 c3", "c1 c2")
	r.later += 9 * time.Second
	r.to(t, "c1 c2 c3", "c1 c2")
	r.later += time.Second
	r.to(t, "c1 c2 c3", "c1")
	equal(t, "the next look", Plan(r.state()).Again, 0)
}

// With no ready endpoint, all clusters of the list are connected.
func TestNoEntryIsSufficient(t *testing.T) {
	r := newRegional(t, "local, cluster=c2")
	clear(r.ready)
	r.update("c1", "c2", "c3")
	r.settle(t)
	equal(t, "the condition", r.condition(), "False NotEnoughReady: no entry of the list has the required number of ready endpoints, 1, so the traffic goes to all clusters of the list: c1, c2")
	equal(t, "the third cluster", preference.OnStandby(r.sliceOf("c3")), true)
	r.to(t, "c2 c3", "c2")
	equal(t, "the condition", r.condition(), "False NotEnoughReady: no entry of the list has had 1 ready endpoints for 10s yet, so the traffic goes to all clusters of the list: c1, c2")
	r.later += 10 * time.Second
	r.writes(t, "c2")
	equal(t, "the condition", r.condition(), "True Fallback: entry 2 of 2, cluster=c2, is used: the traffic goes to c2")
}

func (r *regional) sliceOf(cluster string) *discoveryv1.EndpointSlice {
	at := slices.IndexFunc(r.slices, func(s *discoveryv1.EndpointSlice) bool { return s.Labels[mcsv1beta1.LabelSourceCluster] == cluster })
	return r.slices[at]
}

// When the annotation goes, every slice is as if it had never been there.
func TestPreferenceThatGoesLeavesNothing(t *testing.T) {
	r, plain := newRegional(t, nearest), newRegional(t, "")
	equal(t, "without a preference", plain.usable(), "c1 c2 c3")
	equal(t, "the condition without a preference", plain.condition(), "")
	equal(t, "with one", r.usable(), "c1")
	r.list = ""
	r.to(t, "c1 c2 c3", "c1 c2 c3")
	equal(t, "the condition", r.condition(), "")
	if !equality.Semantic.DeepEqual(r.slices, plain.slices) {
		t.Errorf("the slices differ:\n%+v\n%+v", r.slices, plain.slices)
	}
	equal(t, "the record", r.imp.Annotations[mcs.AnnotationExports], plain.imp.Annotations[mcs.AnnotationExports])
}

// The import of the importing cluster wins over the export. A malformed annotation has no effect,
// and both objects report it.
func TestImportsAnnotationWins(t *testing.T) {
	r := newRegional(t, "local")
	r.imp.Annotations[mcs.AnnotationPreferClusters] = "cluster=c3"
	r.to(t, "c1 c2 c3", "c3")
	r.imp.Annotations[mcs.AnnotationPreferClusters] = "c3"
	r.to(t, "c1 c2 c3", "c1")
	if got := r.condition(); !strings.HasPrefix(got, `False MalformedAnnotation: the annotation clusterset-dns.io/prefer-clusters of this ServiceImport has "c3" as entry 1, want one of: local`) ||
		!strings.HasSuffix(got, "so it has no effect; entry 1 of 1, local, is used: the traffic goes to c1") {
		t.Error(got)
	}
	r.Export.Annotations = map[string]string{mcs.AnnotationPreferClusters: "lokal"}
	r.settle(t)
	if c := meta.FindStatusCondition(r.Export.Status.Conditions, "ClusterPreference"); c == nil || !strings.Contains(c.Message, `of this ServiceExport has "lokal" as entry 1`) {
		t.Errorf("the condition of the export is %+v", c)
	}
	delete(r.Export.Annotations, mcs.AnnotationPreferClusters)
	r.settle(t)
	if c := meta.FindStatusCondition(r.Export.Status.Conditions, "ClusterPreference"); c != nil {
		t.Errorf("the condition of the export stays: %+v", c)
	}
}

// After a restart, a cluster that does not answer is switched without its report: its slices are
// the only copy of its endpoints.
func TestSilentClusterIsSwitched(t *testing.T) {
	r := newRegional(t, nearest)
	before := r.sliceOf("c2").DeepCopy()
	r.choice = preference.Memory{}
	r.ready["c1"] = false
	r.update("c1")
	r.writes(t, "c2")
	connected := r.sliceOf("c2")
	equal(t, "the address", connected.Endpoints[0].Addresses[0], before.Endpoints[0].Addresses[0])
	equal(t, "the other one", preference.OnStandby(r.sliceOf("c3")), true)
	r.ready["c1"] = true
	r.update("c1")
	r.settle(t)
	r.later += 10 * time.Second
	r.writes(t, "c1")
	if got := r.sliceOf("c2"); !equality.Semantic.DeepEqual(got.Endpoints, before.Endpoints) || !ownership.OfSlice(got) {
		t.Errorf("c2 is %+v, was %+v", got, before)
	}
}

// The slices of a headless import keep their conditions, because kube-proxy does not use them.
func TestHeadlessSlicesOnStandbyKeepTheirConditions(t *testing.T) {
	r := newRegional(t, nearest)
	r.kind = mcsv1beta1.Headless
	r.update("c1", "c2", "c3")
	r.settle(t)
	for id, standby := range map[string]bool{"c1": false, "c2": true, "c3": true} {
		slice := r.sliceOf(id)
		if preference.OnStandby(slice) != standby || !*slice.Endpoints[0].Conditions.Ready {
			t.Errorf("%s is %+v", id, slice)
		}
	}
}

// A slice of a chosen cluster that the API server refuses does not disconnect the other clusters.
func TestNothingIsDisconnectedBeforeTheChosenAreConnected(t *testing.T) {
	r := newRegional(t, "any")
	equal(t, "at first", r.usable(), "c1 c2 c3")
	refused := r.sliceOf("c3").Name
	r.slices = slices.DeleteFunc(r.slices, func(s *discoveryv1.EndpointSlice) bool { return s.Name == refused })
	r.list = "cluster=c3"
	r.update("c1", "c2", "c3")
	for range 5 {
		st := r.state()
		st.Refused = refusedSlice(refused, "quota")
		r.write(Plan(st))
	}
	equal(t, "while c3 is refused", r.usable(), "c1 c2")
	if !strings.Contains(r.condition(), "and still to the other clusters") {
		t.Error(r.condition())
	}
	r.to(t, "c1 c2 c3", "c3")
}

// Exports that disagree are a conflict, and the oldest wins.
func TestPreferencesThatDisagree(t *testing.T) {
	r := newRegional(t, nearest)
	r.Members[1].Export.Preference.Clusters = "any"
	r.settle(t)
	equal(t, "usable", r.usable(), "c1")
	c := meta.FindStatusCondition(r.Export.Status.Conditions, "Conflict")
	if c == nil || c.Reason != "ClusterPreferenceConflict" || !strings.Contains(c.Message, `Conflicting cluster preference. Using "`+nearest+`" from oldest service export in "c1". 1/3 clusters disagree.`) {
		t.Errorf("%+v", c)
	}
}

// An export for some clusters only is no export for the others. Its own cluster always imports it.
func TestExportForSomeClusters(t *testing.T) {
	for home, want := range map[string]string{"c1": "c1 c2", "c2": "c2", "c3": "c1 c2"} {
		r := &regional{newName(home), map[string]bool{"c1": true, "c2": true}, "", mcsv1beta1.ClusterSetIP}
		first, second := exporting("c1", 0, 80, "10.1.0.1"), exporting("c2", 1, 81, "10.2.0.1")
		first.Export.Consumers, second.Export.Consumers = merge.Consumers{"c3"}, merge.Consumers{"c1", "c3", "not an ID"}
		for _, m := range []merge.Member{first, second} {
			m.Slices[0].Endpoints[0].Conditions.Ready = new(true)
			if m.Cluster != home {
				m = mirrored(m)
			}
			r.Members = append(r.Members, m)
		}
		r.settle(t)
		equal(t, home, r.usable(), want)
		if home == "c2" {
			equal(t, "the port in c2", r.imp.Spec.Ports[0].Port, int32(81))
			c := meta.FindStatusCondition(r.Export.Status.Conditions, "Ready")
			if c == nil || !strings.HasPrefix(c.Message, `only these clusters import the name: c1, c3, not an ID; left out: "not an ID" in the annotation clusterset-dns.io/to-clusters is not a DNS name`) {
				t.Errorf("the condition is %+v", c)
			}
		}
	}
}

// Another writer that keeps removing the condition is left alone.
func TestContestedClusterPreference(t *testing.T) {
	r := newRegional(t, nearest)
	meta.RemoveStatusCondition(&r.imp.Status.Conditions, "ClusterPreference")
	changes := Plan(r.state())
	written := contested.Of(changes.ImportStatus.Old, changes.ImportStatus.New)
	for field, value := range written {
		if len(written) != 1 || field.Condition() != "ClusterPreference" || !strings.Contains(value, "entry 1 of 3") {
			t.Fatalf("the removed condition: %v", written)
		}
	}
	r.contested = written
	if changes := Plan(r.state()); !changes.Empty() {
		t.Errorf("while it is contested: %+v", changes)
	}
	r.ready["c1"] = false
	r.update("c1", "c2", "c3")
	r.settle(t)
	if !strings.HasPrefix(r.condition(), "True Fallback: entry 2 of 3") {
		t.Errorf("another value: %s", r.condition())
	}
}
