package merge_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

var update = flag.Bool("update", false, "write the golden files anew")

// demo is the name that the clusters of these tests export.
var demo = types.NamespacedName{Namespace: "shop", Name: "demo"}

// situation is the input in a golden file: the objects of the clusters, as in their API servers.
type situation struct {
	// About describes the rule that the case shows.
	About string `json:"about"`
	// Home is the cluster whose import and slices are the output.
	Home string `json:"home"`
	// Most is the maximum number of endpoints in a slice; 0 means 100.
	Most    int      `json:"most"`
	Members []holder `json:"members"`
}

type holder struct {
	Cluster string                       `json:"cluster"`
	Export  *mcsv1beta1.ServiceExport    `json:"export"`
	Service *corev1.Service              `json:"service"`
	Slices  []*discoveryv1.EndpointSlice `json:"slices"`
}

// outcome is the output in a golden file.
type outcome struct {
	Clusters []string                     `json:"clusters,omitempty"`
	Families []corev1.IPFamily            `json:"families,omitempty"`
	Import   *mcsv1beta1.ServiceImport    `json:"import,omitempty"`
	Reasons  []string                     `json:"reasons,omitempty"`
	Message  string                       `json:"message,omitempty"`
	Notes    []string                     `json:"notes,omitempty"`
	Slices   []*discoveryv1.EndpointSlice `json:"slices,omitempty"`
}

// member reads a cluster's objects as the controller does. A slice without a label gets the label
// that identifies it: the Service's at home, the clusterset's at a peer.
func (c situation) member(h holder) merge.Member {
	m := merge.Member{Cluster: h.Cluster, Slices: h.Slices}
	if h.Export != nil {
		m.Export = merge.TrimExport(h.Export)
	}
	if h.Service != nil {
		m.Service = merge.TrimService(h.Service)
	}
	for _, slice := range h.Slices {
		if slice.Labels == nil {
			key := mcsv1beta1.LabelServiceName
			if h.Cluster == c.Home {
				key = discoveryv1.LabelServiceName
			}
			slice.Labels = map[string]string{key: demo.Name}
		}
		merge.TrimSlice(slice)
	}
	return m
}

func outcomeOf(home string, most int, members []merge.Member) outcome {
	merged := merge.Merge(members)
	out := outcome{
		Clusters: merged.Clusters, Families: merged.Families, Reasons: merged.Reasons, Message: merged.Message, Notes: merged.Notes,
		Slices: desired.ImportedSlices(home, demo, merged, members, most),
	}
	if len(merged.Clusters) > 0 {
		out.Import = &mcsv1beta1.ServiceImport{}
		desired.Shape(merged, out.Import)
	}
	return out
}

func toYAML(t *testing.T, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func toJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMergeGolden shows each rule in a pair of files, named by its number: testdata/<case>.in.yaml
// gives <case>.out.yaml.
func TestMergeGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".in.yaml"), func(t *testing.T) {
			text, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			var in situation
			if err := yaml.UnmarshalStrict(text, &in); err != nil {
				t.Fatal(err)
			}
			if in.About == "" {
				t.Error("about is empty")
			}
			if in.Most == 0 {
				in.Most = 100
			}
			var members []merge.Member
			for _, h := range in.Members {
				members = append(members, in.member(h))
			}
			got := toYAML(t, outcomeOf(in.Home, in.Most, members))
			golden := strings.TrimSuffix(input, ".in.yaml") + ".out.yaml"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("differs from %s (-want +got; -update writes it):\n%s", golden, diff)
			}
		})
	}
}

