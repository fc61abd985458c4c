package preference

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// clusterset returns four clusters of two regions: home and near in eu, far in us, and odd, whose
// controller announces no region.
func clusterset(home, near, far, odd int) []Cluster {
	region := func(name string) map[string]string {
		return map[string]string{"region.topology.kubernetes.io": name}
	}
	return []Cluster{
		{ID: "home", Home: true, Ready: home, Properties: region("eu")}, {ID: "near", Ready: near, Properties: region("eu")},
		{ID: "far", Ready: far, Properties: region("us")}, {ID: "odd", Ready: odd},
	}
}

func policy(t testing.TB, list, minReady string) Policy {
	t.Helper()
	p := Resolve(Texts{list, minReady, ""}, Texts{})
	if len(p.Faults) > 0 {
		t.Fatal(p.Faults)
	}
	return p
}

func names(c Choice) string { return strings.Join(slices.Sorted(maps.Keys(c.Clusters)), " ") }

// Each entry contains the clusters that the documents name.
func TestEntries(t *testing.T) {
	for list, want := range map[string]string{
		"local":                            "home",
		"any":                              "far home near odd",
		"cluster=far":                      "far",
		"cluster=nobody":                   "",
		"topology.kubernetes.io/region":    "home near",
		"region.topology.kubernetes.io":    "home near",
		"topology.kubernetes.io/region=us": "far",
		"topology.kubernetes.io/zone":      "home",
		" local , cluster=far ":            "home",
	} {
		t.Run(list, func(t *testing.T) {
			if got := names(policy(t, list, "").Choose(clusterset(1, 1, 1, 1), Memory{}, noon)); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// The first entry with enough ready endpoints is chosen. The numbers are the ready endpoints of
// home, near, far and odd.
func TestChoice(t *testing.T) {
	const order = "local, topology.kubernetes.io/region, any"
	for _, c := range []struct {
		list, minReady string
		ready          [4]int
		entry          int
		clusters       string
	}{
		{order, "", [4]int{1, 1, 1, 1}, 0, "home"},
		{order, "", [4]int{0, 1, 1, 1}, 1, "home near"},
		{order, "", [4]int{0, 0, 1, 1}, 2, "far home near odd"},
		{order, "", [4]int{0, 0, 0, 0}, 3, "far home near odd"},
		{order, "2", [4]int{1, 1, 1, 1}, 1, "home near"},
		{order, "3", [4]int{1, 1, 1, 1}, 2, "far home near odd"},
		{order, "5", [4]int{1, 1, 1, 1}, 3, "far home near odd"},
		{"local, any", "", [4]int{0, 0, 0, 1}, 1, "far home near odd"},
		{"cluster=far, cluster=near", "", [4]int{9, 1, 0, 9}, 1, "near"},
		{"cluster=far, cluster=near", "", [4]int{9, 0, 0, 9}, 2, "far near"},
		{"topology.kubernetes.io/region=us, local", "", [4]int{1, 1, 0, 1}, 1, "home"},
		{"local", "", [4]int{0, 5, 5, 5}, 1, "home"},
	} {
		t.Run(fmt.Sprint(c.list, " ", c.minReady, c.ready), func(t *testing.T) {
			got := policy(t, c.list, c.minReady).Choose(clusterset(c.ready[0], c.ready[1], c.ready[2], c.ready[3]), Memory{}, noon)
			if got.Entry != c.entry || names(got) != c.clusters {
				t.Errorf("entry %d, %q; want %d, %q", got.Entry, names(got), c.entry, c.clusters)
			}
		})
	}
}

// A malformed annotation names the entry and the accepted forms, and has no effect.
func TestMalformedAnnotations(t *testing.T) {
	export := Texts{Clusters: "local, any", MinReady: "3", ReturnAfter: "1m"}
	for _, c := range []struct {
		texts Texts
		says  string
	}{
		{Texts{Clusters: "local, nearby, any"}, `"nearby" as entry 2, want one of: local, any, cluster=ID, PROPERTY, PROPERTY=VALUE`},
		{Texts{Clusters: "local,,any"}, `"" as entry 2`},
		{Texts{Clusters: " "}, `"" as entry 1`},
		{Texts{Clusters: "cluster="}, `"cluster=" as entry 1`},
		{Texts{Clusters: "cluster=A_b"}, `"cluster=A_b" as entry 1`},
		{Texts{Clusters: "local=eu"}, `"local=eu" as entry 1`},
		{Texts{Clusters: "topology.kubernetes.io/region="}, "as entry 1"},
		{Texts{Clusters: "topology.kubernetes.io/region=e u"}, "as entry 1"},
		{Texts{Clusters: "topology.kubernetes.io/re/gion"}, "as entry 1"},
		{Texts{Clusters: strings.Repeat("any,", maxEntries) + "any"}, "has 17 entries, want at most 16"},
		{Texts{Clusters: "cluster=" + strings.Repeat("a", maxText)}, "is longer than 1024 bytes"},
		{Texts{MinReady: "0"}, `min-ready of this ServiceImport is "0", want a number from 1`},
		{Texts{MinReady: "many"}, `is "many"`},
		{Texts{ReturnAfter: "10"}, `return-after of this ServiceImport is "10", want a duration from 0s`},
		{Texts{ReturnAfter: "-1s"}, `is "-1s"`},
		{Texts{ReturnAfter: "25h"}, `is "25h"`},
	} {
		t.Run(c.says, func(t *testing.T) {
			got := Resolve(c.texts, export)
			if len(got.Faults) != 1 || !strings.Contains(got.Faults[0], c.says) || !strings.HasSuffix(got.Faults[0], "so it has no effect") {
				t.Errorf("%q, want %q", got.Faults, c.says)
			}
			if len(got.Entries) != 2 || got.MinReady != 3 || got.ReturnAfter != time.Minute {
				t.Errorf("the annotations of the export are not in effect: %+v", got)
			}
			if own := c.texts.Faults(); len(own) != 1 || !strings.Contains(own[0], "this ServiceExport") {
				t.Errorf("on an export: %q", own)
			}
		})
	}
}

func TestReadKeepsOnlyWhatItNeeds(t *testing.T) {
	read := Read(map[string]string{mcs.AnnotationPreferClusters: strings.Repeat("x", 1<<18), mcs.AnnotationMinReady: "", "other": "y"})
	if len(read.Clusters) != maxText+1 || read.MinReady != " " || read.ReturnAfter != "" {
		t.Errorf("it is %d bytes, %q and %q", len(read.Clusters), read.MinReady, read.ReturnAfter)
	}
	if again := Read(read.Annotations()); again != read {
		t.Errorf("read again: %+v", again)
	}
	if (Texts{}) != Read(nil) || len((Texts{}).Annotations()) != 0 {
		t.Error("nothing is read as something")
	}
}

// After a restart of the process, the entry in use follows from the clusters that get traffic.
func TestMemoryAfterARestart(t *testing.T) {
	p := policy(t, "local, cluster=near, cluster=far", "")
	for _, c := range []struct {
		connected string
		want      int // of an earlier entry only after a while
	}{{"", 0}, {"home", 0}, {"near", 1}, {"far", 2}, {"near far", 3}} {
		all := clusterset(1, 1, 1, 1)
		for i := range all {
			all[i].Connected = slices.Contains(strings.Fields(c.connected), all[i].ID)
		}
		got := p.Choose(all, Memory{}, noon)
		if got.Entry != c.want {
			t.Errorf("%q: entry %d, want %d", c.connected, got.Entry, c.want)
		}
		later := p.Choose(all, got.Memory, noon.Add(p.ReturnAfter))
		if later.Entry != 0 || c.want > 0 && got.Again != p.ReturnAfter {
			t.Errorf("%q: after %v, entry %d, announced for %v", c.connected, p.ReturnAfter, later.Entry, got.Again)
		}
	}
}

// For random histories of readiness: the connected clusters are those of the first sufficient entry
// that may be used, every return to an earlier entry comes after return-after, and a choice at the
// announced time is the same as one that is asked for all the time.
func TestRandomHistoriesOfReadiness(t *testing.T) {
	p := policy(t, "local, topology.kubernetes.io/region, cluster=far, any", "2")
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var m Memory
		ready, now := [4]int{2, 2, 2, 2}, noon
		since := map[int]time.Time{} // when each entry became sufficient
		last := 0
		var returned time.Time
		for range 200 {
			now = now.Add(time.Duration(random.IntN(4000)) * time.Millisecond)
			ready[random.IntN(4)] = random.IntN(4)
			enough := []bool{ready[0] >= 2, ready[0]+ready[1] >= 2, ready[2] >= 2, ready[0]+ready[1]+ready[2]+ready[3] >= 2}
			for i, ok := range enough {
				if began := since[i]; !ok {
					delete(since, i)
				} else if began.IsZero() {
					since[i] = now
				}
			}
			got := p.Choose(clusterset(ready[0], ready[1], ready[2], ready[3]), m, now)
			m = got.Memory
			first := slices.Index(enough, true)
			switch {
			case first < 0 && got.Entry != 4, got.Entry < 4 && !enough[got.Entry]:
				t.Fatalf("seed %d: entry %d with %v", seed, got.Entry, ready)
			case got.Entry > first && first >= 0 && now.Sub(since[first]) >= p.ReturnAfter:
				t.Fatalf("seed %d: entry %d, and %d has been sufficient for %v", seed, got.Entry, first, now.Sub(since[first]))
			case got.Entry > first && first >= 0 && got.Again <= 0:
				t.Fatalf("seed %d: nothing announces the return to entry %d", seed, first)
			}
			if got.Entry < last {
				early := now.Sub(since[got.Entry]) < p.ReturnAfter
				if forced := last == 4 || !enough[last]; early && !forced {
					t.Fatalf("seed %d: entry %d is used again after %v", seed, got.Entry, now.Sub(since[got.Entry]))
				}
				if !early && got.Entry == 0 {
					if !returned.IsZero() && now.Sub(returned) < p.ReturnAfter {
						t.Fatalf("seed %d: two returns within %v", seed, now.Sub(returned))
					}
					returned = now
				}
			}
			last = got.Entry
		}
	}
}

// Standby keeps what other clusters need to know, and kube-proxy uses no endpoint on standby: none
// is ready, and none is serving and terminating, except those in reserve.
func TestStandbyCanBeTakenBack(t *testing.T) {
	type conditions = discoveryv1.EndpointConditions
	given := func(ready, serving, terminating *bool) conditions {
		return conditions{Ready: ready, Serving: serving, Terminating: terminating}
	}
	yes, no := new(true), new(false)
	for _, c := range []struct{ before, after conditions }{
		{given(yes, yes, no), given(yes, yes, no)},
		{given(nil, nil, nil), given(yes, yes, no)},
		{given(no, no, no), given(no, no, no)},
		{given(no, yes, yes), given(no, yes, yes)},
		{given(no, no, yes), given(no, yes, yes)},
		{given(yes, no, no), given(yes, yes, no)},
		{given(yes, yes, yes), given(yes, yes, no)},
	} {
		for _, as := range []Standby{Off, Reserve} {
			slice := &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}, Endpoints: []discoveryv1.Endpoint{{Conditions: c.before}},
			}
			ready := Ready(slice)
			Disconnect(slice, as)
			on := slice.Endpoints[0].Conditions
			if used, want := *on.Serving && *on.Terminating, as == Reserve && ready > 0; *on.Ready || used != want {
				t.Errorf("%v: kube-proxy uses it on standby (%q): %v", texts(c.before), as, texts(on))
			}
			if Ready(slice) != ready || !OnStandby(slice) {
				t.Errorf("%v: %d ready on standby (%q), want %d", texts(c.before), Ready(slice), as, ready)
			}
			for range 2 { // The second time, it is no longer on standby.
				Connect(slice)
				if got := fmt.Sprint(texts(slice.Endpoints[0].Conditions)); OnStandby(slice) || got != fmt.Sprint(texts(c.after)) {
					t.Errorf("%v (%q): %s, want %v", texts(c.before), as, got, texts(c.after))
				}
			}
		}
	}
}

func texts(c discoveryv1.EndpointConditions) (all []string) {
	for _, b := range []*bool{c.Ready, c.Serving, c.Terminating} {
		if b == nil {
			all = append(all, "nil")
		} else {
			all = append(all, fmt.Sprint(*b))
		}
	}
	return all
}
