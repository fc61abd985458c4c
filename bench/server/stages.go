package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/bench/server/load"
	"github.com/clusterset-dns/multicluster/bench/server/table"
)

// stage has a cluster of its own.
type stage struct {
	name    string
	measure func(*bench, context.Context, *world) error
}

var stages = []stage{{"imports", (*bench).onImports}, {"headless", (*bench).onHeadless}, {"stock", (*bench).onStock}}

func (b *bench) on(ctx context.Context, s stage) (err error) {
	b.say("%s: starting a cluster", s.name)
	w, err := newWorld(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	return s.measure(b, ctx, w)
}

const nothing = "no imports"

// onImports measures at no imports, some and many.
func (b *bench) onImports(ctx context.Context, w *world) error {
	if err := b.memory(ctx, w, nothing, replies); err != nil {
		return err
	}
	// 1. Some imports, and headless ones beside them: what a query costs.
	if err := b.fill(ctx, w, "imports", b.imports.some, b.clusterSetIPs(0)); err != nil {
		return err
	}
	for _, n := range headlessSizes {
		if err := b.fill(ctx, w, fmt.Sprintf("headless imports of %d", n), b.headless, headlessOf(n)); err != nil {
			return err
		}
	}
	if err := b.compare(ctx, w); err != nil {
		return err
	}
	// 2. Many imports, and nothing else: what they weigh, and whether their number slows anything down.
	if err := w.empty(ctx, headlessNamespace); err != nil {
		return err
	}
	if err := b.fill(ctx, w, "more imports", b.imports.many-b.imports.some, b.clusterSetIPs(b.imports.some)); err != nil {
		return err
	}
	if err := b.memory(ctx, w, b.manyImports(), b.lastOf(b.imports.many), func() error { return b.onlyRead(ctx, w) }); err != nil {
		return err
	}
	if err := b.sizes(ctx, w); err != nil {
		return err
	}
	// 3. Changes among many.
	return b.serve(ctx, w, []table.Who{table.Ours, table.InTree}, b.lastOf(b.imports.many), func(servers []*server) error { return b.onChanges(ctx, w, servers) })
}

func (b *bench) manyImports() string { return grouped(b.imports.many) + " imports" }

// lastOf is a condition: that the last of so many imports is answered, in the order in which an API server lists them.
func (b *bench) lastOf(count int) func(string) error {
	return answers(load.Question{Name: b.importKey(count - 1).dnsName(), Type: dns.TypeA}, 1)
}

// serve starts one server of each answerer, until it is ready, and does something with them.
func (b *bench) serve(ctx context.Context, w *world, who []table.Who, ready func(string) error, do func([]*server) error) error {
	var starts []func() (*server, error)
	for _, each := range who {
		starts = append(starts, func() (*server, error) {
			return b.start(ctx, w, setup{who: each}, readiness(each, ready))
		})
	}
	return each(starts, do)
}

// sizes measures A of our plugin with few, some and many imports, side by side: it is the number of namespaces that it watches. First
// all are asked for the few names that they all have, then each for all that it has.
func (b *bench) sizes(ctx context.Context, w *world) error {
	counts := []int{b.imports.few, b.imports.some, b.imports.many}
	watched := []string{"namespaces " + fewNamespace, "namespaces " + fewNamespace + " " + someNamespace, ""}
	var starts []func() (*server, error)
	titles := map[*server]int{}
	for i, count := range counts {
		starts = append(starts, func() (*server, error) {
			s, err := b.start(ctx, w, setup{who: table.Ours, option: watched[i]}, b.lastOf(count))
			titles[s] = count
			return s, err
		})
	}
	return each(starts, func(servers []*server) error {
		return errors.Join(b.sameNames(ctx, servers, titles), b.ownNames(ctx, servers, titles))
	})
}

func (b *bench) sameNames(ctx context.Context, servers []*server, counts map[*server]int) error {
	l, err := load.New(b.folder, "same", 0, b.importNames(b.imports.few, "", dns.TypeA))
	if err != nil {
		return err
	}
	defer b.say("  the same A at three numbers of imports")
	return b.turns(ctx, servers, func(s *server) error {
		return b.ask(ctx, s, l, dns.RcodeSuccess, b.sameTitle(counts[s]))
	}, l)
}

func (b *bench) ownNames(ctx context.Context, servers []*server, counts map[*server]int) error {
	loads := map[*server]*load.Load{}
	for _, s := range servers {
		var err error
		loads[s], err = load.New(b.folder, fmt.Sprint(counts[s]), 0, b.importNames(counts[s], "", dns.TypeA))
		if err != nil {
			return err
		}
	}
	defer b.say("  any A at three numbers of imports")
	return b.turns(ctx, servers, func(s *server) error {
		return b.ask(ctx, s, loads[s], dns.RcodeSuccess, b.ownTitle(counts[s]))
	}, loads[servers[0]])
}

func (b *bench) sameTitle(count int) string {
	return fmt.Sprintf("A, the same %d names, %s imports", b.imports.few, grouped(count))
}

func (b *bench) ownTitle(count int) string {
	return fmt.Sprintf("A, all names, %s imports", grouped(count))
}

func (b *bench) onChanges(ctx context.Context, w *world, servers []*server) error {
	c := &changer{world: w, plan: b.plan}
	if err := b.waitForChanges(ctx, c, servers); err != nil {
		return err
	}
	if err := b.costOfChanges(ctx, c, servers); err != nil {
		return err
	}
	l, err := load.New(b.folder, "beside", 0, b.importNames(b.imports.some, "", dns.TypeA))
	if err != nil {
		return err
	}
	defer b.say("  load beside changes")
	return b.loadBesideChanges(ctx, c, servers, l)
}

// onHeadless measures what many headless imports with many endpoints weigh.
func (b *bench) onHeadless(ctx context.Context, w *world) error {
	if err := b.memory(ctx, w, nothing, replies); err != nil {
		return err
	}
	if err := b.fill(ctx, w, "headless imports", b.manyHeadless, headlessOf(b.manyEndpoints)); err != nil {
		return err
	}
	last := load.Question{Name: headlessKey(b.manyEndpoints, b.manyHeadless-1).dnsName(), Type: dns.TypeA}
	return b.memory(ctx, w, b.manyPods(), answers(last, b.manyEndpoints))
}

func (b *bench) manyPods() string {
	return fmt.Sprintf("%s headless of %d", grouped(b.manyHeadless), b.manyEndpoints)
}
