package multicluster

import (
	"slices"
	"strings"
)

// CacheBypassZones returns the zones whose questions *cache* passes on without a look into its
// memory (its interface ZoneBypasser, CoreDNS 1.15). An answer of ours is never stale, and comes
// from memory too (bench/server compares both). Zones of `alias` are not among them, because
// *kubernetes* answers there too. Nor are zones of which names can fall through: another plugin can
// need a network connection to answer those.
func (m *Multicluster) CacheBypassZones() (names []string) {
	for _, z := range m.zones {
		if !z.Alias && !slices.ContainsFunc(m.fall.Zones, func(through string) bool { return overlap(z.Name, through) }) {
			names = append(names, z.Name)
		}
	}
	return names
}

// overlap reports whether one of two zones is, or contains, the other. Both are in lower case, with
// the final dot.
func overlap(a, b string) bool {
	return b == "." || a == b || strings.HasSuffix(a, "."+b) || strings.HasSuffix(b, "."+a)
}
