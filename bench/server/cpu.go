package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/bench/server/load"
	"github.com/clusterset-dns/multicluster/bench/server/table"
)

// What is measured of a load.
const (
	cpuPerQuery = "CPU per query, µs"
	perSecond   = "queries per second"
	replyBytes  = "bytes of a reply"
)

// ask loads a server and adds what a query cost it. A sample in which packets were lost, because something else kept the machine busy,
// is taken anew: only a server that loses them always is an error.
func (b *bench) ask(ctx context.Context, s *server, l *load.Load, rcode int, title string) error {
	const tries = 4
	var err error
	for range tries {
		var o load.Outcome
		var used time.Duration
		if o, used, err = b.sample(ctx, s, l); err != nil {
			return err
		}
		if err = valid(o, s.who, rcode); err == nil {
			b.samples.Add(cpuPerQuery, title, s.who, float64(used.Nanoseconds())/1e3/float64(o.Answered))
			b.samples.Add(perSecond, title, s.who, float64(o.Answered)/o.Elapsed.Seconds())
			return nil
		}
		b.say("  again, as %s of %s was no measurement: %v", title, s.who, err)
	}
	return fmt.Errorf("%s of %s: %w", title, s.who, err)
}

// sample is what came back of a load, and the server's own user and system time for it. On two cores, queries per second measure the load
// generator as well.
func (b *bench) sample(ctx context.Context, s *server, l *load.Load) (load.Outcome, time.Duration, error) {
	before, err := s.cpu()
	if err != nil {
		return load.Outcome{}, 0, err
	}
	o, err := b.generate(ctx, s.address, l, b.load)
	if err != nil {
		return o, 0, err
	}
	after, err := s.cpu()
	return o, after - before, err
}

// valid refuses what would be a measurement of something else: lost packets, or other answers than those asked for.
func valid(o load.Outcome, who table.Who, rcode int) error {
	if who == table.Whoami {
		rcode = dns.RcodeSuccess
	}
	const most = 1000 // one in so many
	if as := o.Rcodes[dns.RcodeToString[rcode]]; o.Answered == 0 || o.Lost > o.Answered/most || o.Answered-as > o.Answered/most {
		return fmt.Errorf("want all answered with %s: %d lost, %v", dns.RcodeToString[rcode], o.Lost, o.Rcodes)
	}
	return nil
}

// compare measures all questions, each with new servers: what the ready-made messages of other questions weigh would let the garbage
// collector run less often.
func (b *bench) compare(ctx context.Context, w *world) error {
	for _, q := range b.questions() {
		err := b.serve(ctx, w, answerers, b.lastOf(b.imports.some), func(servers []*server) error { return b.compareOne(ctx, servers, q) })
		if err != nil {
			return err
		}
		b.say("  %s", q.title)
	}
	return nil
}

func (b *bench) compareOne(ctx context.Context, servers []*server, q question) error {
	l, err := load.New(b.folder, "question", q.size, q.names)
	if err != nil {
		return err
	}
	for _, s := range servers {
		if err := b.inspect(s, q, l); err != nil {
			return fmt.Errorf("%s of %s: %w", q.title, s.who, err)
		}
	}
	return b.turns(ctx, servers, func(s *server) error { return b.ask(ctx, s, l, q.rcode, q.title) }, l)
}

// turns calls measure for each server in each round, after each was warmed up with the load. Another one begins each round: what slows
// the machine down for a while then slows all of them.
func (b *bench) turns(ctx context.Context, servers []*server, measure func(*server) error, l *load.Load) error {
	for _, s := range servers {
		if _, err := b.generate(ctx, s.address, l, b.warmUp); err != nil {
			return err
		}
	}
	for round := range b.rounds {
		for i := range servers {
			if err := measure(servers[(round+i)%len(servers)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// inspect looks at one reply: that it has what is asked for and is not cut, and how big it is.
func (b *bench) inspect(s *server, q question, l *load.Load) error {
	reply, err := exchange(s.address, l.First())
	if err != nil {
		return err
	}
	b.samples.Add(replyBytes, q.title, s.who, float64(len(reply)))
	m := new(dns.Msg)
	if err := m.Unpack(reply); err != nil {
		return err
	}
	if s.who != table.Whoami && (m.Truncated || m.Rcode != q.rcode || len(m.Answer) != q.answers) {
		return fmt.Errorf("want %d whole records, got %v", q.answers, m)
	}
	return nil
}

// exchange sends one packet and gives the next, as they are.
func exchange(address string, packet []byte) ([]byte, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(packet); err != nil {
		return nil, err
	}
	reply := make([]byte, 1<<16)
	n, err := conn.Read(reply)
	return reply[:n], err
}

// each starts several servers, does something with them, and ends them.
func each(starts []func() (*server, error), do func([]*server) error) (err error) {
	var servers []*server
	defer func() {
		for _, s := range servers {
			s.Stop()
		}
	}()
	for _, start := range starts {
		s, err := start()
		if err != nil {
			return err
		}
		servers = append(servers, s)
	}
	return do(servers)
}
