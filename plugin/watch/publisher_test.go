package watch

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/plugin/index"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// A secondary compares serials by RFC 1982: the later one has to be the larger, also over the end of the 32 bits.
func TestSerialsGrow(t *testing.T) {
	const interval = time.Second / serialsPerSecond
	for at := time.Unix(1<<32/serialsPerSecond*25-1, 0); at.Unix() < 1<<32/serialsPerSecond*25+1; at = at.Add(interval) {
		if grown := int32(serialAt(at.Add(interval)) - serialAt(at)); grown != 1 {
			t.Fatalf("from %v to the next interval the serial grows by %d", at, grown)
		}
	}
	now := time.Now()
	for lead, want := range map[uint32]time.Duration{0: 0, maxLead: 0, maxLead + 1: interval, 64 * 3600: interval, 1<<32 - 1: 0, 1 << 31: 0} {
		if got := pause(serialAt(now)+lead, now); got != want {
			t.Errorf("%d ahead of the clock the next Index waits for %v, want %v", lead, got, want)
		}
	}
	year := 365 * 24 * time.Hour
	if int32(serialAt(now.Add(year))-serialAt(now)) <= 0 {
		t.Error("a secondary that was away for a year takes the new serial for an older one")
	}
}

// A secondary that took the zone from a replica that has just started gets the next change from any other replica.
func TestSerialsOfReplicasAreComparable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := index.NewState()
		publish := func(p *publisher, address byte, ahead uint32) uint32 {
			state.SetService(index.Service{Key: index.NewKey("ns", "foo"), IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, address})}}.Entry())
			p.replace(&View{}, state.Drain(), serialAt(time.Now())+ahead, 0)
			return p.published.Load().Index.Serial()
		}
		old, young := newPublisher(quiet{}), newPublisher(quiet{})
		publish(old, 1, maxLead)
		time.Sleep(time.Hour) //nolint:forbidigo // the clock of a bubble: it takes no time
		taken := publish(young, 2, maxLead)
		time.Sleep(time.Second + time.Second/serialsPerSecond) //nolint:forbidigo // as above
		if next := publish(old, 3, 0); int32(next-taken) <= 0 {
			t.Errorf("the serial of a change a second later is %d, and %d was that of a start: the change is taken for an older one", next, taken)
		}
	})
}

// quiet is an observer that counts its calls.
type quiet struct {
	Observer
	programmed map[string]int
}

func (quiet) Published(int, int, bool)                  {}
func (q quiet) Programmed(kind string, _ time.Duration) { q.programmed[kind]++ }

// backlogged is a publisher with a headless service that takes long to make, in one namespace with a small neighbour.
type backlogged struct {
	*testing.T
	*publisher
	zone index.Zone
}

func newBacklogged(t *testing.T) backlogged {
	b := backlogged{t, newPublisher(quiet{programmed: map[string]int{}}), index.Zone{Name: "clusterset.local."}}
	b.wait(importKind.name, "")
	b.wait(sliceKind.name, "")
	b.edit(change{kind: importKind.name}, func(h *publisher) bool {
		return h.state.SetService(index.Service{Key: index.NewKey("ns", "large"), Type: index.Headless}.Entry())
	})
	b.crowd(0)
	b.neighbour(1)
	b.publishOnce()
	b.answers("large.ns", "10.0.0.0")
	b.answers("small.ns", "11.0.0.1")
	return b
}

// crowd makes the large service's endpoints those of a generation.
func (b backlogged) crowd(generation int) {
	slice := index.Slice{SliceID: index.SliceID{Namespace: "ns", Name: "large"}, Service: "large", Cluster: "c"}
	for i := range mostAtOnce + 1 {
		slice.Endpoints = append(slice.Endpoints, index.Endpoint{Addr: netip.AddrFrom4([4]byte{10, byte(generation), byte(i >> 8), byte(i)})})
	}
	b.edit(change{kind: sliceKind.name, at: 1}, func(h *publisher) bool { return h.state.SetSlice(slice) })
}

func (b backlogged) neighbour(generation int) {
	ip := netip.AddrFrom4([4]byte{11, 0, 0, byte(generation)})
	b.edit(change{kind: importKind.name, at: 1}, func(h *publisher) bool {
		return h.state.SetService(index.Service{Key: index.NewKey("ns", "small"), IPs: []netip.Addr{ip}}.Entry())
	})
}

