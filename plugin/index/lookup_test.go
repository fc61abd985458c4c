package index

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

var testZone = &Zone{
	Name: "clusterset.local.", TTL: 5, NegativeTTL: 3,
	Server: []netip.Addr{netip.MustParseAddr("10.0.0.53"), netip.MustParseAddr("fd00::53")},
}

const testSerial = 1700000000

// build makes an index by way of a State, and checks it.
func build(t testing.TB, services []Service, slices ...Slice) *Index {
	t.Helper()
	s := NewState()
	for _, service := range services {
		s.SetService(service.Entry())
	}
	for _, slice := range slices {
		s.SetSlice(slice)
	}
	x := New(testSerial-1).With(s.Drain(), testSerial)
	check(t, x)
	return x
}

// check fails the test for every broken rule of the index.
func check(t testing.TB, x *Index) {
	t.Helper()
	for _, err := range broken(x) {
		t.Error(err)
	}
}

func ips(list ...string) []netip.Addr {
	var ips []netip.Addr
	for _, ip := range list {
		ips = append(ips, netip.MustParseAddr(ip))
	}
	return ips
}

// ask returns the answer as text: the result, and a line for each record ("answer", "authority" or "additional" before it).
func ask(x *Index, z *Zone, question string) []string {
	name, qtype, _ := strings.Cut(question, " ")
	a := x.whole(z, name, dns.StringToType[qtype])
	lines := []string{[]string{"Success", "NoData", "NameError"}[a.Result]}
	for section, rrs := range map[string][]dns.RR{"answer": a.Answer, "authority": a.Authority, "additional": a.Additional} {
		for _, rr := range rrs {
			lines = append(lines, section+" "+strings.Join(strings.Fields(rr.String()), " "))
		}
	}
	return sortedLines(lines)
}

// sortedLines sorts all but the first.
func sortedLines(lines []string) []string {
	slices.Sort(lines[1:])
	return lines
}

const soa = "clusterset.local. 3 IN SOA ns.dns.clusterset.local. hostmaster.clusterset.local. 1700000000 30 10 86400 3"

var (
	nodata   = []string{"NoData", "authority " + soa}
	nxdomain = []string{"NameError", "authority " + soa}
)

