package index

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// wide is a headless service of so many slices, each with so many endpoints and ports.
func wide(slices, endpoints, ports int) (Service, []Slice) {
	parts := make([]Slice, slices)
	for i := range parts {
		s := Slice{SliceID: SliceID{"ns", fmt.Sprint("s", i)}, Service: "wide", Cluster: "c"}
		for j := range endpoints {
			s.Endpoints = append(s.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, byte(i), byte(j >> 8), byte(j)})})
		}
		for j := range ports {
			s.Ports = append(s.Ports, Port{fmt.Sprint("p", j), "tcp", uint16(j + 1)})
		}
		parts[i] = s
	}
	return Service{Key: NewKey("ns", "wide"), Type: Headless}, parts
}

// unchecked makes an index as build does, for shapes whose Check would take long.
func unchecked(service Service, parts []Slice) *Index {
	s := NewState()
	s.SetService(service.Entry())
	for _, part := range parts {
		s.SetSlice(part)
	}
	return New(0).With(s.Drain(), 1)
}

const wideName = "wide.ns.svc.clusterset.local."

// shapes are the objects that tenants can write and that cost most, and the questions for them.
var shapes = map[string]struct {
	make  func() (Service, []Slice)
	names []string
}{
	"one slice of 1000 endpoints and 8000 ports": {func() (Service, []Slice) { return wide(1, 1000, 8000) },
		[]string{wideName, "_p7999._tcp." + wideName, "10-0-3-231.c." + wideName}},
	"100 endpoints, 5000 ports":                {func() (Service, []Slice) { return wide(1, 100, 5000) }, []string{wideName}},
	"20 slices of 1000 endpoints and one port": {func() (Service, []Slice) { return wide(20, 1000, 1) }, []string{wideName, "_p0._tcp." + wideName}},
	"100 slices of 1000 endpoints":             {func() (Service, []Slice) { return wide(100, 1000, 1) }, []string{wideName}},
	"20 000 slices of one endpoint and other ports": {func() (Service, []Slice) {
		service, parts := wide(20_000, 1, 2)
		for i := range parts {
			parts[i].Endpoints[0].Addr = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
			parts[i].Ports[1].Number = uint16(10_000 + i)
		}
		return service, parts
	}, []string{wideName, "_p1._tcp." + wideName}},
	"20 000 slices of the same hosts and other ports": {func() (Service, []Slice) {
		service, parts := wide(20_000, 17, 2)
		for i := range parts {
			for j := range parts[i].Endpoints {
				parts[i].Endpoints[j].Addr = netip.AddrFrom4([4]byte{10, 0, 0, byte(j)})
			}
			parts[i].Ports[1] = Port{fmt.Sprint("q", i), "tcp", 1}
		}
		return service, parts
	}, []string{wideName, "_p0._tcp." + wideName}},
	"targets too long for a message, in many groups": {func() (Service, []Slice) {
		service, parts := wide(100, 1000, 2)
		for i := range parts {
			parts[i].Cluster = strings.Repeat(strings.Repeat("c", 63)+".", 3) + "c"
			parts[i].Ports[1].Number = uint16(10_000 + i)
			for j := range parts[i].Endpoints {
				parts[i].Endpoints[j].Hostname = fmt.Sprintf("%03d%057d", i, j)
			}
		}
		return service, parts
	}, []string{wideName, "_p1._tcp." + wideName}},
	"a port that only the last slice has": {func() (Service, []Slice) {
		service, parts := wide(100, 1000, 1)
		parts[99].Ports = append(parts[99].Ports, Port{"rare", "tcp", 7})
		return service, parts
	}, []string{"_rare._tcp." + wideName}},
	"one host with all addresses": {func() (Service, []Slice) {
		service, parts := wide(100, 1000, 1)
		for _, s := range parts {
			for i := range s.Endpoints {
				s.Endpoints[i].Hostname = "h"
			}
		}
		return service, parts
	}, []string{wideName, "h.c." + wideName}},
	"targets too long for a message": {func() (Service, []Slice) {
		service, parts := wide(1, 1000, 8000)
		parts[0].Cluster = strings.Repeat(strings.Repeat("c", 63)+".", 3) + "c"
		for i := range parts[0].Endpoints {
			parts[0].Endpoints[i].Hostname = fmt.Sprintf("%060d", i)
		}
		return service, parts
	}, []string{wideName}},
	"a ClusterSetIP import of 40 000 ports": {func() (Service, []Slice) {
		service := Service{Key: NewKey("ns", "wide"), IPs: ips("10.0.0.1", "fd00::1")}
		for i := range 40_000 {
			service.Ports = append(service.Ports, Port{fmt.Sprint("p", i), "tcp", uint16(i + 1)})
		}
		return service, nil
	}, []string{wideName, "_p39999._tcp." + wideName}},
}

