package plan

import (
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/merge"
)

// The last endpoints of a name stay when their cluster is only assumed to be dead, whether this
// process has read the cluster or not. They go when another cluster has a ready endpoint, and when
// the death is proven.
func TestLastEndpointsStay(t *testing.T) {
	assumed := func(m merge.Member) merge.Member {
		m.Assumed = true
		return m
	}
	dead := func(m merge.Member) merge.Member {
		m.Slices = nil
		return m
	}
	unready := func(m merge.Member) merge.Member {
		m.Slices[0].Endpoints[0].Conditions.Ready = new(false)
		return m
	}
	far := func() merge.Member { return mirrored(exporting("c2", 0, 80, "10.2.0.1")) }
	farther := func() merge.Member { return mirrored(exporting("c3", 2, 80, "10.3.0.1")) }
	home := func() merge.Member { return exporting("c1", 1, 80, "10.1.0.1") }
	for name, c := range map[string]struct {
		members []merge.Member
		silent  []string // c2 is one of them if it was not read since the start
		assumed []string
		kept    string
		want    []string
	}{
		"another cluster is ready":                  {members: []merge.Member{home(), assumed(far())}, want: []string{"10.1.0.1"}},
		"no other is ready":                         {members: []merge.Member{unready(home()), assumed(far())}, kept: "c2", want: []string{"10.1.0.1", "10.2.0.1"}},
		"no other exports":                          {members: []merge.Member{assumed(far())}, kept: "c2", want: []string{"10.2.0.1"}},
		"another has a Service, but no export":      {members: []merge.Member{{Cluster: "c1", Slices: home().Slices}, assumed(far())}, kept: "c2", want: []string{"10.2.0.1"}},
		"two are silent":                            {members: []merge.Member{unready(home()), assumed(far()), assumed(farther())}, kept: "c2, c3", want: []string{"10.1.0.1", "10.2.0.1", "10.3.0.1"}},
		"its death is proven":                       {members: []merge.Member{unready(home()), dead(far())}, want: []string{"10.1.0.1"}},
		"not read, and another cluster is ready":    {members: []merge.Member{home()}, silent: []string{"c2"}, assumed: []string{"c2"}, want: []string{"10.1.0.1"}},
		"not read, and no other is ready":           {members: []merge.Member{unready(home())}, silent: []string{"c2"}, assumed: []string{"c2"}, kept: "c2", want: []string{"10.1.0.1", "10.2.0.1"}},
		"not read, and its death is proven":         {members: []merge.Member{unready(home())}, silent: []string{"c2"}, want: []string{"10.1.0.1"}},
		"one is read, one is not, and none is left": {members: []merge.Member{unready(home()), assumed(farther())}, silent: []string{"c2"}, assumed: []string{"c2"}, kept: "c2, c3", want: []string{"10.1.0.1", "10.2.0.1", "10.3.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newName("c1", home(), far(), farther())
			n.settle(t)
			n.Members, n.SilentExpired, n.SilentAssumed = c.members, c.silent, c.assumed
			n.settle(t)
			var got []string
			for _, s := range n.slices {
				for _, e := range s.Endpoints {
					got = append(got, e.Addresses...)
				}
			}
			equal(t, "endpoints", joined(got), joined(c.want))
			kept := ""
			if shown := meta.FindStatusCondition(n.imp.Status.Conditions, "EndpointsKept"); shown != nil {
				_, kept, _ = strings.Cut(shown.Message, "proven to be dead: ")
			}
			equal(t, "the clusters in the condition EndpointsKept", kept, c.kept)

			// The cache has only the number of the endpoints of these slices.
			st := n.state()
			st.Slices = nil
			for _, slice := range n.slices {
				slice = slice.DeepCopy()
				digest.Keep(slice)
				st.Slices = append(st.Slices, slice)
			}
			if changes := Plan(st); !changes.Empty() {
				t.Errorf("with the slices of the cache, it plans %+v", changes)
			}

			// It is back.
			n.Members, n.SilentExpired, n.SilentAssumed = []merge.Member{home(), far(), farther()}, nil, nil
			n.settle(t)
			n.shows(t, "c1,c2,c3", 80, "10.1.0.1", "10.2.0.1", "10.3.0.1")
			if shown := meta.FindStatusCondition(n.imp.Status.Conditions, "EndpointsKept"); shown != nil {
				t.Errorf("the condition stays: %+v", shown)
			}
		})
	}
}

func joined(all []string) string {
	slices.Sort(all)
	return strings.Join(all, " ")
}

// The last endpoints in one address family stay, also if another cluster has endpoints in the other
// family.
func TestLastEndpointsOfAFamilyStay(t *testing.T) {
	home, far := exporting("c1", 0, 80, "10.1.0.1"), mirrored(exporting("c2", 1, 80, "10.2.0.1"))
	six := far.Slices[0].DeepCopy()
	six.Name += "-6"
	six.AddressType, six.Endpoints[0].Addresses = discoveryv1.AddressTypeIPv6, []string{"fd00::2"}
	far.Slices = append(far.Slices, six)
	for _, both := range []bool{false, true} {
		n := newName("c1", home, far)
		n.settle(t)
		gone := far
		gone.Assumed = true
		n.Members = []merge.Member{home, gone}
		if both {
			other := mirrored(exporting("c3", 2, 80, "10.3.0.1"))
			also := six.DeepCopy()
			also.Endpoints[0].Addresses = []string{"fd00::3"}
			other.Slices = append(other.Slices, also)
			n.Members = append(n.Members, other)
		}
		n.settle(t)
		shown := meta.FindStatusCondition(n.imp.Status.Conditions, "EndpointsKept")
		if kept := shown != nil && strings.Contains(shown.Message, "c2"); kept == both {
			t.Errorf("with IPv6 endpoints elsewhere %v: %+v", both, shown)
		}
	}
}