func TestLookup(t *testing.T) {
	web := Port{"http", "tcp", 80}
	x := build(t, []Service{
		{Key: NewKey("default", "foo"), IPs: ips("10.1.0.7", "fd00::7"), Ports: []Port{web, {"dns", "udp", 53}}},
		{Key: NewKey("default", "portless"), IPs: ips("10.1.0.8")},
		{Key: NewKey("default", "pending"), Ports: []Port{web}},
		{Key: NewKey("default", "same"), IPs: ips("10.1.0.9"), Ports: []Port{{"tcp", "tcp", 42}, {"udp", "udp", 42}}},
		{Key: NewKey("data", "db"), Type: Headless, IPs: ips("10.1.0.99")},
		{Key: NewKey("data", "v4only"), Type: Headless},
		{Key: NewKey("data", "unlabelled"), Type: Headless},
		{Key: NewKey("data", "six"), Type: Headless},
		{Key: NewKey("empty", "nobody"), Type: Headless},
	},
		Slice{SliceID: SliceID{"data", "db-1"}, Service: "db", Cluster: "east", Ports: []Port{{"pg", "tcp", 5432}},
			Endpoints: []Endpoint{{"db-0", netip.MustParseAddr("10.2.0.1")}, {"", netip.MustParseAddr("10.2.0.2")}}},
		Slice{SliceID: SliceID{"data", "db-2"}, Service: "db", Cluster: "west.example", Ports: []Port{{"pg", "tcp", 5433}},
			Endpoints: []Endpoint{{"db-0", netip.MustParseAddr("10.3.0.1")}, {"db-0", netip.MustParseAddr("fd03::1")}}},
		Slice{SliceID: SliceID{"data", "v4"}, Service: "v4only", Cluster: "east",
			Endpoints: []Endpoint{{"a", netip.MustParseAddr("10.2.0.9")}}},
		Slice{SliceID: SliceID{"data", "un"}, Service: "unlabelled", Ports: []Port{web},
			Endpoints: []Endpoint{{"a", netip.MustParseAddr("10.4.0.1")}}},
		Slice{SliceID: SliceID{"data", "six"}, Service: "six", Cluster: "east",
			Endpoints: []Endpoint{{"", netip.MustParseAddr("fd00::")}, {"", netip.MustParseAddr("::5")}}},
		Slice{SliceID: SliceID{"empty", "none"}, Service: "nobody", Cluster: "east"},
	)
	foo, db := "foo.default.svc.clusterset.local.", "db.data.svc.clusterset.local."

	for name, test := range map[string]struct {
		ask  string
		want []string
	}{
		"D12 a ClusterSetIP import has an A record": {foo + " A", []string{"Success", "answer " + foo + " 5 IN A 10.1.0.7"}},
		"D12 and an AAAA record":                    {foo + " AAAA", []string{"Success", "answer " + foo + " 5 IN AAAA fd00::7"}},
		"D4 the owner name keeps the question's case": {"FOO.Default.svc.ClusterSet.local. A",
			[]string{"Success", "answer FOO.Default.svc.ClusterSet.local. 5 IN A 10.1.0.7"}},
		"D14 no address of that family is no data": {"portless.default.svc.clusterset.local. AAAA", nodata},
		"D15 an import without ports has its addresses": {"portless.default.svc.clusterset.local. A",
			[]string{"Success", "answer portless.default.svc.clusterset.local. 5 IN A 10.1.0.8"}},
		"D15 an import without IPs exists": {"pending.default.svc.clusterset.local. A", nodata},
		"D16 D17 a named port has an SRV record with glue": {"_http._tcp." + foo + " SRV", []string{"Success",
			"additional " + foo + " 5 IN A 10.1.0.7", "additional " + foo + " 5 IN AAAA fd00::7",
			"answer _http._tcp." + foo + " 5 IN SRV 0 100 80 " + foo}},
		"D16 names of ports compare without case": {"_HTTP._tcp." + foo + " SRV", []string{"Success",
			"additional " + foo + " 5 IN A 10.1.0.7", "additional " + foo + " 5 IN AAAA fd00::7",
			"answer _HTTP._tcp." + foo + " 5 IN SRV 0 100 80 " + foo}},
		"D16 a port of another protocol is another name": {"_http._udp." + foo + " SRV", nxdomain},
		"D18 SRV of the service's own name lists each target and number once": {"same.default.svc.clusterset.local. SRV", []string{"Success",
			"additional same.default.svc.clusterset.local. 5 IN A 10.1.0.9",
			"answer same.default.svc.clusterset.local. 5 IN SRV 0 100 42 same.default.svc.clusterset.local."}},
		"D18 and all named ports": {foo + " SRV", []string{"Success",
			"additional " + foo + " 5 IN A 10.1.0.7", "additional " + foo + " 5 IN AAAA fd00::7",
			"answer " + foo + " 5 IN SRV 0 50 53 " + foo, "answer " + foo + " 5 IN SRV 0 50 80 " + foo}},
		"D16 no named port is no SRV":                                         {"portless.default.svc.clusterset.local. SRV", nodata},
		"D35 an address question for a port's name is no data":                {"_http._tcp." + foo + " A", nodata},
		"the protocol above a port exists":                                    {"_tcp." + foo + " SRV", nodata},
		"a protocol without a port does not":                                  {"_sctp." + foo + " SRV", nxdomain},
		"multicluster#23 an empty port label is no name":                      {"_._tcp." + foo + " SRV", nxdomain},
		"multicluster#23 nor is an empty protocol":                            {"_." + foo + " SRV", nxdomain},
		"D19 a ClusterSetIP import has no hosts":                              {"a.east." + foo + " A", nxdomain},
		"D19 nor names of one cluster":                                        {"east." + foo + " A", nxdomain},
		"D21 D31 a headless import has its ready endpoints, whatever its ips": {db + " A", []string{"Success", "answer " + db + " 5 IN A 10.2.0.1", "answer " + db + " 5 IN A 10.2.0.2", "answer " + db + " 5 IN A 10.3.0.1"}},
		"D21 of both families":                                                {db + " AAAA", []string{"Success", "answer " + db + " 5 IN AAAA fd03::1"}},
		"D22 no ready endpoint is a name error":                               {"nobody.empty.svc.clusterset.local. A", nxdomain},
		"D22 ready endpoints of the other family only is no data":             {"v4only.data.svc.clusterset.local. AAAA", nodata},
		"D23 a host of one cluster":                                           {"db-0.east." + db + " A", []string{"Success", "answer db-0.east." + db + " 5 IN A 10.2.0.1"}},
		"D8 D23 the same host of a cluster whose id has two labels":           {"db-0.west.example." + db + " A", []string{"Success", "answer db-0.west.example." + db + " 5 IN A 10.3.0.1"}},
		"D23 both families of one host":                                       {"db-0.west.example." + db + " AAAA", []string{"Success", "answer db-0.west.example." + db + " 5 IN AAAA fd03::1"}},
		"D5 a host without a name is its address with dashes":                 {"10-2-0-2.east." + db + " A", []string{"Success", "answer 10-2-0-2.east." + db + " 5 IN A 10.2.0.2"}},
		"D5 a named host is not also its address":                             {"10-2-0-1.east." + db + " A", nxdomain},
		"an IPv6 host name does not end in a dash":                            {"fd00--0.east.six.data.svc.clusterset.local. AAAA", []string{"Success", "answer fd00--0.east.six.data.svc.clusterset.local. 5 IN AAAA fd00::"}},
		"nor begin with one":                                                  {"0--5.east.six.data.svc.clusterset.local. AAAA", []string{"Success", "answer 0--5.east.six.data.svc.clusterset.local. 5 IN AAAA ::5"}},
		"D24 an unknown host":                                                 {"db-9.east." + db + " A", nxdomain},
		"D24 an unknown cluster":                                              {"db-0.north." + db + " A", nxdomain},
		"D24 an unknown service":                                              {"bar.default.svc.clusterset.local. A", nxdomain},
		"D24 an unknown namespace":                                            {"foo.nowhere.svc.clusterset.local. A", nxdomain},
		"D25 D26 D27 SRV of a headless port: each host with its own number, and glue": {"_pg._tcp." + db + " SRV", []string{"Success",
			"additional 10-2-0-2.east." + db + " 5 IN A 10.2.0.2", "additional db-0.east." + db + " 5 IN A 10.2.0.1",
			"additional db-0.west.example." + db + " 5 IN A 10.3.0.1", "additional db-0.west.example." + db + " 5 IN AAAA fd03::1",
			"answer _pg._tcp." + db + " 5 IN SRV 0 33 5432 10-2-0-2.east." + db, "answer _pg._tcp." + db + " 5 IN SRV 0 33 5432 db-0.east." + db,
			"answer _pg._tcp." + db + " 5 IN SRV 0 33 5433 db-0.west.example." + db}},
		"D28 a cluster's id exists above its hosts and has no record": {"east." + db + " A", nodata},
		"D28 as does the parent of an id of two labels":               {"example." + db + " A", nodata},
		"D28 and the id itself":                                       {"west.example." + db + " A", nodata},
		"D29 a headless import without ports has its addresses":       {"v4only.data.svc.clusterset.local. A", []string{"Success", "answer v4only.data.svc.clusterset.local. 5 IN A 10.2.0.9"}},
		"a slice without a cluster id counts for the service":         {"unlabelled.data.svc.clusterset.local. A", []string{"Success", "answer unlabelled.data.svc.clusterset.local. 5 IN A 10.4.0.1"}},
		"and has no hosts, so no SRV record":                          {"_http._tcp.unlabelled.data.svc.clusterset.local. SRV", nxdomain},
		"D32 a namespace with an import exists":                       {"default.svc.clusterset.local. A", nodata},
		"D32 one without a name below it does not":                    {"empty.svc.clusterset.local. A", nxdomain},
		"D32 svc exists":                                       {"svc.clusterset.local. A", nodata},
		"D32 the apex exists":                                  {"clusterset.local. A", nodata},
		"TXT at the apex is no data":                           {"clusterset.local. TXT", nodata},
		"TXT of a namespace is no data":                        {"default.svc.clusterset.local. TXT", nodata},
		"TXT of a service is no data":                          {foo + " TXT", nodata},
		"multicluster#20 TXT of a headless service is no data": {db + " TXT", nodata},
		"types without records are no data (HTTPS)":            {foo + " HTTPS", nodata},
		"types without records are no data (MX)":               {foo + " MX", nodata},
		"D33 there is no pod subtree":                          {"foo.default.pod.clusterset.local. A", nxdomain},
		"pod does not exist itself":                            {"pod.clusterset.local. A", nxdomain},
		"names right below the zone do not exist":              {"foo.clusterset.local. A", nxdomain},
		"D34 NS at the apex, with this server's addresses": {"clusterset.local. NS", []string{"Success",
			"additional ns.dns.clusterset.local. 5 IN A 10.0.0.53", "additional ns.dns.clusterset.local. 5 IN AAAA fd00::53",
			"answer clusterset.local. 5 IN NS ns.dns.clusterset.local."}},
		"0x20: NS at the apex whatever the case": {"ClusterSet.LOCAL. NS", []string{"Success",
			"additional ns.dns.ClusterSet.LOCAL. 5 IN A 10.0.0.53", "additional ns.dns.ClusterSet.LOCAL. 5 IN AAAA fd00::53",
			"answer ClusterSet.LOCAL. 5 IN NS ns.dns.ClusterSet.LOCAL."}},
		"the NS target answers":                             {"ns.dns.clusterset.local. A", []string{"Success", "answer ns.dns.clusterset.local. 5 IN A 10.0.0.53"}},
		"and has no other type":                             {"ns.dns.clusterset.local. TXT", nodata},
		"dns exists above it":                               {"dns.clusterset.local. A", nodata},
		"SOA at the apex":                                   {"clusterset.local. SOA", []string{"Success", "answer " + strings.Replace(soa, " 3 IN", " 5 IN", 1)}},
		"SOA elsewhere is no data":                          {foo + " SOA", nodata},
		"RFC 8482: ANY of a service is its A records":       {foo + " ANY", []string{"Success", "answer " + foo + " 5 IN A 10.1.0.7"}},
		"RFC 8482: of a host that has IPv6 alone, its AAAA": {"fd00--0.east.six.data.svc.clusterset.local. ANY", []string{"Success", "answer fd00--0.east.six.data.svc.clusterset.local. 5 IN AAAA fd00::"}},
		"RFC 8482: of a port, its SRV record": {"_http._tcp." + foo + " ANY", []string{"Success",
			"additional " + foo + " 5 IN A 10.1.0.7", "additional " + foo + " 5 IN AAAA fd00::7",
			"answer _http._tcp." + foo + " 5 IN SRV 0 100 80 " + foo}},
		"RFC 8482: of the apex, the SOA record":               {"clusterset.local. ANY", []string{"Success", "answer " + strings.Replace(soa, " 3 IN", " 5 IN", 1)}},
		"RFC 8482: of the version":                            {"dns-version.clusterset.local. ANY", []string{"Success", `answer dns-version.clusterset.local. 5 IN TXT "1.0.0"`}},
		"RFC 8482: of a name without records, none":           {"default.svc.clusterset.local. ANY", nodata},
		"RFC 8482: of an import without IPs, its SRV record":  {"pending.default.svc.clusterset.local. ANY", []string{"Success", "answer pending.default.svc.clusterset.local. 5 IN SRV 0 100 80 pending.default.svc.clusterset.local."}},
		"RFC 8482: ANY of a name that does not exist is none": {"bar.default.svc.clusterset.local. ANY", nxdomain},
		"D11 the schema's version":                            {"dns-version.clusterset.local. TXT", []string{"Success", `answer dns-version.clusterset.local. 5 IN TXT "1.0.0"`}},
		"D11 and no other type of it":                         {"dns-version.clusterset.local. A", nodata},
		"an escaped dot is no label end":                      {`foo\.default.svc.clusterset.local. A`, nxdomain},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, ask(x, testZone, test.ask)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.ask, diff)
			}
		})
	}
}