// garbage is how many bytes a call of f allocates, and the time that the fastest of some calls takes.
func garbage(f func()) (bytes uint64, took time.Duration) {
	const calls = 8
	var before, after runtime.MemStats
	f() // what is kept from one call to the next
	runtime.ReadMemStats(&before)
	for i := range calls {
		began := time.Now()
		f()
		if d := time.Since(began); i == 0 || d < took {
			took = d
		}
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / calls, took
}

// A walk through 100 000 targets that are too long for any message ends after maxSteps of them, and says that there are more.
func TestAWalkIsCut(t *testing.T) {
	x := unchecked(shapes["targets too long for a message, in many groups"].make())
	if a := x.whole(testZone, wideName, dns.TypeSRV); !a.Truncated || len(a.Answer) > 0 {
		t.Errorf("truncated %v, with %d records; want a walk that was cut", a.Truncated, len(a.Answer))
	}
}

// Of 1000 endpoints and 8000 ports one SRV question cost 1.15 GB and 2.9 s. Over UDP an answer costs little more than its 1232
// bytes do; with the largest message it stays under 1 MB. The limit of the time is far above the aim of 1 ms, for
// the race detector on a busy machine.
func TestNoAnswerCostsMoreThanItsMessage(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			x := unchecked(shape.make())
			for size, most := range map[int]uint64{1232: 192 << 10, dns.MaxMsgSize: 1 << 20} {
				for _, qname := range shape.names {
					for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeANY} {
						var a Answer
						bytes, took := garbage(func() { a = x.Lookup(testZone, qname, qtype, size) })
						records := len(a.Answer) + len(a.Additional)
						if bytes > most || records > size/sizeA || took > 300*time.Millisecond {
							t.Errorf("%s %s in %d bytes: %d records, %d bytes of garbage, %v", qname, dns.TypeToString[qtype], size, records, bytes, took)
						}
					}
				}
			}
		})
	}
}

// It took 457 MB to index one slice of 150 kB.
func TestAServiceTakesAsMuchAsItsObjects(t *testing.T) {
	service, parts := wide(1, 1000, 8000)
	s := NewState()
	s.SetService(service.Entry())
	s.SetSlice(parts[0])
	change := s.Drain()
	x := New(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	x = x.With(change, 1)
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 4<<20 {
		t.Errorf("%d bytes of garbage for 1000 endpoints with 8000 ports", bytes)
	}
	check(t, x)
}

// After a change to one slice all endpoints of the service were sorted anew, with about 450 000 comparisons here.
func TestARebuildComparesLessThanSorting(t *testing.T) {
	const count, each = 30, 1000
	random := rand.New(rand.NewPCG(1, 2))
	var lists [][]int
	var all []int
	for range count {
		list := make([]int, each)
		for i := range list {
			list[i] = random.IntN(each)
		}
		slices.Sort(list)
		lists, all = append(lists, list), append(all, list...)
	}
	compared := 0
	got := merged(lists, func(a, b int) int { compared++; return cmp.Compare(a, b) })
	slices.Sort(all)
	if most := count * each * 5; compared > most || !slices.Equal(got, all) { // 30 lists are one after five rounds
		t.Errorf("%d comparisons, want at most %d, for %d numbers, want %d", compared, most, len(got), len(all))
	}
	if got := merged(nil, cmp.Compare[int]); len(got) != 0 {
		t.Errorf("no lists make %v", got)
	}
}

// Each name above many clusters is there once, in order; the parents that all have in common too. (A search for each name
// in the list of all took seconds here. It is not measured: two runs of a few milliseconds differ as much on a busy machine.)
func TestTheNamesAboveManyClusters(t *testing.T) {
	const n, levels = 16_000, 27
	parts := make([]*Slice, n)
	for i := range parts {
		parts[i] = &Slice{Cluster: fmt.Sprint("c", i) + strings.Repeat(".a", levels), Endpoints: make([]Endpoint, 1)}
	}
	got := namesAbove(parts)
	if len(got) != n+levels || !slices.IsSorted(got) || len(slices.Compact(got)) != n+levels {
		t.Errorf("%d names above %d clusters, want %d, each once and sorted", len(got), n, n+levels)
	}
}

// product is the SRV records of a port ("" for all) as SPEC 2.4.3 has them, each written down: one for each host and number.
func (h history) product(key Key, name, protocol, suffix string) (records []string) {
	type pair struct {
		host, cluster string
		number        uint16
	}
	pairs := map[pair]bool{}
	for _, s := range h.slices {
		if s.Key() != key || s.Cluster == "" || h.services[key].Managed && !s.Managed {
			continue
		}
		for _, e := range s.Endpoints {
			for _, p := range s.Ports {
				if name == "" || p.Name == name && p.Protocol == protocol {
					pairs[pair{cmp.Or(e.Hostname, HostLabel(e.Addr)), s.Cluster, p.Number}] = true
				}
			}
		}
	}
	var all []pair
	for p := range pairs {
		all = append(all, p)
	}
	slices.SortFunc(all, func(p, q pair) int {
		return cmp.Or(strings.Compare(p.host, q.host), strings.Compare(p.cluster, q.cluster), cmp.Compare(p.number, q.number))
	})
	for _, p := range all {
		records = append(records, fmt.Sprintf("%d %d %s.%s.%s", max(1, 100/len(all)), p.number, p.host, p.cluster, suffix))
	}
	return records
}

func srvText(rrs []dns.RR) (records []string) {
	for _, rr := range rrs {
		srv := rr.(*dns.SRV)
		records = append(records, fmt.Sprintf("%d %d %s", srv.Weight, srv.Port, srv.Target))
	}
	return records
}

// The targets that are generated while answering are those of a product that is written down, with its weight; those of a small message are
// some of them, as many as it has room for.
func TestGeneratedTargetsAreTheProduct(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for run := range uint64(60) {
		h := newHistory(seed, run)
		for range 60 {
			h.edit()
		}
		x := New(0).With(h.state.Drain(), 1)
		for key, service := range h.services {
			if service.Type != Headless {
				continue
			}
			for _, port := range []struct{ name, protocol string }{{"", ""}, {"p0", "tcp"}, {"p1", "tcp"}, {"p2", "tcp"}, {"p0", "udp"}, {"p1", "udp"}, {"p2", "udp"}} {
				suffix := string(key) + ".svc." + testZone.Name
				qname := suffix
				if port.name != "" {
					qname = "_" + port.name + "._" + port.protocol + "." + suffix
				}
				want := h.product(key, port.name, port.protocol, suffix)
				got := srvText(x.whole(testZone, qname, dns.TypeSRV).Answer)
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("run %d: %s has\n%q, want\n%q", run, qname, got, want)
				}
				testParts(t, x, qname, want)
			}
		}
	}
}