// TestShape writes a merge onto imports that already exist.
func TestShape(t *testing.T) {
	red := merge.Member{Cluster: "a", Service: terms(), Export: exportWith(map[string]string{"team": "red", "tier": "web"}, map[string]string{"contact": "red"})}
	blue := merge.Member{Cluster: "b", Service: terms(), Export: exportWith(map[string]string{"team": "blue"}, nil)}
	plain := merge.Member{Cluster: "c", Service: terms(), Export: &merge.Export{}}
	headlessOne := merge.Member{Cluster: "d", Service: &merge.ServiceSpec{Type: mcsv1beta1.Headless, Affinity: corev1.ServiceAffinityNone}, Export: &merge.Export{}}

	for _, test := range []struct {
		name        string
		before      func(*mcsv1beta1.ServiceImport)
		merges      []merge.Member // one after the other
		labels      map[string]string
		annotations map[string]string
	}{
		{
			name:   "the former winner's keys go, as a whole set (C18)",
			merges: []merge.Member{red, blue},
			labels: map[string]string{"team": "blue"}, annotations: map[string]string{mcs.AnnotationExported: `{"labels":["team"]}`},
		},
		{
			name:   "no record is left where nothing is exported",
			merges: []merge.Member{red, plain},
		},
		{
			name: "what others put on the import stays",
			before: func(imp *mcsv1beta1.ServiceImport) {
				imp.Labels = map[string]string{"theirs": "1"}
				imp.Annotations = map[string]string{"theirs": "2", mcs.AnnotationDerivedService: "derived-demo", mcs.AnnotationClusterIPs: "10.0.0.9"}
			},
			merges:      []merge.Member{red, blue, plain},
			labels:      map[string]string{"theirs": "1"},
			annotations: map[string]string{"theirs": "2", mcs.AnnotationDerivedService: "derived-demo", mcs.AnnotationClusterIPs: "10.0.0.9"},
		},
		{
			name: "a record that somebody edited cannot cost an annotation that steers us",
			before: func(imp *mcsv1beta1.ServiceImport) {
				imp.Annotations = map[string]string{mcs.AnnotationVIPs: "192.0.2.1", mcs.AnnotationExported: `{"annotations":["` + mcs.AnnotationVIPs + `"],"labels":["` + mcs.LabelManagedBy + `"]}`}
			},
			merges:      []merge.Member{plain},
			annotations: map[string]string{mcs.AnnotationVIPs: "192.0.2.1"},
		},
		{
			name: "a record that is garbage counts as none, and is made anew",
			before: func(imp *mcsv1beta1.ServiceImport) {
				imp.Labels = map[string]string{"tier": "old", "other": "x"}
				imp.Annotations = map[string]string{mcs.AnnotationExported: `{"labels":["other"`}
			},
			merges:      []merge.Member{red},
			labels:      map[string]string{"team": "red", "tier": "web", "other": "x"},
			annotations: map[string]string{"contact": "red", mcs.AnnotationExported: `{"labels":["team","tier"],"annotations":["contact"]}`},
		},
		{
			name:   "a flip to Headless and back leaves nothing behind (C16)",
			merges: []merge.Member{plain, headlessOne, plain},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			imp := &mcsv1beta1.ServiceImport{}
			imp.Spec.IPs, imp.Spec.IPFamilies = []string{"10.0.0.9"}, []corev1.IPFamily{corev1.IPv4Protocol}
			if test.before != nil {
				test.before(imp)
			}
			for _, member := range test.merges {
				desired.Shape(merge.Merge([]merge.Member{member}), imp)
			}
			labels := map[string]string{mcs.LabelManagedBy: mcs.ControllerName}
			for key, value := range test.labels {
				labels[key] = value
			}
			equal(t, "labels", imp.Labels, labels)
			if len(test.annotations)+len(imp.Annotations) > 0 {
				equal(t, "annotations", imp.Annotations, test.annotations)
			}
			equal(t, "ips", imp.Spec.IPs, []string{"10.0.0.9"})
			equal(t, "ipFamilies", imp.Spec.IPFamilies, []corev1.IPFamily{corev1.IPv4Protocol})
			fresh := &mcsv1beta1.ServiceImport{}
			desired.Shape(merge.Merge(test.merges[len(test.merges)-1:]), fresh)
			fresh.Spec.IPs, fresh.Spec.IPFamilies = imp.Spec.IPs, imp.Spec.IPFamilies
			equal(t, "spec, as on an import that is new", imp.Spec, fresh.Spec)
		})
	}
}

