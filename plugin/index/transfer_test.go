package index

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// transferred returns the records of a transfer by owner and type, as text. It fails the test
// unless the first and the last record are the same SOA record, and each other record occurs once
// (RFC 5936 2.2).
func transferred(t *testing.T, x *Index, z *Zone) map[string][]string {
	t.Helper()
	var all []dns.RR
	for part := range x.Transfer(z) {
		if len(part) == 0 {
			t.Error("a part is empty")
		}
		all = append(all, part...)
	}
	last := len(all) - 1
	if soa, ok := all[0].(*dns.SOA); !ok || last < 1 || all[last].String() != soa.String() || soa.Serial != x.Serial() {
		t.Fatalf("the transfer is not between two SOA records of serial %d: %v", x.Serial(), all)
	}
	sets := map[string][]string{}
	for _, rr := range all[:last] {
		if _, err := reply(Answer{Answer: []dns.RR{rr}}).Pack(); err != nil {
			t.Errorf("%s: %v", rr, err)
		}
		question := rr.Header().Name + " " + dns.TypeToString[rr.Header().Rrtype]
		if slices.Contains(sets[question], rr.String()) {
			t.Errorf("%s is there twice", rr)
		}
		sets[question] = append(sets[question], rr.String())
	}
	return sets
}

// answered is the records that questions for every name get that a history can make, and that the transfer has, in the same form.
func answered(x *Index, z *Zone, also map[string][]string) map[string][]string {
	questions := map[string]bool{}
	for question := range also {
		questions[question] = true
	}
	for _, name := range everyName() {
		for _, qtype := range []string{"A", "AAAA", "SRV", "SOA", "NS", "TXT"} {
			questions[strings.TrimPrefix(name+"."+z.Name, ".")+" "+qtype] = true
		}
	}
	sets := map[string][]string{}
	for question := range questions {
		name, qtype, _ := strings.Cut(question, " ")
		for _, rr := range x.whole(z, name, dns.StringToType[qtype]).Answer {
			sets[question] = append(sets[question], rr.String())
		}
	}
	return sets
}

// everyName is the names of a history's services, without those of hosts called by an address: these a transfer has to name.
func everyName() []string {
	names := []string{"", "svc", "dns", "ns.dns", "dns-version"}
	below := []string{""}
	for _, host := range []string{"h1", "h2"} {
		for _, cluster := range []string{"c1", "c2", "c2.example", "example"} {
			below = append(below, cluster+".", host+"."+cluster+".")
		}
	}
	for port := range 3 {
		below = append(below, fmt.Sprintf("_p%d._tcp.", port), fmt.Sprintf("_p%d._udp.", port))
	}
	for namespace := range 3 {
		names = append(names, fmt.Sprintf("ns%d.svc", namespace))
		for service := range 4 {
			for _, b := range below {
				names = append(names, fmt.Sprintf("%ss%d.ns%d.svc", b, service, namespace))
			}
		}
	}
	return names
}

// A transfer has just what questions are answered with.
func FuzzTransfer(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		h := newHistory(seed, 1)
		for range 60 {
			h.edit()
		}
		x := New(0).With(h.state.Drain(), 7)
		sets := transferred(t, x, testZone)
		if diff := cmp.Diff(answered(x, testZone, sets), sets); diff != "" {
			t.Errorf("(-answered +transferred):\n%s", diff)
		}
	})
}

func TestATransferStopsWhenItsReaderDoes(t *testing.T) {
	x := build(t, []Service{{Key: NewKey("a", "b"), IPs: ips("10.0.0.1"), Ports: []Port{{"p", "tcp", 1}}}})
	whole := 0
	for range x.Transfer(testZone) {
		whole++
	}
	for stop := 1; stop < whole; stop++ {
		parts := 0
		for range x.Transfer(testZone) {
			if parts++; parts == stop {
				break
			}
		}
	}
}

func TestTransferOmitsNamesThatCannotBeQueried(t *testing.T) {
	long := strings.Repeat("c", 63) + "." + strings.Repeat("d", 63) + "." + strings.Repeat("e", 63)
	x := build(t, []Service{{Key: NewKey("ns", "s"), Type: Headless}},
		Slice{SliceID: SliceID{"ns", "1"}, Service: "s", Cluster: long, Ports: []Port{{"p", "tcp", 1}}, Endpoints: []Endpoint{{strings.Repeat("h", 63), ips("10.0.0.1")[0]}}})
	if got := transferred(t, x, testZone)["s.ns.svc.clusterset.local. A"]; len(got) != 1 {
		t.Errorf("got %v, want the address in the service's own name", got)
	}
}

// RFC 1982: serials wrap around.
func TestIsCurrent(t *testing.T) {
	x := New(5)
	for serial, want := range map[uint32]bool{4: false, 5: true, 6: true, 0xffffffff: false, 0x80000006: false, 0x80000004: true} {
		if got := x.IsCurrent(serial); got != want {
			t.Errorf("a secondary at %d is up to date: %v, want %v", serial, got, want)
		}
	}
}

// A zone of another plugin, where imports are found too, is that plugin's but for their names.
func TestAliasZoneHasNoVersion(t *testing.T) {
	x := build(t, []Service{{Key: NewKey("a", "b"), IPs: ips("10.0.0.1")}})
	z := &Zone{Name: "cluster.local.", TTL: 60, NegativeTTL: 7, Alias: true}
	for question, want := range map[string][]string{
		"b.a.svc.cluster.local. A":       {"Success", "answer b.a.svc.cluster.local. 60 IN A 10.0.0.1"},
		"dns-version.cluster.local. TXT": {"NameError", "authority cluster.local. 7 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 1700000000 30 10 86400 7"},
	} {
		got := ask(x, z, question)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", question, diff)
		}
	}
}