// Until e51de02 the service's own name then had a third record, with port 0.
func TestAHostInTwoSlicesIsEachTargetOnce(t *testing.T) {
	ports := []Port{{"pg", "tcp", 5432}, {"admin", "tcp", 8080}}
	x := build(t, []Service{{Key: NewKey("data", "db"), Type: Headless}},
		Slice{SliceID: SliceID{"data", "v4"}, Service: "db", Cluster: "c", Ports: slices.Clone(ports), Endpoints: []Endpoint{{"db-0", netip.MustParseAddr("10.0.0.1")}}},
		Slice{SliceID: SliceID{"data", "v6"}, Service: "db", Cluster: "c", Ports: slices.Clone(ports), Endpoints: []Endpoint{{"db-0", netip.MustParseAddr("fd00::1")}}})
	const db = "db.data.svc.clusterset.local."
	want := []string{"Success", "additional db-0.c." + db + " 5 IN A 10.0.0.1", "additional db-0.c." + db + " 5 IN AAAA fd00::1",
		"answer " + db + " 5 IN SRV 0 50 5432 db-0.c." + db, "answer " + db + " 5 IN SRV 0 50 8080 db-0.c." + db}
	if diff := cmp.Diff(want, ask(x, testZone, db+" SRV")); diff != "" {
		t.Error(diff)
	}
}