// What another cluster exports has limits here: the condition's message, the notes, and what is
// written to the import. Otherwise the import could not be written (an object's annotations have
// 256 KiB).
func TestMergeIsBounded(t *testing.T) {
	long := strings.Repeat("\x01", 253)
	labels, annotations := map[string]string{}, map[string]string{}
	for i := range 2000 {
		labels[fmt.Sprintf("l%d", i)] = strings.Repeat("v", 63)
		labels[fmt.Sprintf("bad key %d", i)] = "x"
		annotations[fmt.Sprintf("a%d", i)] = strings.Repeat("v", 200)
	}
	annotations["huge"] = strings.Repeat("v", 300<<10)
	var members []merge.Member
	for i := range 20 {
		id := strings.Repeat("x", 61) + fmt.Sprintf("%02d", i)
		m := merge.Member{Cluster: id, Service: terms(), Export: exportWith(labels, annotations)}
		m.Service.Ports = nil
		for p := range 50 {
			m.Service.Ports = append(m.Service.Ports, mcsv1beta1.ServicePort{
				Name: fmt.Sprint(p, long), Protocol: corev1.Protocol(long), Port: int32(i*100 + p), AppProtocol: &long,
			})
		}
		m.Service.Distribution = fmt.Sprint(i, long)
		if i > 0 {
			m.Export = &merge.Export{Created: metav1.NewTime(noon.Add(time.Hour))}
		}
		members = append(members, m)
	}
	merged := merge.Merge(members)
	if len(merged.Message) > 4096 || len(merged.Reasons) != 4 {
		t.Errorf("a message of %d bytes for %v", len(merged.Message), merged.Reasons)
	}
	if len(merged.Notes) != 11 || len(strings.Join(merged.Notes, "")) > 2000 {
		t.Errorf("%d notes: %q", len(merged.Notes), merged.Notes)
	}
	imp := &mcsv1beta1.ServiceImport{}
	desired.Shape(merged, imp)
	size := 0
	for key, value := range imp.Annotations {
		size += len(key) + len(value)
	}
	if _, huge := imp.Annotations["huge"]; huge || size > 128<<10 || len(merged.Labels) < 100 {
		t.Errorf("annotations of %d bytes, %d labels", size, len(merged.Labels))
	}
}

// A store's values do not change when the results are edited.
func TestMergeSharesNothing(t *testing.T) {
	appProtocol, zone := "http", "z1"
	m := merge.Member{Cluster: "a", Service: terms(), Export: exportWith(map[string]string{"team": "red"}, nil)}
	m.Service.Distribution = corev1.ServiceTrafficDistributionPreferSameNode
	m.Service.Ports[0].AppProtocol = &appProtocol
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("http"), AppProtocol: &appProtocol}}}
	slice.Name, slice.Labels = "demo-1", map[string]string{discoveryv1.LabelServiceName: demo.Name}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}, Zone: &zone, NodeName: &zone, Hostname: &zone,
		Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}}
	merge.TrimSlice(slice)
	ready := slice.Endpoints[0].Conditions.Ready
	m.Slices = []*discoveryv1.EndpointSlice{slice}
	before := toYAML(t, m)

	merged := merge.Merge([]merge.Member{m})
	imp := &mcsv1beta1.ServiceImport{}
	desired.Shape(merged, imp)
	*imp.Spec.Ports[0].AppProtocol, imp.Labels["team"] = "spoiled", "spoiled"
	mirrored := desired.ImportedSlices("a", demo, merged, []merge.Member{m}, 100)[0]
	overlaid := ownership.Overlay(slice, mirrored)
	for _, s := range []*discoveryv1.EndpointSlice{mirrored, overlaid} {
		e := &s.Endpoints[0]
		e.Addresses[0], *e.Zone, *e.Conditions.Ready, *e.NodeName, *e.Hostname, e.Hints.ForZones[0].Name = "spoiled", "spoiled", false, "spoiled", "spoiled", "spoiled"
		*s.Ports[0].AppProtocol, s.Labels[discoveryv1.LabelServiceName] = "spoiled", "spoiled"
	}
	equal(t, "member", toYAML(t, m), before)
	equal(t, "ready", *ready, true)
}

