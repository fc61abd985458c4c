package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

// What is measured of a change.
const (
	sinceDone    = "answered after the API server's reply, ms"
	sinceRequest = "answered after the request, ms"
	changesDone  = "changes per second beside the load"
	cpuPerChange = "CPU per change, µs"
)

// changer writes new ips into imports, never the same ones twice.
type changer struct {
	*world
	plan
	written atomic.Int64
}

// change gives one import another address.
func (c *changer) change(ctx context.Context, k measure.Name, ip string) error {
	body := fmt.Sprintf(`{"spec":{"ips":[%q]}}`, ip)
	return c.api.Patch(ctx, &mcsv1beta1.ServiceImport{ObjectMeta: k.Meta()}, client.RawPatch(types.MergePatchType, []byte(body)))
}

func (c *changer) newIP() string { return measure.IP(64, int(c.written.Add(1))) }

// any is one of all imports.
func (c *changer) any() measure.Name { return c.importName(rand.IntN(c.imports.many)) }

// waitForChanges measures how long changes of single imports take to be answered while nothing else happens. All servers see all
// changes, so there is a pause between two changes.
func (b *bench) waitForChanges(ctx context.Context, c *changer, servers []*server) {
	measure.Check(measure.Steadily(ctx, 10, 1, b.changes*len(servers), func(i int) error {
		return b.waitForChange(ctx, c, servers[i%len(servers)])
	}))
	b.say("  %d changes each", b.changes)
}

func (b *bench) waitForChange(ctx context.Context, c *changer, s *server) error {
	k, ip := c.any(), c.newIP()
	var answered time.Time
	var waiting errgroup.Group
	waiting.Go(func() (err error) {
		answered, err = awaitAnswer(ctx, s.Address, k, ip)
		return err
	})
	begin := time.Now()
	err := c.change(ctx, k, ip)
	done := time.Now()
	if err := errors.Join(err, waiting.Wait()); err != nil {
		return fmt.Errorf("the change of %s in %s: %w", k.Name, s.who, err)
	}
	// The answer may come before the API server's own reply has.
	b.samples.add(sinceDone, idle, s.who, max(0, measure.Milliseconds(answered.Sub(done))))
	b.samples.add(sinceRequest, idle, s.who, measure.Milliseconds(answered.Sub(begin)))
	return nil
}

// awaitAnswer asks for an import until its address is the given one: often enough to measure a
// fraction of a millisecond, and rarely enough to leave the processors to the servers.
func awaitAnswer(ctx context.Context, address string, k measure.Name, ip string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	conn, err := dns.Dial("udp", address)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = conn.Close() }()
	client, question := &dns.Client{Timeout: 5 * time.Second}, new(dns.Msg).SetQuestion(k.DNS(), dns.TypeA)
	err = measure.Until(ctx, 250*time.Microsecond, func() error {
		m, _, err := client.ExchangeWithConn(question, conn)
		if err != nil || len(m.Answer) != 1 || !strings.HasSuffix(m.Answer[0].String(), "\t"+ip) {
			return errors.Join(err, fmt.Errorf("want %s, got %v", ip, m))
		}
		return nil
	})
	return time.Now(), err
}

const (
	idle      = "idle"
	quietA    = "A, nothing changes"
	changingA = "A, imports change"
)

// onChanges measures how long changes take to be answered, what they cost, and what a query costs while imports change and while none
// does, in turns.
func (b *bench) onChanges(ctx context.Context, w *world, servers []*server) {
	c := &changer{world: w, plan: b.plan}
	b.waitForChanges(ctx, c, servers)
	b.costOfChanges(ctx, c, servers)
	l := newLoad(b.addresses(b.imports.some))
	b.turns(ctx, servers, l, func(s *server) {
		b.ask(ctx, s, l, dns.RcodeSuccess, quietA)
		b.duringChanges(ctx, c, s, func() { b.ask(ctx, s, l, dns.RcodeSuccess, changingA) })
	})
	b.say("  load beside changes")
}

// duringChanges keeps changing imports while it does something else.
func (b *bench) duringChanges(ctx context.Context, c *changer, s *server, do func()) {
	changing, stop := context.WithCancel(ctx)
	defer stop()
	begin, before := time.Now(), c.written.Load()
	errs := make(chan error, 1)
	go func() { errs <- c.keepChanging(changing) }()
	do()
	b.samples.add(changesDone, changingA, s.who, float64(c.written.Load()-before)/time.Since(begin).Seconds())
	stop()
	measure.Check(<-errs)
}

// costOfChanges measures what a change costs a server without queries: beside a load, the difference of two large numbers would be
// inexact. All servers see the same changes.
func (b *bench) costOfChanges(ctx context.Context, c *changer, servers []*server) {
	before, first := map[*server]time.Duration{}, c.written.Load()
	for _, s := range servers {
		before[s] = measure.Must(s.CPU())
	}
	changing, cancel := context.WithTimeout(ctx, time.Duration(b.rounds)*b.load)
	defer cancel()
	measure.Check(c.keepChanging(changing))
	for _, s := range servers {
		spent := measure.Must(s.CPU()) - before[s]
		b.samples.add(cpuPerChange, idle, s.who, float64(spent.Nanoseconds())/1e3/float64(c.written.Load()-first))
	}
	measure.Check(ctx.Err())
}

// keepChanging changes imports at a rate, until its context ends. Beside a load, the API server takes longer for a change than there
// is time between two: hence several at a time.
func (c *changer) keepChanging(ctx context.Context) error {
	return measure.Steadily(ctx, c.changesPerSecond, measure.Writers, math.MaxInt, func(int) error {
		return c.change(context.WithoutCancel(ctx), c.any(), c.newIP())
	})
}
