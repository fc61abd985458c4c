package index

import (
	"fmt"
	"slices"
	"strings"
)

// Check lists every broken rule of the index: what the lookups rely on, and what an outsider would call wrong. It is for tests.
func Check(x *Index) []error {
	var broken []error
	bad := func(format string, args ...any) { broken = append(broken, fmt.Errorf(format, args...)) }
	services, namespaces := 0, map[string]int{}
	x.services.all(func(key Key, b *block) {
		services++
		namespaces[key.Namespace]++
		if b == nil {
			bad("%v: a name that does not exist is held", key)
			return
		}
		for _, err := range b.check() {
			bad("%v: %w", key, err)
		}
	})
	if services != x.services.n {
		bad("%d services are held, and %d counted", services, x.services.n)
	}
	held := 0
	x.namespaces.all(func(namespace string, n int) {
		held++
		if n != namespaces[namespace] || n == 0 {
			bad("namespace %s has %d names, and %d counted", namespace, namespaces[namespace], n)
		}
	})
	if held != len(namespaces) {
		bad("%d namespaces are held, and %d have a name", held, len(namespaces))
	}
	return broken
}

func (b *block) check() (broken []error) {
	bad := func(format string, args ...any) { broken = append(broken, fmt.Errorf(format, args...)) }
	if !slices.IsSortedFunc(b.hosts, func(h, i host) int { return strings.Compare(h.name, i.name) }) || !slices.IsSorted(b.zones) {
		bad("hosts or cluster ids are not sorted")
	}
	for _, h := range b.hosts {
		if len(h.addrs.v4)+len(h.addrs.v6) == 0 {
			bad("host %q has no address", h.name)
		}
		if h.name != strings.ToLower(h.name) || strings.ContainsAny(h.name, `\ `) || slices.Contains(strings.Split(h.name, "."), "") {
			bad("host %q is not a name in lower case", h.name)
		}
		if _, above, _ := strings.Cut(h.name, "."); !slices.Contains(b.zones, above) {
			bad("host %q has no cluster id above it", h.name)
		}
	}
	for _, p := range b.ports {
		if p.name == "" || len(p.targets) == 0 {
			bad("port %q of %s has no name or leads nowhere", p.name, p.protocol)
		}
		if slices.ContainsFunc(p.targets, b.leadsNowhere) {
			bad("port %s leads to what is not there: %+v", p.name, p.targets)
		}
	}
	return broken
}

func (b *block) leadsNowhere(t target) bool {
	return t.number == 0 || t.host < itself || int(t.host) >= len(b.hosts) || !slices.Contains(b.all, t)
}