// exportWith returns an export as a store keeps it.
func exportWith(labels, annotations map[string]string) *merge.Export {
	return merge.TrimExport(&mcsv1beta1.ServiceExport{Spec: mcsv1beta1.ServiceExportSpec{ExportedLabels: labels, ExportedAnnotations: annotations}})
}

func terms() *merge.ServiceSpec {
	return &merge.ServiceSpec{
		Type: mcsv1beta1.ClusterSetIP, Affinity: corev1.ServiceAffinityNone, InternalPolicy: corev1.ServiceInternalTrafficPolicyCluster,
		Families: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []mcsv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
	}
}

// dice generates clusters that often disagree: each value is chosen from a few values.
type dice struct{ *rand.Rand }

func pick[T any](d dice, values ...T) T { return values[d.IntN(len(values))] }

func (d dice) members() []merge.Member {
	ids := []string{"a", "b", "c", "a.b", "b.c", "b-c", strings.Repeat("x", 63)}
	d.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	members := make([]merge.Member, 1+d.IntN(len(ids)))
	for i := range members {
		members[i] = d.member(ids[i])
	}
	return members
}

func (d dice) member(id string) merge.Member {
	m := merge.Member{Cluster: id}
	if d.IntN(8) > 0 {
		m.Export = exportWith(
			pick(d, nil, map[string]string{}, map[string]string{"team": "red"}, map[string]string{"team": "blue", mcs.LabelManagedBy: "x", "tier": "bad value"}),
			pick(d, nil, map[string]string{"note": "1"}, map[string]string{"note": "2", mcs.AnnotationVIPs: "x"}))
		m.Export.Created = metav1.NewTime(noon.Add(time.Duration(d.IntN(3)) * time.Second))
	}
	if d.IntN(8) > 0 {
		m.Service = &merge.ServiceSpec{
			External:       d.IntN(8) == 0,
			Type:           pick(d, mcsv1beta1.ClusterSetIP, mcsv1beta1.ClusterSetIP, mcsv1beta1.Headless),
			Ports:          d.ports(),
			Affinity:       corev1.ServiceAffinityNone,
			InternalPolicy: pick(d, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal),
			Distribution:   pick(d, "", "PreferClose", "PreferSameZone", "PreferSameNode", "Other"),
			Families: pick(d, nil, []corev1.IPFamily{corev1.IPv4Protocol}, []corev1.IPFamily{corev1.IPv6Protocol},
				[]corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}),
		}
		if d.IntN(2) == 0 {
			m.Service.Affinity, m.Service.AffinityTimeout = corev1.ServiceAffinityClientIP, pick(d, int32(10), 10800)
		}
	}
	m.Slices = d.slices(id, m.Service)
	return m
}

// ports returns valid ports of one Service: no name and no number is used twice.
func (d dice) ports() []mcsv1beta1.ServicePort {
	var ports []mcsv1beta1.ServicePort
	for range d.IntN(5) {
		p := mcsv1beta1.ServicePort{
			Name: pick(d, "", "http", "https", "dns"), Protocol: pick(d, corev1.ProtocolTCP, corev1.ProtocolUDP),
			Port: pick(d, int32(53), 80, 443), AppProtocol: pick(d, nil, nil, new("http")),
		}
		clash := slices.ContainsFunc(ports, func(o mcsv1beta1.ServicePort) bool {
			return o.Name == p.Name || o.Protocol == p.Protocol && o.Port == p.Port
		})
		if !clash {
			ports = append(ports, p)
		}
	}
	return ports
}

