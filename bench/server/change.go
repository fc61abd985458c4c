package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/bench/server/load"
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
func (c *changer) change(ctx context.Context, k key, ip string) error {
	body := fmt.Sprintf(`{"spec":{"ips":[%q]}}`, ip)
	return c.api.Patch(ctx, &mcsv1beta1.ServiceImport{ObjectMeta: k.meta()}, client.RawPatch(types.MergePatchType, []byte(body)))
}

func (c *changer) newIP() string { return ipOf(64, int(c.written.Add(1))) }

// any is one of all imports.
func (c *changer) any() key { return c.importKey(rand.IntN(c.imports.many)) }

// waitForChanges measures how long changes of single imports take to be answered while nothing else
// happens.
//
// All servers see all changes, so there is a pause between two changes.
func (b *bench) waitForChanges(ctx context.Context, c *changer, servers []*server) error {
	next := time.NewTicker(100 * time.Millisecond)
	defer next.Stop()
	for range b.changes {
		for _, s := range servers {
			if err := b.waitForChange(ctx, c, s); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-next.C:
			}
		}
	}
	b.say("  %d changes each", b.changes)
	return nil
}

func (b *bench) waitForChange(ctx context.Context, c *changer, s *server) error {
	k, ip := c.any(), c.newIP()
	type seen struct {
		at  time.Time
		err error
	}
	answered := make(chan seen, 1)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		at, err := awaitAnswer(waiting, s.address, k, ip)
		answered <- seen{at, err}
	}()
	begin := time.Now()
	if err := c.change(ctx, k, ip); err != nil {
		return err
	}
	done := time.Now()
	got := <-answered
	if got.err != nil {
		return fmt.Errorf("the change of %s in %s: %w", k.name, s.who, got.err)
	}
	// The answer may come before the API server's own reply has.
	b.samples.Add(sinceDone, idle, s.who, max(0, milliseconds(got.at.Sub(done))))
	b.samples.Add(sinceRequest, idle, s.who, milliseconds(got.at.Sub(begin)))
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// awaitAnswer asks for an import until its address is the given one: often enough to measure a
// fraction of a millisecond, and rarely enough to leave the processors to the servers.
func awaitAnswer(ctx context.Context, address string, k key, ip string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	packet, err := new(dns.Msg).SetQuestion(k.dnsName(), dns.TypeA).Pack()
	if err != nil {
		return time.Time{}, err
	}
	conn, err := net.Dial("udp", address)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = conn.Close() }()
	tick := time.NewTicker(250 * time.Microsecond)
	defer tick.Stop()
	for {
		if has, err := hasAddress(conn, packet, ip); has || err != nil {
			return time.Now(), err
		}
		select {
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		case <-tick.C:
		}
	}
}

func hasAddress(conn net.Conn, packet []byte, ip string) (bool, error) {
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return false, err
	}
	if _, err := conn.Write(packet); err != nil {
		return false, err
	}
	var buffer [dns.MinMsgSize]byte
	n, err := conn.Read(buffer[:])
	if err != nil {
		return false, err
	}
	m := new(dns.Msg)
	if err := m.Unpack(buffer[:n]); err != nil || len(m.Answer) != 1 {
		return false, err
	}
	a, ok := m.Answer[0].(*dns.A)
	return ok && a.A.Equal(netip.MustParseAddr(ip).AsSlice()), nil
}

const (
	idle      = "idle"
	quietA    = "A, nothing changes"
	changingA = "A, imports change"
)

// loadBesideChanges measures what a query costs while imports change and while none does, in turns.
func (b *bench) loadBesideChanges(ctx context.Context, c *changer, servers []*server, l *load.Load) error {
	return b.turns(ctx, servers, func(s *server) error {
		if err := b.ask(ctx, s, l, dns.RcodeSuccess, quietA); err != nil {
			return err
		}
		return c.during(ctx, b, s, func() error { return b.ask(ctx, s, l, dns.RcodeSuccess, changingA) })
	}, l)
}

// during keeps changing imports while it does something else.
func (c *changer) during(ctx context.Context, b *bench, s *server, do func() error) error {
	changing, stop := context.WithCancel(ctx)
	begin := time.Now()
	before := c.written.Load()
	errs := make(chan error, 1)
	go func() { errs <- c.keepChanging(changing, b.changesPerSecond) }()
	err := do()
	b.samples.Add(changesDone, changingA, s.who, float64(c.written.Load()-before)/time.Since(begin).Seconds())
	stop()
	return errors.Join(err, <-errs)
}

// costOfChanges measures what a change costs a server without queries: beside a load, the
// difference of two large numbers would be inexact. All servers see the same changes.
func (b *bench) costOfChanges(ctx context.Context, c *changer, servers []*server) error {
	before, first := make([]time.Duration, len(servers)), c.written.Load()
	for i, s := range servers {
		var err error
		if before[i], err = s.cpu(); err != nil {
			return err
		}
	}
	changing, cancel := context.WithTimeout(ctx, time.Duration(b.rounds)*b.load)
	defer cancel()
	if err := c.keepChanging(changing, b.changesPerSecond); err != nil {
		return err
	}
	for i, s := range servers {
		after, err := s.cpu()
		if err != nil {
			return err
		}
		b.samples.Add(cpuPerChange, idle, s.who, float64((after-before[i]).Nanoseconds())/1e3/float64(c.written.Load()-first))
	}
	return ctx.Err()
}

// keepChanging changes imports at a rate, until its context ends. Beside a load, the API server takes longer for a change than there
// is time between two: hence several at a time.
func (c *changer) keepChanging(ctx context.Context, perSecond int) error {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	var running sync.WaitGroup
	failed := make(chan error, writers)
	for range writers {
		running.Go(func() {
			for ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case <-tick.C:
					if err := c.change(context.WithoutCancel(ctx), c.any(), c.newIP()); err != nil {
						failed <- err
						return
					}
				}
			}
		})
	}
	running.Wait()
	close(failed)
	return <-failed
}