// testParts asks for SRV records in messages of every size.
func testParts(t *testing.T, x *Index, qname string, want []string) {
	t.Helper()
	all := x.Lookup(testZone, qname, dns.TypeSRV, dns.MaxMsgSize).Answer
	for size := 150; size < 900; size += 7 {
		a := x.Lookup(testZone, qname, dns.TypeSRV, size)
		got := srvText(a.Answer)
		missing := slices.DeleteFunc(slices.Clone(want), func(text string) bool { return slices.Contains(got, text) })
		if len(got)+len(missing) != len(want) || a.Truncated != (len(missing) > 0) {
			t.Fatalf("%s in %d bytes has %q (truncated: %v), want some of %q", qname, size, got, a.Truncated, want)
		}
		if length := packedLen(t, qname, a); length > size {
			t.Fatalf("%s takes %d bytes, of %d", qname, length, size)
		}
		if a.Truncated { // there is a record that would not have fitted
			more, longest := Answer{Answer: slices.Clone(a.Answer)}, 0
			for _, rr := range all {
				if slices.Contains(missing, srvText([]dns.RR{rr})[0]) {
					more.Answer = append(more.Answer[:len(a.Answer)], rr)
					longest = max(longest, packedLen(t, qname, more))
				}
			}
			if longest <= size {
				t.Fatalf("%s has %d records in %d bytes, and each other one fits", qname, len(got), size)
			}
		}
	}
}

func packedLen(t *testing.T, qname string, a Answer) int {
	t.Helper()
	m := reply(a)
	m.Question = []dns.Question{{Name: qname}}
	m.Compress = true
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return len(wire)
}

// Of more SRV records than a message has room for, each is in some answer: those of one group, and those of groups of their own.
func TestAnyOfManyTargetsIsAnswered(t *testing.T) {
	for name, shape := range map[string][3]int{"one group": {1, 300, 1}, "two ports": {1, 150, 2}, "many groups": {300, 1, 1}} {
		service, parts := wide(shape[0], shape[1], shape[2])
		for i := range parts {
			if len(parts) > 1 {
				parts[i].Endpoints[0].Addr = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
				parts[i].Ports[0].Number = uint16(i + 1)
			}
		}
		x := unchecked(service, parts)
		for _, qname := range []string{wideName, "_p0._tcp." + wideName} {
			seen, want := map[string]bool{}, len(x.whole(testZone, qname, dns.TypeSRV).Answer)
			for asked := 0; len(seen) < want; asked++ {
				for _, text := range srvText(x.Lookup(testZone, qname, dns.TypeSRV, 1232).Answer) {
					seen[text] = true
				}
				if asked == 10_000 {
					t.Fatalf("%s, %s: %d of %d targets in %d answers", name, qname, len(seen), want, asked)
				}
			}
		}
	}
}

