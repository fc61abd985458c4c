package index

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func FuzzParseName(f *testing.F) {
	for _, name := range []string{"", "svc", "ns.dns", "default.svc", "foo.default.svc", "_http._tcp.foo.default.svc", `a\.b.svc`, "._.svc",
		"db-0.west.example.db.data.svc", "..svc", ".svc", "foo.default.pod"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, below string) {
		n := ParseName(below)
		if n.Kind != KindService {
			return
		}
		again := strings.TrimPrefix(n.Below+"."+string(n.Service)+".svc", ".")
		if again != below && "."+again != below {
			t.Errorf("%q was taken apart to %+v, which is %q", below, n, again)
		}
	})
}

func FuzzLookup(f *testing.F) {
	f.Add(uint64(1), "foo.default.svc.", uint16(dns.TypeA))
	f.Add(uint64(7), "_p1._tcp.s1.ns1.svc.", uint16(dns.TypeSRV))
	f.Add(uint64(9), "h1.c2.example.s1.ns1.svc.", uint16(dns.TypeAAAA))
	f.Add(uint64(9), `\.svc.`, uint16(dns.TypeANY))
	f.Fuzz(func(t *testing.T, seed uint64, below string, qtype uint16) {
		h := newHistory(seed, 0)
		for range 40 {
			h.edit()
		}
		x := New(0).With(h.state.Drain(), 1)
		qname := below + testZone.Name
		if _, ok := dns.IsDomainName(qname); !ok || !strings.HasSuffix(below, ".") {
			return
		}
		testSmaller(t, x, qname, qtype)
		a := x.whole(testZone, qname, qtype)
		if (a.Result == Success) != (len(a.Answer) > 0) || (a.Result == Success) != (len(a.Authority) == 0) {
			t.Fatalf("%s: result %d with %d answers and %d authorities", qname, a.Result, len(a.Answer), len(a.Authority))
		}
		if _, err := reply(a).Pack(); err != nil {
			t.Fatalf("%s: %v", qname, err)
		}
		for _, rr := range a.Answer {
			if rr.Header().Name != qname || rr.Header().Rrtype != qtype && qtype != dns.TypeANY {
				t.Errorf("asked for %s %d, got %s", qname, qtype, rr)
			}
		}
	})
}

// testSmaller asks for messages of a few hundred bytes: what does not fit is missing, and nothing else is different.
func testSmaller(t *testing.T, x *Index, qname string, qtype uint16) {
	whole := x.whole(testZone, qname, qtype)
	for size := 100; size < 700; size += 50 {
		a := x.Lookup(testZone, qname, qtype, size)
		if a.Result != whole.Result || a.Truncated != (len(a.Answer) < len(whole.Answer)) || len(a.Additional) > len(whole.Additional) {
			t.Fatalf("%s %d in %d bytes: %+v, the whole is %+v", qname, qtype, size, a, whole)
		}
		if a.Truncated && len(a.Additional) > 0 {
			t.Fatalf("%s %d in %d bytes has glue and not all records", qname, qtype, size)
		}
		if length := packedLen(t, qname, a); a.Result == Success && length > max(size, 17+len(qname)) {
			t.Fatalf("%s %d takes %d bytes, of %d", qname, qtype, length, size)
		}
	}
}
