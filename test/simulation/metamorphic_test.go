package simulation

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// variants change what must not matter: when a controller starts again, which of two clusters is changed first, what names are called, which
// addresses and UIDs there are, and whether there is a cluster that exports nothing.
var variants = map[string]func(d *dice, steps []string) (changed []string, back func(string) string){
	"restarts": func(d *dice, steps []string) ([]string, func(string) string) {
		var all []string
		for i, step := range steps {
			if all = append(all, step); i > 0 && d.one(4) {
				all = append(all, d.member()+"restart")
			}
		}
		return all, same
	},
	"order": func(_ *dice, steps []string) ([]string, func(string) string) {
		for i := 1; i+1 < len(steps); i++ {
			a, b := steps[i], steps[i+1]
			if memberOf(a) != "" && memberOf(b) != "" && memberOf(a) != memberOf(b) {
				steps[i], steps[i+1] = b, a
			}
		}
		return steps, same
	},
	"names": func(_ *dice, steps []string) ([]string, func(string) string) {
		to := strings.NewReplacer(" foo", " zoo", "/foo", "/zoo", " bar", " aunt", "depot", "barn")
		for i := range steps {
			steps[i] = to.Replace(steps[i])
		}
		return steps, strings.NewReplacer("zoo", "foo", "aunt", "bar", "barn", "depot").Replace
	},
	"addresses": func(_ *dice, steps []string) ([]string, func(string) string) { return steps, same },
	"a cluster more": func(d *dice, steps []string) ([]string, func(string) string) {
		steps[0] = strings.Replace(steps[0], fmt.Sprint(d.clusters), fmt.Sprint(d.clusters+1), 1)
		return steps, same
	},
}

func same(text string) string { return text }

func memberOf(step string) string {
	id, _, _ := strings.Cut(step, ": ")
	if id == step {
		return ""
	}
	return id
}

var calmSeeds = flag.Uint64("calm", 4, "compare the variants of so many histories")

// TestNothingElseMatters plays histories of what users do, and variants of each, and compares what the clusters have in the end.
func TestNothingElseMatters(t *testing.T) {
	for seed := range *calmSeeds {
		t.Run(fmt.Sprint(seed+1), func(t *testing.T) {
			t.Parallel()
			steps, d := calmHistory(seed + 1)
			wanted := ends(t, seed, d.clusters, steps)
			for _, name := range slices.Sorted(maps.Keys(variants)) {
				changed, back := variants[name](d, slices.Clone(steps))
				text := picture{}
				for key, value := range ends(t, seed+map[string]uint64{"addresses": 1000}[name], d.clusters, changed) {
					text[back(key)] = back(value)
				}
				if diff := differences(wanted, text); diff != "" {
					t.Errorf("%s: after\n%s\n\nit is another end than after\n%s\n\n%s", name, strings.Join(changed, "\n"), strings.Join(steps, "\n"), diff)
				}
			}
		})
	}
}

// calmHistory is what users do. No two exports are of the same second, in which the names of clusters would decide.
func calmHistory(seed uint64) ([]string, *dice) {
	d := &dice{Rand: rand.New(rand.NewPCG(seed, 1)), clusters: 2 + int(seed)%2}
	steps := []string{fmt.Sprintf("clusters %d", d.clusters)}
	for range 12 {
		step := d.users()
		if strings.Contains(step, " join ") || strings.Contains(step, " leave ") { // that of a peer is not known in the same moment by all
			continue
		}
		if strings.Contains(step, ": export ") {
			steps = append(steps, "wait 2s")
		}
		if steps = append(steps, step); d.one(2) {
			steps = append(steps, "wait 10s")
		}
	}
	return append(steps, "settle"), d
}

// ends is what the first clusters have after a history, without what is another one each time.
func ends(t *testing.T, seed uint64, clusters int, steps []string) picture {
	t.Helper()
	all := picture{}
	sees := func(s *story) { all = s.ends(clusters) }
	if _, err := inBubble(t, seed, strings.Join(steps, "\n"), map[any]any{random{}: skip, finale{}: sees}); err != nil {
		t.Errorf("after %s\n: %v", strings.Join(steps, "\n"), err)
	}
	return all
}