// slices returns the Service's own slices.
func (d dice) slices(id string, terms *merge.ServiceSpec) []*discoveryv1.EndpointSlice {
	var all []*discoveryv1.EndpointSlice
	for i := range d.IntN(3) {
		slice := &discoveryv1.EndpointSlice{AddressType: pick(d, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)}
		slice.Name, slice.Labels = fmt.Sprintf("demo-%d", i), map[string]string{discoveryv1.LabelServiceName: demo.Name}
		slice.Annotations = pick(d, nil, map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-01-01T00:00:00Z"})
		for e := range d.IntN(7) {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				// The addresses only have to be unique.
				Addresses: []string{fmt.Sprintf("%s/%d/%d", id, i, e)},
				Zone:      pick(d, nil, new("z1"), new("no label value")), NodeName: pick(d, nil, new("n1")), Hostname: pick(d, nil, new("demo-0")),
				Conditions: discoveryv1.EndpointConditions{Ready: pick(d, nil, new(true), new(false))},
			})
		}
		if terms != nil {
			for _, p := range terms.Ports {
				slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: new(p.Port + 8000)})
			}
		}
		if d.IntN(4) == 0 {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new("stray"), Port: new(int32(1))})
		}
		all = append(all, slice)
	}
	return all
}

// seenFrom returns what home knows of the clusters: of itself, the Service's slices; of a peer, the
// slices that the peer's controller made. That controller can know only some of the other clusters.
func (d dice) seenFrom(home string, all []merge.Member) []merge.Member {
	seen := slices.Clone(all)
	for i, m := range seen {
		if m.Cluster == home {
			continue
		}
		view := slices.DeleteFunc(slices.Clone(all), func(other merge.Member) bool { return other.Cluster != m.Cluster && d.IntN(2) == 0 })
		seen[i].Slices = nil
		for _, slice := range desired.ImportedSlices(m.Cluster, demo, merge.Merge(view), view, 4) {
			if slice.Labels[mcsv1beta1.LabelSourceCluster] == m.Cluster {
				merge.TrimSlice(slice)
				seen[i].Slices = append(seen[i].Slices, slice)
			}
		}
	}
	return seen
}

func (d dice) shuffled(all []merge.Member) []merge.Member {
	all = slices.Clone(all)
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i := range all {
		s := slices.Clone(all[i].Slices)
		d.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		all[i].Slices = s
	}
	return all
}

// TestMergeProperties checks, for random clusters, the properties that always hold: C11 to C14,
// C18, C19, C32 to C35.
func TestMergeProperties(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	conflicting := 0
	for run := range uint64(200) {
		d := dice{rand.New(rand.NewPCG(seed, run))}
		all := d.members()
		merged := merge.Merge(all)
		if len(merged.Reasons) > 1 {
			conflicting++
		}
		checkUnion(t, merged, all)
		checkShape(t, d, merged)
		checkNewcomer(t, d, all)
		var first []*discoveryv1.EndpointSlice
		for i, home := range all {
			seen := d.seenFrom(home.Cluster, all)
			before := toJSON(t, seen)
			out := outcomeOf(home.Cluster, 4, seen)
			equal(t, "what is read", toJSON(t, seen), before)
			equal(t, "what comes out in another order (C11)", toJSON(t, outcomeOf(home.Cluster, 4, d.shuffled(seen))), toJSON(t, out))
			checkSlices(t, merged, all, out.Slices)
			if everywhere := asElsewhere(out.Slices); i == 0 {
				first = everywhere
			} else {
				equal(t, "slices of "+home.Cluster+" and of "+all[0].Cluster, everywhere, first)
			}
		}
		if t.Failed() {
			t.Fatalf("run %d of seed %d:\n%s", run, seed, toYAML(t, all))
		}
	}
	if conflicting < 40 {
		t.Errorf("only %d of 200 runs had several conflicts", conflicting)
	}
}

