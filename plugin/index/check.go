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
		namespaces[key.Namespace()]++
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
	for _, p := range b.ports {
		if p.name == "" || p.from >= p.to || int(p.to) > len(b.targets) {
			bad("port %q of %s has no name or leads nowhere", p.name, p.protocol)
		}
	}
	if slices.ContainsFunc(b.targets, b.leadsNowhere) {
		bad("a port leads to what is not there: %+v", b.targets)
	}
	if slices.ContainsFunc(b.own, func(t target) bool { return !slices.Contains(b.targets, t) }) || len(slices.Compact(slices.Clone(b.own))) < len(b.own) {
		bad("the service's own targets %+v are not those of its ports, each once: %+v", b.own, b.targets)
	}
	if b.hosts != nil {
		broken = append(broken, b.hosts.check()...)
		broken = append(broken, b.hosts.long.a.Load().check(addrs{v4: b.addrs.v4})...)
		broken = append(broken, b.hosts.long.aaaa.Load().check(addrs{v6: b.addrs.v6})...)
	}
	return broken
}

// check says whether anybody changed the records that all share.
func (l *longAnswer) check(of addrs) (broken []error) {
	if l == nil {
		return nil
	}
	for i, want := range recordsOf(l.owner, l.ttl, of) {
		if i >= len(l.rrs) || l.rrs[i].String() != want.String() {
			broken = append(broken, fmt.Errorf("the records of %s are not %s and so on any more: %v", l.owner, want, l.rrs))
			break
		}
	}
	if len(l.rrs) != cap(l.rrs) {
		broken = append(broken, fmt.Errorf("the records of %s have spare room behind them", l.owner))
	}
	return broken
}

func (b *block) leadsNowhere(t target) bool {
	isHost := b.hosts != nil && t.host >= 0 && int(t.host) < len(b.hosts.places)
	return t.number == 0 || isHost == (t.host == itself) || !slices.Contains(b.own, t)
}

func (h *hosts) check() (broken []error) {
	bad := func(format string, args ...any) { broken = append(broken, fmt.Errorf(format, args...)) }
	if !slices.IsSortedFunc(h.places, h.compareNames) || !slices.IsSorted(h.parents) {
		bad("hosts or cluster ids are not sorted")
	}
	for host := range h.all() {
		name := h.name(host[0])
		if found, ok := h.at(name); !ok || !slices.Equal(found, host) {
			bad("host %q is not found by its name", name)
		}
		if name != strings.ToLower(name) || strings.ContainsAny(name, `\ `) || slices.Contains(strings.Split(name, "."), "") {
			bad("host %q is not a name in lower case", name)
		}
		if _, above, _ := strings.Cut(name, "."); !slices.Contains(h.parents, above) {
			bad("host %q has no cluster id above it", name)
		}
	}
	return broken
}