func TestOneIndexServesEveryZone(t *testing.T) {
	x := build(t, []Service{{Key: NewKey("a", "b"), IPs: ips("10.0.0.1"), Ports: []Port{{"p", "tcp", 1}}}})
	z := &Zone{Name: "example.org.", TTL: 60}
	want := []string{"Success", "additional b.a.svc.example.org. 60 IN A 10.0.0.1", "answer _p._tcp.b.a.svc.example.org. 60 IN SRV 0 100 1 b.a.svc.example.org."}
	if diff := cmp.Diff(want, ask(x, z, "_p._tcp.b.a.svc.example.org. SRV")); diff != "" {
		t.Error(diff)
	}
}

func TestAnSRVTargetTooLongForAMessageCostsOnlyItself(t *testing.T) { // D10
	long := strings.Repeat("c", 63) + "." + strings.Repeat("d", 63) + "." + strings.Repeat("e", 63)
	port := []Port{{"p", "tcp", 1}}
	x := build(t, []Service{{Key: NewKey("ns", "s"), Type: Headless}},
		Slice{SliceID: SliceID{"ns", "1"}, Service: "s", Cluster: long, Ports: port, Endpoints: []Endpoint{{strings.Repeat("h", 63), ips("10.0.0.1")[0]}}},
		Slice{SliceID: SliceID{"ns", "2"}, Service: "s", Cluster: "c", Ports: port, Endpoints: []Endpoint{{"h", ips("10.0.0.2")[0]}}})
	got := x.whole(testZone, "s.ns.svc.clusterset.local.", dns.TypeSRV)
	if len(got.Answer) != 1 || len(got.Additional) != 1 {
		t.Fatalf("got %v, %v; want the short target alone", got.Answer, got.Additional)
	}
	if _, err := reply(got).Pack(); err != nil {
		t.Error(err)
	}
}

