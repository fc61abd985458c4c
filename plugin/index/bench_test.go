package index

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

// crowd is an index of n ClusterSetIP imports, and one headless service of so many endpoints in two clusters.
func crowd(s *State, n, endpoints int) *Index {
	for i := range n {
		s.SetService(Service{
			Key:   NewKey(fmt.Sprint("ns", i%100), fmt.Sprint("svc", i)),
			IPs:   []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})},
			Ports: []Port{{"http", "tcp", 80}, {"https", "tcp", 443}},
		}.Entry())
	}
	s.SetService(Service{Key: NewKey("data", "db"), Type: Headless}.Entry())
	for c := range 2 {
		slice := Slice{SliceID: SliceID{"data", fmt.Sprint(c)}, Service: "db", Cluster: fmt.Sprint("c", c), Ports: []Port{{"pg", "tcp", 5432}}}
		for i := range endpoints / 2 {
			slice.Endpoints = append(slice.Endpoints, Endpoint{fmt.Sprint("db-", i), netip.AddrFrom4([4]byte{11, byte(c), byte(i >> 8), byte(i)})})
		}
		s.SetSlice(slice)
	}
	return New(0).With(s.Drain(), 1)
}

func BenchmarkLookup(b *testing.B) {
	for _, size := range []int{100, 10_000, 100_000} {
		x := crowd(NewState(), size, 100)
		for _, q := range []struct {
			name  string
			qtype uint16
		}{
			{"svc7.ns7.svc.clusterset.local.", dns.TypeA},
			{"_http._tcp.svc7.ns7.svc.clusterset.local.", dns.TypeSRV},
			{"none.ns7.svc.clusterset.local.", dns.TypeA},
			{"db.data.svc.clusterset.local.", dns.TypeA},
			{"db-7.c1.db.data.svc.clusterset.local.", dns.TypeA},
			{"_pg._tcp.db.data.svc.clusterset.local.", dns.TypeSRV},
		} {
			b.Run(fmt.Sprintf("imports=%d/%s/%s", size, dns.TypeToString[q.qtype], q.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					x.whole(testZone, q.name, q.qtype)
				}
			})
		}
	}
}

// BenchmarkWithHeadless is one endpoint more or less among a thousand.
func BenchmarkWithHeadless(b *testing.B) {
	s := NewState()
	x := crowd(s, 100, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		endpoint := Endpoint{"db-x", netip.AddrFrom4([4]byte{12, byte(i >> 16), byte(i >> 8), byte(i)})}
		s.SetSlice(Slice{SliceID: SliceID{"data", "x"}, Service: "db", Cluster: "c1", Endpoints: []Endpoint{endpoint}, Ports: []Port{{"pg", "tcp", 5432}}})
		x = x.With(s.Drain(), 0)
	}
}

// BenchmarkWith is one change among many imports.
func BenchmarkWith(b *testing.B) {
	for _, size := range []int{100, 10_000, 100_000} {
		s := NewState()
		x := crowd(s, size, 2)
		b.Run(fmt.Sprintf("imports=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.SetService(Service{Key: NewKey("ns7", "svc7"), IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})}}.Entry())
				x = x.With(s.Drain(), 0)
			}
		})
	}
}
