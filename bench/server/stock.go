package main

import (
	"context"
	"fmt"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/bench/server/load"
	"github.com/clusterset-dns/multicluster/bench/server/table"
)

// The plugins that a query passes before the answerer. The stock ones are those of corefile-examples/stock.Corefile.
const (
	withoutCache = "errors\n prometheus 127.0.0.1:0\n loadbalance\n"
	stockPlugins = withoutCache + " cache 30 {\n  disable success cluster.local\n  disable denial cluster.local\n }\n"
)

// setup is an answerer behind some plugins, with one more option of its own plugin if that is not empty.
type setup struct {
	who             table.Who
	plugins, option string
	title           string // of the row
}

// kept is an option with which our answers stay in cache: a name in the zone could fall through, though none that is asked for does.
const kept = "fallthrough none.clusterset.local"

// setups are who answers in the stock Corefile. Then it is ours alone: if cache keeps its answers, and without cache.
func (q question) setups() []setup {
	return []setup{
		{table.Ours, stockPlugins, "", q.title},
		{table.InTree, stockPlugins, "", q.title},
		{table.Whoami, stockPlugins, "", q.title},
		{table.Ours, stockPlugins, kept, q.title + ", if cache keeps it"},
		{table.Ours, withoutCache, "", q.title + ", without cache"},
	}
}

// stockQuestions are those that are asked through the stock Corefile.
func (p plan) stockQuestions() (asked []question) {
	for _, q := range p.questions() {
		if q.title == "A" || q.rcode == dns.RcodeNameError || q.answers == hostsOf {
			asked = append(asked, q)
		}
	}
	return asked
}

// inStock names the case of a sample.
func inStock(title string) string { return "stock Corefile: " + title }

// onStock measures queries through the stock Corefile, as users run it.
func (b *bench) onStock(ctx context.Context, w *world) error {
	if err := b.fill(ctx, w, "imports", b.imports.some, b.clusterSetIPs(0)); err != nil {
		return err
	}
	if err := b.fill(ctx, w, "headless imports", b.headless, headlessOf(hostsOf)); err != nil {
		return err
	}
	for _, q := range b.stockQuestions() {
		if err := b.askStock(ctx, w, q); err != nil {
			return err
		}
		b.say("  stock Corefile: %s", q.title)
	}
	return nil
}

func (b *bench) askStock(ctx context.Context, w *world, q question) error {
	l, err := load.New(b.folder, "stock", q.size, q.names)
	if err != nil {
		return err
	}
	var starts []func() (*server, error)
	titles := map[*server]string{}
	for _, s := range q.setups() {
		starts = append(starts, func() (*server, error) {
			started, err := b.start(ctx, w, s, readiness(s.who, b.lastOf(b.imports.some)))
			titles[started] = inStock(s.title)
			return started, err
		})
	}
	return each(starts, func(servers []*server) error {
		for _, s := range servers {
			same := q
			same.title = titles[s]
			if err := b.inspect(s, same, l); err != nil {
				return fmt.Errorf("%s of %s: %w", same.title, s.who, err)
			}
		}
		return b.turns(ctx, servers, func(s *server) error { return b.ask(ctx, s, l, q.rcode, titles[s]) }, l)
	})
}

// ofStock has a row for each question and setup.
func (b *bench) ofStock() (rows []table.Row) {
	for _, q := range b.stockQuestions() {
		last := ""
		for _, s := range q.setups() {
			if s.title != last {
				rows = append(rows, b.row(s.title, cpuPerQuery, inStock(s.title), 2, nil))
			}
			last = s.title
		}
	}
	return rows
}