// answers fails the test unless the address is one of the name's; "" for a name that does not exist.
func (b backlogged) answers(name, ip string) {
	b.Helper()
	if ip == "" {
		if a := b.published.Load().Index.Lookup(&b.zone, name+".svc.clusterset.local.", dns.TypeA, dns.MaxMsgSize); a.Result != index.NameError {
			b.Errorf("%s: result %d, want none", name, a.Result)
		}
		return
	}
	host := index.HostLabel(netip.MustParseAddr(ip)) + ".c."
	if name == "small.ns" {
		host = ""
	}
	a := b.published.Load().Index.Lookup(&b.zone, host+name+".svc.clusterset.local.", dns.TypeA, dns.MaxMsgSize)
	if !slices.ContainsFunc(a.Answer, func(rr dns.RR) bool { return rr.(*dns.A).A.String() == ip }) {
		b.Errorf("%s has not %s but %v", name, ip, a)
	}
}

// build makes the next block of the backlog.
func (b backlogged) build() index.Change {
	b.Helper()
	next, ok := b.backlog.Next()
	if !ok {
		b.Fatal("nothing waits")
	}
	return next.Build()
}

// One changed slice of a service with 100 000 endpoints delayed every other name by 213 ms, in the only publisher.
func TestALargeServiceDelaysNoOther(t *testing.T) {
	b := newBacklogged(t)
	serial := b.published.Load().Index.Serial()
	b.crowd(1)
	b.neighbour(2)
	b.publishOnce()
	b.answers("small.ns", "11.0.0.2")
	b.answers("large.ns", "10.0.0.0")
	told := b.observer.(quiet).programmed
	if told[importKind.name] != 1 || told[sliceKind.name] != 0 {
		t.Errorf("told of %v, before the slice is answered", told)
	}
	b.publishBuilt(b.build())
	b.answers("large.ns", "10.1.0.0")
	if told[sliceKind.name] != 1 {
		t.Errorf("told of %v, after the slice is answered", told)
	}
	if grown := b.published.Load().Index.Serial() - serial; int32(grown) < 2 {
		t.Errorf("the serial grew by %d with two Indexes", grown)
	}
}

func TestTheNewestChangeOfALargeServiceWins(t *testing.T) {
	b := newBacklogged(t)
	b.crowd(1)
	b.publishOnce()
	first := b.build()
	b.crowd(2)
	b.publishOnce()
	b.crowd(3)
	b.publishOnce()
	if _, ok := b.backlog.Next(); ok {
		t.Error("two are built at a time")
	}
	b.publishBuilt(first) // late, but newer than what is answered: a flood of changes must not keep all of them back
	b.answers("large.ns", "10.1.0.0")
	b.publishBuilt(b.build())
	b.answers("large.ns", "10.3.0.0")
	if _, ok := b.backlog.Next(); ok {
		t.Error("what was overtaken while it waited is built")
	}
}

func TestOutdatedBlockIsNotPublished(t *testing.T) {
	key := index.NewKey("ns", "large")
	for name, edit := range map[string]func(*publisher) bool{
		"the service is deleted": func(h *publisher) bool { return h.state.DeleteService(key) },
		"its endpoints are gone": func(h *publisher) bool { return h.state.DeleteSlice(index.SliceID{Namespace: "ns", Name: "large"}) },
		"it became a small one": func(h *publisher) bool {
			return h.state.SetSlice(index.Slice{SliceID: index.SliceID{Namespace: "ns", Name: "large"}, Service: "other"})
		},
		"a list has it no longer": func(h *publisher) bool { h.state.ReplaceServices("ns", nil); return true },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBacklogged(t)
			b.crowd(1)
			b.publishOnce()
			built := b.build()
			b.edit(change{kind: sliceKind.name}, edit)
			b.publishOnce()
			b.answers("large.ns", "")
			b.publishBuilt(built)
			b.answers("large.ns", "")
		})
	}
}

// The publisher itself, with a flood of changes to both.
func TestTheBacklogEndsInTheNewestState(t *testing.T) {
	b := newBacklogged(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.publish(ctx)
	}()
	defer func() { cancel(); <-ended }()
	for generation := 1; generation <= 20; generation++ {
		b.crowd(generation)
		b.neighbour(generation)
	}
	for name, want := range map[string]string{"10-20-0-0.c.large.ns": "10.20.0.0", "small.ns": "11.0.0.20"} {
		kube.Eventually(t, name+" is the newest", func() error {
			a := b.published.Load().Index.Lookup(&b.zone, name+".svc.clusterset.local.", dns.TypeA, dns.MaxMsgSize)
			if len(a.Answer) != 1 || a.Answer[0].(*dns.A).A.String() != want {
				return fmt.Errorf("got %v, want %s", a, want)
			}
			return nil
		})
	}
}