// The longest name that a message can hold is 255 bytes long (RFC 1035 3.1), 254 in text.
func TestTheLongestSRVTarget(t *testing.T) {
	const service = "s.ns.svc.clusterset.local."
	for length, want := range map[int]int{253: 1, 254: 1, 255: 0} {
		label := strings.Repeat("c", 63)
		cluster := strings.Join([]string{label, label, label}, ".")
		host := strings.Repeat("h", length-len("."+cluster+"."+service))
		x := build(t, []Service{{Key: NewKey("ns", "s"), Type: Headless}},
			Slice{SliceID: SliceID{"ns", "1"}, Service: "s", Cluster: cluster, Ports: []Port{{"p", "tcp", 1}}, Endpoints: []Endpoint{{host, ips("10.0.0.1")[0]}}})
		got := x.whole(testZone, service, dns.TypeSRV)
		if len(got.Answer) != want {
			t.Errorf("a target of %d characters: %d records, want %d", length, len(got.Answer), want)
		}
		if _, err := reply(got).Pack(); err != nil {
			t.Errorf("a target of %d characters: %v", length, err)
		}
	}
}

func reply(a Answer) *dns.Msg {
	m := new(dns.Msg)
	m.Answer, m.Ns, m.Extra = a.Answer, a.Authority, a.Additional
	return m
}