// checkUnion checks that no name and no number is used twice, that no port is missing, and that all
// ports of the oldest export come first (C13).
func checkUnion(t *testing.T, merged merge.Merged, all []merge.Member) {
	t.Helper()
	names, numbers := map[string]bool{}, map[string]bool{}
	for _, p := range merged.Ports {
		number := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if names[p.Name] || numbers[number] {
			t.Errorf("%q or %s is twice in %v", p.Name, number, merged.Ports)
		}
		names[p.Name], numbers[number] = true, true
	}
	same := true
	for _, m := range all {
		if !m.Exports() {
			continue
		}
		for _, p := range m.Service.Ports {
			if number := fmt.Sprintf("%d/%s", p.Port, p.Protocol); !names[p.Name] && !numbers[number] {
				t.Errorf("port %s %q of %s is forgotten", number, p.Name, m.Cluster)
			}
		}
		same = same && len(m.Service.Ports) == len(merged.Ports) && portText(m.Service.Ports) == portText(merged.Ports)
		if len(merged.Families) > 0 && len(m.Service.Families) > 0 && slices.ContainsFunc(merged.Families, func(f corev1.IPFamily) bool { return !slices.Contains(m.Service.Families, f) }) &&
			!slices.Contains(merged.Reasons, "IPFamilyConflict") {
			t.Errorf("%v do not reach %s, and it is not reported (C19)", merged.Families, m.Cluster)
		}
	}
	if conflict := slices.Contains(merged.Reasons, "PortConflict"); conflict == same {
		t.Errorf("PortConflict is %v, that all ports are the same is %v", conflict, same)
	}
}

// portText returns a set of ports as text.
func portText(ports []mcsv1beta1.ServicePort) string {
	var texts []string
	for _, p := range ports {
		text, _ := json.Marshal(p)
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// checkShape checks that an import with the shape keeps it, also after the API server has stored
// it, and whatever shape it had before.
func checkShape(t *testing.T, d dice, merged merge.Merged) {
	t.Helper()
	fresh, reused := &mcsv1beta1.ServiceImport{}, &mcsv1beta1.ServiceImport{}
	desired.Shape(merged, fresh)
	desired.Shape(merge.Merge(d.members()), reused)
	desired.Shape(merged, reused)
	equal(t, "import that had another shape", toJSON(t, reused), toJSON(t, fresh))
	var read mcsv1beta1.ServiceImport
	text, err := json.Marshal(fresh)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, imp := range []*mcsv1beta1.ServiceImport{fresh, &read} {
		again := imp.DeepCopy()
		desired.Shape(merged, again)
		if !equality.Semantic.DeepEqual(again, imp) {
			t.Errorf("shaped twice: %s", cmp.Diff(imp, again))
		}
	}
}

// checkNewcomer checks that a later export removes nothing of the earlier ones (C12), except
// families that it does not have (C19).
func checkNewcomer(t *testing.T, d dice, all []merge.Member) {
	t.Helper()
	late := d.member("late")
	if late.Export == nil {
		return
	}
	late.Export.Created = metav1.NewTime(noon.Add(time.Hour))
	before, after := merge.Merge(all), merge.Merge(append(slices.Clone(all), late))
	if len(before.Clusters) == 0 {
		return
	}
	had := before
	had.Clusters, had.Conflict, had.Families = after.Clusters, after.Conflict, after.Families
	has := after
	has.Ports = append([]mcsv1beta1.ServicePort(nil), after.Ports[:min(len(before.Ports), len(after.Ports))]...)
	equal(t, "merge after a newcomer", toJSON(t, has), toJSON(t, had))
	for _, m := range all {
		// A newcomer can cause a second name for an unnamed port, which also keeps its own, and its ports can lead to one that had lost.
		plain := func(merged merge.Merged) []*discoveryv1.EndpointSlice {
			all := desired.ImportedSlices(m.Cluster, demo, merged, []merge.Member{m}, 4)
			for _, slice := range all {
				delete(slice.Annotations, mcs.AnnotationHiddenPorts)
				slice.Ports = slices.DeleteFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
					_, had := mcs.PortNamed(before.Ports, *p.Name)
					return strings.HasPrefix(*p.Name, "unnamed-") || !had && *p.Name != "stray"
				})
				if len(slice.Ports) == 0 {
					slice.Ports = nil
				}
			}
			return asElsewhere(all)
		}
		equal(t, "slices after a newcomer", plain(after), plain(before))
	}
}
