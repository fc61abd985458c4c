package desired

import (
	"maps"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// Checked are the endpoints of other clusters that are connected to all the time, because the
// annotation clusterset-dns.io/probe asks for it. The zero value is that of an import without it.
type Checked struct {
	// Asked means that the annotation asks for it, and Off that the controller does not do it.
	Asked, Off bool
	// Targets are the endpoints, by cluster, and whether each of them fails.
	Targets map[string]map[datapath.Target]bool
	// Failing are the endpoints that fail, in the form "cluster address:port", sorted.
	Failing []string
	// Stay means that the failing endpoints get traffic nevertheless: in one of their address families,
	// no other endpoint of the name is ready.
	Stay bool
	// More means that an import has more endpoints than are checked.
	More bool
}

// check marks the endpoints that do not accept connections as not ready, if the import or the oldest
// export asks for it. Endpoints of this cluster are not connected to: its kubelets do that.
func (b *builder) check() Checked {
	answer := mcs.AnswerOf(b.Import.Annotations, mcs.AnnotationProbe)
	c := Checked{Asked: answer == mcs.Yes || answer != mcs.No && b.merged.Probe}
	if c.Off = !b.Clusterset.Probes; !c.Asked || c.Off {
		return c
	}
	c.Targets = map[string]map[datapath.Target]bool{}
	before, after := digest.ReadyFamilies(b.waitingSlices()), digest.ReadyFamilies(b.waitingSlices())
	healthy := slices.Clone(b.members)
	for i := range healthy {
		m := &healthy[i]
		if !m.Exports() {
			continue
		}
		maps.Copy(before, digest.ReadyFamilies(m.Slices))
		if m.Cluster != b.homeID() {
			m.Slices = c.without(m.Cluster, m.Slices, b.failing(m.Cluster))
		}
		maps.Copy(after, digest.ReadyFamilies(m.Slices))
	}
	slices.Sort(c.Failing)
	if c.Stay = len(after) < len(before); !c.Stay {
		b.members = healthy
	}
	return c
}

// without returns the slices of a cluster without its failing endpoints.
func (c *Checked) without(cluster string, all []*discoveryv1.EndpointSlice, failing func(datapath.Target) bool) []*discoveryv1.EndpointSlice {
	targets := map[datapath.Target]bool{}
	marked := slices.Clone(all)
	for i, slice := range all {
		of := datapath.Checked(slice)
		var fails []int
		for _, at := range slices.Sorted(maps.Keys(of)) {
			target := of[at]
			if _, known := targets[target]; !known && len(targets) == datapath.MaxChecked {
				c.More = true
				continue
			}
			if targets[target] = failing(target); targets[target] {
				fails = append(fails, at)
			}
		}
		marked[i] = withFailing(slice, fails, of)
	}
	if len(targets) > 0 {
		c.Targets[cluster] = targets
	}
	for at, fails := range targets {
		if fails {
			c.Failing = append(c.Failing, cluster+" "+at.String())
		}
	}
	return marked
}

// withFailing returns a slice in which these endpoints are not ready, and named in an annotation. They are terminating, so that kube-proxy
// does not prefer them to the same address of another cluster.
func withFailing(slice *discoveryv1.EndpointSlice, fails []int, of map[int]datapath.Target) *discoveryv1.EndpointSlice {
	if len(fails) == 0 {
		return slice
	}
	slice = slice.DeepCopy() // it belongs to a store
	var texts []string
	for _, at := range fails {
		slice.Endpoints[at].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false), Terminating: new(true)}
		texts = append(texts, of[at].String())
	}
	if slice.Annotations == nil {
		slice.Annotations = map[string]string{}
	}
	slices.Sort(texts)
	slice.Annotations[mcs.AnnotationFailing] = strings.Join(texts, ",")
	return slice
}

// failing returns whether an endpoint of a cluster fails. At the start of this process, the
// existing slices show it.
func (b builder) failing(cluster string) func(datapath.Target) bool {
	before := map[string]bool{}
	for _, slice := range b.Slices {
		if ownership.SliceIsFrom(cluster, slice, b.Import) {
			for text := range strings.SplitSeq(slice.Annotations[mcs.AnnotationFailing], ",") {
				before[text] = true
			}
		}
	}
	return func(at datapath.Target) bool {
		if fails, known := b.Clusterset.Checked[cluster][at]; known {
			return fails
		}
		return before[at.String()]
	}
}

// waitingSlices are the existing slices that stay as they are.
func (b builder) waitingSlices() []*discoveryv1.EndpointSlice {
	return slices.DeleteFunc(slices.Clone(b.Slices), func(slice *discoveryv1.EndpointSlice) bool { return b.awaited(slice) == "" })
}

// malformedProbe returns a note on the annotation of an import that is neither "true" nor "false".
func (b builder) malformedProbe() []string {
	if mcs.AnswerOf(b.Import.Annotations, mcs.AnnotationProbe) != mcs.Malformed {
		return nil
	}
	return []string{"the annotation " + mcs.AnnotationProbe + ", because it is \"" + brief.Clip(b.Import.Annotations[mcs.AnnotationProbe]) + "\" and not \"true\" or \"false\""}
}
