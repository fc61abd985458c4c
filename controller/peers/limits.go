package peers

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Annotations on a peer's Secret that limit what the peer can contribute.
const (
	// annotationNamespaces lists the namespaces of the names that the peer can export.
	annotationNamespaces = "clusterset-dns.io/namespaces"
	// annotationCIDRs lists the networks of the endpoints that the peer can give.
	annotationCIDRs = "clusterset-dns.io/endpoint-cidrs"
	// annotationServices is the number of names that the peer can export.
	annotationServices = "clusterset-dns.io/max-services"
	// annotationEndpoints is the number of endpoints that the peer can give. Without it, the number is defaultEndpoints.
	annotationEndpoints = "clusterset-dns.io/max-endpoints"
)

// defaultEndpoints is the number of endpoints that a peer can give if its Secret does not limit it. For each 100 of
// them, each cluster that reads the peer writes an EndpointSlice, and every node of it gets that.
const defaultEndpoints = 50_000

// limitTexts are the values of the annotations, in the order of the constants. nil is absent.
type limitTexts [4]*string

func readLimits(annotations map[string]string) (texts limitTexts) {
	for i, key := range []string{annotationNamespaces, annotationCIDRs, annotationServices, annotationEndpoints} {
		if text, ok := annotations[key]; ok {
			texts[i] = &text
		}
	}
	return texts
}

func (t limitTexts) equal(other limitTexts) bool {
	for i := range t {
		if (t[i] == nil) != (other[i] == nil) || t[i] != nil && *t[i] != *other[i] {
			return false
		}
	}
	return true
}

// limits are what a peer can contribute. The zero value has the default limit of endpoints, and no other.
type limits struct {
	namespaces []string       // nil: all
	cidrs      []netip.Prefix // nil: all
	services   int            // 0: any number
	endpoints  int            // 0: defaultEndpoints
}

// parse returns the limits. The error names the annotation and the accepted form.
func (t limitTexts) parse() (l limits, err error) {
	if t[0] != nil {
		if l.namespaces, err = eachOf(*t[0], parseNamespace); err != nil {
			return l, fmt.Errorf("the annotation %s of the Secret has %w, want names of namespaces with commas, such as shop, team-a", annotationNamespaces, err)
		}
	}
	if t[1] != nil {
		if l.cidrs, err = eachOf(*t[1], netip.ParsePrefix); err != nil {
			return l, fmt.Errorf("the annotation %s of the Secret has %w, want networks with commas, such as 10.2.0.0/16, fd00:2::/64", annotationCIDRs, err)
		}
	}
	for _, of := range []struct {
		key  string
		text *string
		into *int
	}{{annotationServices, t[2], &l.services}, {annotationEndpoints, t[3], &l.endpoints}} {
		if of.text == nil {
			continue
		}
		if *of.into, err = strconv.Atoi(strings.TrimSpace(*of.text)); err != nil || *of.into < 1 {
			return l, fmt.Errorf("the annotation %s of the Secret is %q, want a number of at least 1", of.key, brief.Clip(*of.text))
		}
	}
	return l, nil
}

// eachOf parses a list with commas.
func eachOf[T any](text string, parse func(string) (T, error)) (all []T, err error) {
	for i, one := range strings.Split(text, ",") {
		value, err := parse(strings.TrimSpace(one))
		if err != nil {
			return nil, fmt.Errorf("%q as entry %d", brief.Clip(strings.TrimSpace(one)), i+1)
		}
		all = append(all, value)
	}
	return all, nil
}

func parseNamespace(name string) (string, error) {
	if faults := validation.IsDNS1123Label(name); len(faults) > 0 {
		return "", fmt.Errorf("%s", faults[0])
	}
	return name, nil
}

func (l limits) any() bool { return l.namespaces != nil || l.cidrs != nil || l.services > 0 }

// inNamespace reports whether the peer can export names of a namespace.
func (l limits) inNamespace(namespace string) bool {
	return l.namespaces == nil || slices.Contains(l.namespaces, namespace)
}

// hasAddress reports whether the peer can give an endpoint.
func (l limits) hasAddress(e discoveryv1.Endpoint) bool {
	return l.cidrs == nil || !slices.ContainsFunc(e.Addresses, func(text string) bool {
		ip, err := netip.ParseAddr(text)
		return err != nil || !slices.ContainsFunc(l.cidrs, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
	})
}

// within returns slices without the endpoints that the peer cannot give. The given slices do not
// change.
func (l limits) within(all []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	if l.cidrs == nil {
		return all
	}
	kept := make([]*discoveryv1.EndpointSlice, 0, len(all))
	for _, slice := range all {
		if slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return !l.hasAddress(e) }) {
			copied := *slice
			copied.Endpoints = slices.DeleteFunc(slices.Clone(slice.Endpoints), func(e discoveryv1.Endpoint) bool { return !l.hasAddress(e) })
			slice = &copied
		}
		kept = append(kept, slice)
	}
	return kept
}

// canExportLocked reports whether a name is within a peer's limits and the namespaces that it announces.
func (p *peer) canExportLocked(name types.NamespacedName) bool {
	return p.selectedLocked(name) && !p.quota.excess(name)
}

// selectedLocked reports whether a peer announces the namespace of a name, and can export from there. Without an
// announcement, it exports from all but its own parts.
func (p *peer) selectedLocked(name types.NamespacedName) bool {
	exported := p.exports[name.Namespace] || p.exports == nil && !mcs.System(name.Namespace, name.Name)
	return exported && p.limits.inNamespace(name.Namespace)
}

