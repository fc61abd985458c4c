package index

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// broken returns each violated rule of the index: rules that lookups rely on, and rules that are
// visible from outside.
func broken(x *Index) (all []error) {
	bad := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	services, namespaces := 0, map[string]int{}
	x.services.all(func(b *block) {
		key := b.key
		services++
		namespaces[key.Namespace()]++
		if b.unbuilt != isBuilt {
			bad("%v: a service that is not built is held", key)
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
	x.namespaces.all(func(n *namespace) {
		held++
		if n.services != namespaces[n.name] || n.services == 0 {
			bad("namespace %s has %d names, and %d counted", n.name, namespaces[n.name], n.services)
		}
	})
	if !x.services.check() || !x.namespaces.check() {
		bad("a table is not sorted, or an entry is not in its place")
	}
	if held != len(namespaces) {
		bad("%d namespaces are held, and %d have a name", held, len(namespaces))
	}
	return all
}

func (b *block) check() (broken []error) {
	bad := func(format string, args ...any) { broken = append(broken, fmt.Errorf(format, args...)) }
	if !increase(b.ports.list, port.compare) {
		bad("the ports are not sorted, each once: %+v", b.ports.list)
	}
	groups := []group{{itselfAlone, b.ports.numbers}}
	if b.hosts != nil {
		groups = b.hosts.groups
	}
	numbers := make([][]uint16, len(groups))
	for _, p := range b.ports.list {
		if p.name == "" || p.number == 0 || int(p.group) >= len(groups) {
			bad("port %+v has no name, number or group", p)
			continue
		}
		numbers[p.group] = append(numbers[p.group], p.number)
	}
	for i, g := range groups {
		slices.Sort(numbers[i])
		if !slices.Equal(slices.Compact(numbers[i]), g.numbers) || len(g.hosts) == 0 || !increase(g.hosts, cmp.Compare) {
			bad("group %d has no hosts, or not the numbers of its ports, %v: %+v", i, numbers[i], g)
		}
	}
	if b.hosts != nil {
		broken = append(broken, b.hosts.check()...)
	}
	return broken
}

// increase reports whether a list is sorted and has no duplicates.
func increase[T any](list []T, compare func(T, T) int) bool {
	for i := 1; i < len(list); i++ {
		if compare(list[i-1], list[i]) >= 0 {
			return false
		}
	}
	return true
}

func (h *hosts) check() (broken []error) {
	bad := func(format string, args ...any) { broken = append(broken, fmt.Errorf(format, args...)) }
	if !increase(h.places, h.compare) || !slices.IsSorted(h.parents) {
		bad("hosts or cluster ids are not sorted")
	}
	grouped := map[int32]bool{}
	for _, g := range h.groups {
		for _, host := range g.hosts {
			grouped[host] = true
		}
	}
	at := int32(0)
	for host := range h.all() {
		name := h.name(host[0])
		standby := !slices.ContainsFunc(host, func(p place) bool { return !h.parts[p.slice].Standby })
		if grouped[at] == standby {
			bad("host %q is in no group, or is on standby", name)
		}
		delete(grouped, at)
		at += int32(len(host))
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
	if len(grouped) > 0 {
		bad("groups have hosts that do not exist: %v", grouped)
	}
	return broken
}

// check reports whether each part is sorted, and each entry in its place.
func (t table[K, E]) check() bool {
	n := 0
	for i, part := range t.parts {
		for _, s := range part {
			if in, hash := placeOf(s.entry.id()); int(in) != i || hash != s.hash || t.get(s.entry.id()) != s.entry {
				return false
			}
		}
		n += len(part)
		if !slices.IsSortedFunc(part, func(s, t slot[K, E]) int { return cmp.Compare(s.hash, t.hash) }) {
			return false
		}
	}
	return n == t.n
}

// whole is what Lookup answers in the largest message.
func (x *Index) whole(z *Zone, qname string, qtype uint16) Answer {
	return x.Lookup(z, qname, qtype, dns.MaxMsgSize)
}
