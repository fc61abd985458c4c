package multicluster

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/plugin/test"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

// crowd draws objects of every size, with the shortest and longest names that Kubernetes lets through.
type crowd struct{ *rand.Rand }

func (r crowd) label() string {
	return []string{"a", "b", "svc", "0-1", strings.Repeat("l", 63)}[r.IntN(5)]
}

func (r crowd) cluster() string {
	return []string{"", "c1", "a", "c2.example", strings.Repeat("c", 63) + "." + strings.Repeat("d", 63) + "." + strings.Repeat("e", 63)}[r.IntN(5)]
}

func (r crowd) addr() netip.Addr {
	if r.IntN(3) == 0 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 14: byte(r.IntN(3)), 15: byte(r.Uint32())})
	}
	return netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(3)), byte(r.Uint32())})
}

func (r crowd) ports() (ports []index.Port) {
	for range r.IntN(4) {
		ports = append(ports, index.Port{Name: r.label()[:1], Protocol: []string{"tcp", "udp", "sctp"}[r.IntN(3)], Number: uint16(1 + r.IntN(65535))})
	}
	return ports
}

func (r crowd) index() *index.Index {
	s := index.NewState()
	for i := range r.IntN(20) {
		service := index.Service{Key: index.NewKey(r.label(), r.label()), Type: index.Type(r.IntN(2)), Ports: r.ports()}
		for range r.IntN(4) {
			service.IPs = append(service.IPs, r.addr())
		}
		s.SetService(service.Entry())
		slice := index.Slice{SliceID: index.SliceID{Namespace: service.Namespace(), Name: fmt.Sprint(i)}, Service: service.Name(), Cluster: r.cluster(), Ports: r.ports()}
		for range []int{0, 1, 3, 300}[r.IntN(4)] {
			slice.Endpoints = append(slice.Endpoints, index.Endpoint{Hostname: []string{"", r.label()}[r.IntN(2)], Addr: r.addr()})
		}
		s.SetSlice(slice)
	}
	return index.New(0).With(s.Drain(), 1)
}

// Whatever is asked of whatever there is, the reply can be sent, over UDP too, and is a reply to that question.
func FuzzServeDNS(f *testing.F) {
	for seed, name := range []string{"a.b.svc.clusterset.local.", "_a._tcp.a.b.svc.clusterset.local.", "a.c1.b.a.svc.Deep.ClusterSet.local.", `\.svc.clusterset.local.`, "clusterset.local."} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV, dns.TypeSOA, dns.TypeANY} {
			wire, err := new(dns.Msg).SetQuestion(name, qtype).SetEdns0(1232, true).Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint64(seed), wire)
		}
	}
	f.Fuzz(func(t *testing.T, seed uint64, wire []byte) {
		r := new(dns.Msg)
		if r.Unpack(wire) != nil || r.Response {
			return
		}
		m := handler(crowd{rand.New(rand.NewPCG(seed, 0))}.index(), fall.Zero)
		w := dnstest.NewRecorder(&test.ResponseWriter{})
		code, err := m.ServeDNS(t.Context(), w, r)
		if err != nil {
			t.Fatalf("%v: %v", r, err)
		}
		if w.Msg == nil || w.Rcode == dns.RcodeYXDomain { // not ours, or the server's to answer
			if code == dns.RcodeSuccess {
				t.Fatalf("%v: nothing was written, and success returned", r)
			}
			return
		}
		sendable(t, r, w.Msg)
	})
}

func sendable(t *testing.T, r, reply *dns.Msg) {
	t.Helper()
	if _, err := reply.Pack(); err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	if reply.Question[0] != r.Question[0] || reply.Id != r.Id {
		t.Fatalf("asked %v, got the reply %v", r, reply)
	}
	if (reply.Rcode == dns.RcodeSuccess && len(reply.Answer) > 0 || reply.Truncated) == (len(reply.Ns) > 0) {
		t.Fatalf("%v: neither an answer nor an SOA record, or both", reply)
	}
	state := request.Request{W: &test.ResponseWriter{}, Req: r}
	state.SizeAndDo(reply)
	before := *reply
	small := state.Scrub(reply)
	if out, err := small.Pack(); err != nil || len(out) > state.Size() {
		t.Fatalf("%v: %d bytes of at most %d: %v", r, len(out), state.Size(), err)
	}
	if len(small.Answer) < len(before.Answer) || len(small.Extra) < len(before.Extra) || small.Truncated != before.Truncated {
		t.Fatalf("%v: the server cut our reply %v to %v", r, &before, small)
	}
}

// A transfer and queries say the same: each record that the zone's secondary gets is in the answer to its question, as far as that has
// room, and no other.
func FuzzTransfer(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := handler(crowd{rand.New(rand.NewPCG(seed, 1))}.index(), fall.Zero)
		sets := map[dns.Question][]dns.RR{}
		all := transferred(t, m, 0)
		for _, rr := range all[:len(all)-1] {
			q := dns.Question{Name: rr.Header().Name, Qtype: rr.Header().Rrtype, Qclass: dns.ClassINET}
			sets[q] = append(sets[q], rr)
		}
		for q, want := range sets {
			_, reply := ask(t, m, q.Qclass, q.Name, q.Qtype)
			if reply == nil || (len(reply.Answer) < len(want)) != reply.Truncated || len(reply.Answer) > len(want) {
				t.Fatalf("%v is answered by %v, and transferred as %v", q, reply, want)
			}
			for i, rr := range reply.Answer {
				same := func(other dns.RR) bool { return dns.IsDuplicate(rr, other) }
				if !slices.ContainsFunc(want, same) || slices.ContainsFunc(reply.Answer[:i], same) {
					t.Fatalf("%v is answered by %v, and transferred as %v", q, reply.Answer, want)
				}
			}
		}
	})
}