// Of more addresses than a message has room for, each is in some answer, and none is twice in one.
func TestAnyOfManyAddressesIsAnswered(t *testing.T) {
	service, parts := wide(5, 1000, 0)
	x := unchecked(service, parts)
	for size, fits := range map[int]int{1232: 74, dns.MaxMsgSize: 4093} {
		for _, qname := range []string{wideName, "Wide" + wideName[4:]} { // kept from one answer to the next, and not
			seen := map[string]bool{}
			for answers := 0; len(seen) < 5000; answers++ {
				if answers > 5000 {
					t.Fatalf("after %d answers of %d bytes only %d addresses have been seen", answers, size, len(seen))
				}
				a := x.Lookup(testZone, qname, dns.TypeA, size)
				once := map[string]bool{}
				for _, rr := range a.Answer {
					once[rr.(*dns.A).A.String()] = true
					seen[rr.(*dns.A).A.String()] = true
				}
				if !a.Truncated || len(once) != fits || len(a.Answer) != fits || cap(a.Answer) != fits {
					t.Fatalf("%d records in %d bytes, %d different ones, want %d; truncated: %v", len(a.Answer), size, len(once), fits, a.Truncated)
				}
			}
		}
	}
}

// Without room for any record, the answer says that there are some.
func TestAnAnswerWithoutRoomIsTruncated(t *testing.T) {
	service, parts := wide(1, 1, 1)
	x := unchecked(service, parts)
	for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV, dns.TypeANY} {
		a := x.Lookup(testZone, wideName, qtype, 0)
		if a.Result != Success || !a.Truncated || len(a.Answer)+len(a.Authority)+len(a.Additional) > 0 {
			t.Errorf("%s: got %+v, want an empty truncated answer", dns.TypeToString[qtype], a)
		}
	}
	if a := x.Lookup(testZone, wideName, dns.TypeAAAA, 0); a.Result != NoData || a.Truncated {
		t.Errorf("got %+v, want no data", a)
	}
}

// RFC 2181 section 9: addresses of SRV targets are left out where they do not fit, by whole sets, and the answer is not truncated.
func TestGlueIsLeftOutByWholeSets(t *testing.T) {
	slice := Slice{SliceID: SliceID{"ns", "s"}, Service: "wide", Cluster: "c", Ports: []Port{{"p", "tcp", 1}}}
	for i := range 700 {
		for _, last := range []byte{1, 2} {
			slice.Endpoints = append(slice.Endpoints,
				Endpoint{fmt.Sprint("h", i), netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), last})},
				Endpoint{fmt.Sprint("h", i), netip.AddrFrom16([16]byte{0: 0xfd, 13: byte(i >> 8), 14: byte(i), 15: last})})
		}
	}
	x := build(t, []Service{{Key: NewKey("ns", "wide"), Type: Headless}}, slice)
	whole := x.whole(testZone, wideName, dns.TypeSRV)
	if whole.Truncated || len(whole.Answer) != 700 || len(whole.Additional) == 0 {
		t.Fatalf("%d records and %d of glue in the largest message; truncated: %v", len(whole.Answer), len(whole.Additional), whole.Truncated)
	}
	need := packedLen(t, wideName, Answer{Answer: whole.Answer})
	last := -1
	for size := need; size <= dns.MaxMsgSize; size += 211 {
		a := x.Lookup(testZone, wideName, dns.TypeSRV, size)
		if a.Truncated || len(a.Answer) != 700 || packedLen(t, wideName, a) > size || len(a.Additional) < last {
			t.Fatalf("%d bytes: truncated %v, %d records, %d of glue after %d", size, a.Truncated, len(a.Answer), len(a.Additional), last)
		}
		if last = len(a.Additional); last%2 != 0 {
			t.Fatalf("%d bytes: %d addresses of glue, want both of each set", size, last)
		}
	}
}

func TestATransferOfAWideServiceComesInParts(t *testing.T) {
	service, parts := wide(3, 400, 30)
	srv := map[string]int{}
	for part := range unchecked(service, parts).Transfer(testZone) {
		if len(part) > partSize {
			t.Fatalf("a part has %d records", len(part))
		}
		for _, rr := range part {
			if rr.Header().Rrtype == dns.TypeSRV {
				srv[rr.Header().Name]++
			}
		}
	}
	if len(srv) != 31 || srv[wideName] != 3*400*30 || srv["_p7._tcp."+wideName] != 3*400 {
		t.Errorf("transferred SRV records: %v", srv)
	}
}