// memberLocked returns what a peer exports under a name, if it can.
func (p *peer) memberLocked(name types.NamespacedName) (merge.Member, bool) {
	if !p.canExportLocked(name) {
		return merge.Member{}, false
	}
	m, ok := p.contents.member(p.id, name)
	m.Slices, m.Properties = p.limits.within(m.Slices), p.properties
	if left, short := p.quota.keeps(name); short {
		m.Slices = firstOf(m.Slices, left)
	}
	return m, ok
}

// firstOf returns slices with the first endpoints only. The given slices do not change.
func firstOf(all []*discoveryv1.EndpointSlice, most int) []*discoveryv1.EndpointSlice {
	kept := make([]*discoveryv1.EndpointSlice, 0, len(all))
	for _, slice := range all {
		if len(slice.Endpoints) > most {
			copied := *slice
			copied.Endpoints = slice.Endpoints[:most:most]
			slice = &copied
		}
		most -= len(slice.Endpoints)
		kept = append(kept, slice)
	}
	return kept
}

// setLimitsLocked sets the limits of a peer from its Secret. Malformed limits change nothing, and the
// condition reports them. A peer that has never been read since the start is then not read.
func (p *peer) setLimitsLocked() {
	if l, err := p.secret.limits.parse(); err == nil {
		p.limits = l
	}
}

// countLocked brings the quota up to date with changed names, and returns the others that change by that.
func (p *peer) countLocked(names []types.NamespacedName) (changed []types.NamespacedName) {
	if p.quota == nil {
		if p.contents.slices.count.endpoints <= p.endpointsLimit() {
			return nil
		}
		return p.recountLocked()
	}
	for _, name := range names {
		if r, counts := p.rankedLocked(name); counts {
			changed = append(changed, p.quota.set(r)...)
		} else {
			changed = append(changed, p.quota.remove(name)...)
		}
	}
	return changed
}

// recountLocked makes the quota anew, for other limits or other contents, and returns the names that change by that. Without max-services
// there is none until the peer has had too many endpoints.
func (p *peer) recountLocked() (changed []types.NamespacedName) {
	before := p.quota
	p.quota, p.counted = nil, time.Time{}
	if p.contents != nil && (p.limits.services > 0 || p.contents.slices.count.endpoints > p.endpointsLimit()) {
		p.quota = newQuota(p.limits.services, p.endpointsLimit(), func(yield func(ranked) bool) {
			for name := range p.contents.exports {
				if r, counts := p.rankedLocked(name); counts && !yield(r) {
					return
				}
			}
		})
	}
	for _, name := range append(before.beyond(), p.quota.beyond()...) {
		if !p.quota.same(before, name) {
			changed = append(changed, name)
		}
	}
	p.retarget = p.retarget || len(changed) > 0
	return changed
}

func (p *peer) endpointsLimit() int { return cmp.Or(p.limits.endpoints, defaultEndpoints) }

// rankedLocked returns a name for the quota, if the peer exports it from a namespace that it can.
func (p *peer) rankedLocked(name types.NamespacedName) (r ranked, counts bool) {
	export := p.contents.exports[name]
	if export == nil || !p.selectedLocked(name) {
		return r, false
	}
	return ranked{export.Created.Unix(), name, endpointsOf(p.limits.within(p.contents.slices.byService[name]))}, true
}

func endpointsOf(all []*discoveryv1.EndpointSlice) (n int) {
	for _, slice := range all {
		n += len(slice.Endpoints)
	}
	return n
}

// refusals are the numbers of what a peer's limits refuse.
type refusals struct{ namespaces, endpoints, services, more int }

// refusalsLocked counts what the limits refuse of a peer's contents.
func (p *peer) refusalsLocked() (r refusals) {
	if p.contents == nil {
		return r
	}
	if r.services, r.more = p.quota.refused(); !p.limits.any() {
		return r
	}
	for name := range p.contents.exports {
		if !p.limits.inNamespace(name.Namespace) {
			r.namespaces++
		}
	}
	for name, all := range p.contents.slices.byService {
		for _, slice := range all {
			for _, e := range slice.Endpoints {
				if p.limits.inNamespace(name.Namespace) && !p.limits.hasAddress(e) {
					r.endpoints++
				}
			}
		}
	}
	return r
}

// String returns the refusals for a message, each with its annotation. It is empty if there are
// none.
func (r refusals) String() string {
	var parts []string
	for _, part := range []struct {
		n         int
		what, key string
	}{
		{r.namespaces, "names in other namespaces", annotationNamespaces},
		{r.endpoints, "endpoints in other networks", annotationCIDRs},
		{r.services, "names too many", annotationServices},
		{r.more, "endpoints too many", annotationEndpoints},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", part.n, part.what, part.key))
		}
	}
	return strings.Join(parts, ", ")
}

// reportRefusalsLocked adds what the limits refuse to the message of the condition, and sets the
// metric.
func (p *peer) reportRefusalsLocked() {
	labels := prometheus.Labels{"peer": p.id}
	if !p.limits.any() && p.quota == nil || p.left {
		peerRefused.DeletePartialMatch(labels)
		return
	}
	if now := p.registry.options.Now(); now.Sub(p.counted).Abs() >= messageEvery { // It looks at each endpoint.
		p.refusals, p.counted = p.refusalsLocked(), now
	}
	r := p.refusals
	for limit, n := range map[string]int{"namespaces": r.namespaces, "endpoint-cidrs": r.endpoints, "max-services": r.services, "max-endpoints": r.more} {
		peerRefused.WithLabelValues(p.id, limit).Set(float64(n))
	}
	if text := r.String(); text != "" && p.condition.connected {
		p.condition.message += "; refused: " + text
	}
}