func TestAnswersShareNoRecord(t *testing.T) {
	x := build(t, []Service{{Key: NewKey("a", "b"), IPs: ips("10.0.0.1"), Ports: []Port{{"p", "tcp", 1}}}})
	for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV} {
		first := x.whole(testZone, "b.a.svc.clusterset.local.", qtype)
		before := fmt.Sprint(first)
		second := x.whole(testZone, "b.a.svc.clusterset.local.", qtype)
		for _, rr := range append(second.Answer, second.Additional...) {
			rr.Header().Ttl, rr.Header().Name = 99, "spoilt."
			if a, ok := rr.(*dns.A); ok {
				a.A[0] = 99
			}
		}
		if third := fmt.Sprint(x.whole(testZone, "b.a.svc.clusterset.local.", qtype)); fmt.Sprint(first) != before || third != before {
			t.Errorf("a change to one answer reached another: %v, %s; want %s", first, third, before)
		}
	}
}

func TestZoneHas(t *testing.T) {
	for name, want := range map[string]bool{
		"clusterset.local.": true, "a.clusterset.local.": true, `a\\.clusterset.local.`: true, `a\\\\.clusterset.local.`: true,
		"local.": false, "xclusterset.local.": false, `a\.clusterset.local.`: false, `a\\\.clusterset.local.`: false, ".": false, "": false,
	} {
		if got := testZone.Has(name); got != want || got != (name != "" && dns.IsSubDomain(testZone.Name, name)) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// All questions share the zone: what one does to its addresses, the next one sees.
func TestTheServersAddressesAreOnlyRead(t *testing.T) {
	z := &Zone{Name: "clusterset.local.", TTL: 5, Server: ips("fd00::53", "10.0.0.54", "10.0.0.53", "10.0.0.53")}
	x, want := build(t, nil), ips("fd00::53", "10.0.0.54", "10.0.0.53", "10.0.0.53")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if got := ask(x, z, "ns.dns.clusterset.local. A"); len(got) != 3 {
				t.Errorf("got %q, want each address once", got)
			}
		})
	}
	all.Wait()
	if !slices.Equal(z.Server, want) {
		t.Errorf("the zone's addresses became %v", z.Server)
	}
}
