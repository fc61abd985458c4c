package peers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// part is what a name has within the limits.
type part struct {
	excess, short bool
	left          int
}

// parts computes the parts of all names by the rule of docs/limits.md.
func parts(services, endpoints int, all map[types.NamespacedName]ranked) map[types.NamespacedName]part {
	of, left := map[types.NamespacedName]part{}, endpoints
	sorted := slices.SortedFunc(maps.Values(all), func(a, b ranked) int {
		if older(a, b) {
			return -1
		}
		return 1
	})
	for i, r := range sorted {
		excess := services > 0 && i >= services
		p := part{excess: excess, short: r.endpoints > 0 && (excess || r.endpoints > left)}
		if !excess {
			if p.short {
				p.left = left
			}
			left -= min(left, r.endpoints)
		}
		of[r.name] = p
	}
	return of
}

func (q *quota) part(name types.NamespacedName) part {
	left, short := q.keeps(name)
	return part{excess: q.excess(name), short: short, left: left}
}

// TestQuotaIsTheRule makes random changes, and compares all parts with the rule after each of them. Exactly the names whose part
// has changed are reported, beside the one that was changed.
func TestQuotaIsTheRule(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 0))
		services, endpoints := dice.IntN(6), 1+dice.IntN(30)
		q, all := newQuota(services, endpoints, maps.Values(map[types.NamespacedName]ranked{})), map[types.NamespacedName]ranked{}
		before := parts(services, endpoints, all)
		for range 200 {
			name := types.NamespacedName{Namespace: "ns", Name: fmt.Sprint("s", dice.IntN(12))}
			var changed []types.NamespacedName
			if r, known := all[name]; known && dice.IntN(3) == 0 {
				delete(all, name)
				changed = q.remove(name)
			} else {
				r = ranked{r.created, name, dice.IntN(20) - 5}
				if r.endpoints = max(r.endpoints, 0); !known || dice.IntN(4) == 0 {
					r.created = int64(dice.IntN(8))
				}
				all[name] = r
				changed = q.set(r)
			}
			after := parts(services, endpoints, all)
			for of := range all {
				if got := q.part(of); got != after[of] {
					t.Fatalf("seed %d: limits %d and %d of %v: %s has %+v, want %+v", seed, services, endpoints, all, of.Name, got, after[of])
				}
				if was := before[of]; of != name && slices.Contains(changed, of) != (was != after[of]) {
					t.Fatalf("seed %d: after a change of %s, %s had %+v and has %+v, and is reported: %v", seed, name.Name, of.Name, was, after[of], slices.Contains(changed, of))
				}
			}
			names, more := 0, 0
			for of, p := range after {
				if p.excess {
					names++
				} else if p.short {
					more += all[of].endpoints - p.left
				}
			}
			if gotNames, gotMore := q.refused(); gotNames != names || gotMore != more {
				t.Fatalf("seed %d: %d names and %d endpoints are refused, want %d and %d", seed, gotNames, gotMore, names, more)
			}
			before = after
		}
	}
}

// BenchmarkQuota is one change of the oldest name of 100,000, half of which are beyond max-services.
func BenchmarkQuota(b *testing.B) {
	all := map[types.NamespacedName]ranked{}
	for i := range 100_000 {
		name := types.NamespacedName{Namespace: "ns", Name: fmt.Sprint("s", i)}
		all[name] = ranked{int64(i), name, 10}
	}
	q := newQuota(len(all)/2, 1000, maps.Values(all))
	first := types.NamespacedName{Namespace: "ns", Name: "s0"}
	for i := 0; b.Loop(); i++ {
		q.remove(first)
		q.set(ranked{0, first, 10 + i%2})
	}
}
