package corefile

import (
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// secondaryIP is the address that the manual's Corefile transfers to. It is also an address of this
// machine: a client that sends to the server's address here sends from it.
const secondaryIP = "192.0.2.53"

// aWideImport has what anImport has not: IPv6, several ports, and one without a name.
const aWideImport = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: wide, namespace: kube-public}
spec:
  type: ClusterSetIP
  ips: [10.0.0.79, "fd00::79"]
  ports: [{name: http, port: 80, protocol: TCP}, {name: dns, port: 53, protocol: UDP}, {port: 99, protocol: TCP}]
`

// anotherSlice is of the other cluster's db, whose endpoint has the same hostname there.
const anotherSlice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: db-member2
  labels: {multicluster.kubernetes.io/service-name: db, multicluster.kubernetes.io/source-cluster: member2.east}
addressType: IPv4
endpoints: [{addresses: [10.2.0.5], hostname: db-0}, {addresses: [10.2.0.6]}]
ports: [{name: sql, port: 5432, protocol: TCP}]
`

// TestTransfer: a secondary server gets what questions are answered with. It has the in-tree fault of the list of known ones, "headless
// records lack the cluster label and the SOA serial comes from cluster.local", as a case.
func TestTransfer(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		for _, text := range []string{anImport, aHeadlessImport, anotherSlice, aWideImport} {
			apply(t, c, text)
		}
		writeKubeconfig(t, c, "member1", "member1")
		startPrimary(t, c)
		getsReady(t)
		startSecondary(t, c)

		t.Run("the whole zone, and nothing else", func(t *testing.T) { testWhole(t, transferred(t, axfr())) })
		t.Run("headless names have their cluster", func(t *testing.T) {
			for _, name := range []string{"db-0.member1." + db, "db-0.member2.east." + db} {
				if !slices.ContainsFunc(transferred(t, axfr()), func(rr dns.RR) bool { return rr.Header().Name == name }) {
					t.Errorf("%s is not there", name)
				}
			}
		})
		t.Run("a host that is not a secondary server", func(t *testing.T) {
			if _, err := transfer(server, axfr()); err == nil || !strings.Contains(err.Error(), "bad xfr rcode: 5") {
				t.Errorf("%v; want REFUSED", err)
			}
		})
		t.Run("changes", func(t *testing.T) { testSerial(t, c) })
		t.Run("a secondary follows", func(t *testing.T) { testSecondaryFollows(t, c) })
	})
}

// startPrimary runs the manual's server with a secondary.
func startPrimary(t *testing.T, c *controlplane.Cluster) {
	t.Helper()
	addAddress(t, secondaryIP)
	blocks := manualBlocks(t)
	i := slices.IndexFunc(blocks, func(text string) bool { return strings.Contains(text, "transfer {\n        to "+secondaryIP+"\n") })
	if i < 0 {
		t.Fatal("the manual has no such block")
	}
	start(t, c, "53", temporary(t, replaced(t, blocks[i], "    transfer {", "    ready\n    errors\n    transfer {")))
}

func addAddress(t *testing.T, ip string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "ip", "address", "add", ip+"/32", "dev", "lo").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// startSecondary runs another CoreDNS, which has the zone from the first alone.
func startSecondary(t *testing.T, c *controlplane.Cluster) {
	t.Helper()
	start(t, c, "1054", temporary(t, "clusterset.local:1054 {\n    errors\n    secondary {\n        transfer from "+secondaryIP+"\n    }\n}\n"))
	wantsAt(t, "1054", foo, dns.TypeA, "NOERROR 10.0.0.77")
	wantsAt(t, "1054", "db-0.member2.east."+db, dns.TypeA, "NOERROR 10.2.0.5")
	wantsAt(t, "1054", "_sql._tcp."+db, dns.TypeSRV, "NOERROR 0 33 5432 10-2-0-6.member2.east."+db+" 0 33 5432 db-0.member1."+db+" 0 33 5432 db-0.member2.east."+db)
	wantsAt(t, "1054", "bar.default.svc.clusterset.local.", dns.TypeA, "NXDOMAIN")
}

func axfr() *dns.Msg { return new(dns.Msg).SetAxfr("clusterset.local.") }

func ixfr(serial uint32) *dns.Msg {
	return new(dns.Msg).SetIxfr("clusterset.local.", serial, "ns.dns.clusterset.local.", "hostmaster.clusterset.local.")
}

// transfer asks for a zone by one of the server's addresses.
func transfer(ip string, question *dns.Msg) (all []dns.RR, err error) {
	parts, err := new(dns.Transfer).In(question, net.JoinHostPort(ip, "53"))
	if err != nil {
		return nil, err
	}
	for part := range parts {
		if part.Error != nil {
			err = part.Error
		}
		all = append(all, part.RR...)
	}
	return all, err
}

// transferred is what a secondary gets. Its first record is the SOA, and where there are more, its last is the same.
func transferred(t *testing.T, question *dns.Msg) []dns.RR {
	t.Helper()
	all, err := transfer(secondaryIP, question)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 || all[0].Header().Rrtype != dns.TypeSOA || all[0].String() != all[len(all)-1].String() {
		t.Fatalf("a transfer of %v", all)
	}
	return all[:max(1, len(all)-1)]
}

// testWhole asks for each name of the transfer, by every type of record: the answers are the transfer. What has none in it has none.
func testWhole(t *testing.T, zone []dns.RR) {
	answers := map[string][]string{}
	names := []string{
		"svc.clusterset.local.", "default.svc.clusterset.local.", "member1." + db, "east." + db, "member2.east." + db, "_tcp." + db, "dns.clusterset.local.",
		"bar.default.svc.clusterset.local.", "db-1.member1." + db, "db-0." + db, "_http._udp." + foo, "_http._tcp." + db, "foo.default.pod.clusterset.local.",
	}
	for _, rr := range zone {
		h := rr.Header()
		key := h.Name + " " + dns.TypeToString[h.Rrtype]
		answers[key] = append(answers[key], rr.String())
		names = append(names, h.Name)
	}
	asked := map[string][]string{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeTXT, dns.TypeSOA, dns.TypeNS, dns.TypePTR, dns.TypeCNAME, dns.TypeMX, dns.TypeHTTPS} {
			m, err := exchange("tcp", "53", name, qtype)
			if err != nil {
				t.Fatal(err)
			}
			for _, rr := range m.Answer {
				asked[name+" "+dns.TypeToString[qtype]] = append(asked[name+" "+dns.TypeToString[qtype]], rr.String())
			}
		}
	}
	for _, records := range []map[string][]string{answers, asked} {
		for _, lines := range records {
			slices.Sort(lines)
		}
	}
	if diff := cmp.Diff(asked, answers); diff != "" {
		t.Errorf("questions (-) and the transfer (+) differ:\n%s", diff)
	}
	if len(answers) < 8 {
		t.Errorf("only %d names and types: %v", len(answers), zone)
	}
}

// testSerial: IXFR costs a secondary one record while nothing has changed, and the whole zone afterwards.
func testSerial(t *testing.T, c *controlplane.Cluster) {
	soa := transferred(t, axfr())[0].(*dns.SOA)
	for _, serial := range []uint32{soa.Serial, soa.Serial + 1} {
		if got := transferred(t, ixfr(serial)); len(got) != 1 || got[0].String() != soa.String() {
			t.Errorf("IXFR from %d: %v; want the SOA record of %d alone", serial, got, soa.Serial)
		}
	}
	apply(t, c, strings.ReplaceAll(anImport, "10.0.0.77", "10.0.0.78"))
	wants(t, foo, dns.TypeA, "NOERROR 10.0.0.78")
	now := transferred(t, ixfr(soa.Serial))
	if serial := now[0].(*dns.SOA).Serial; int32(serial-soa.Serial) <= 0 {
		t.Errorf("the serial went from %d to %d", soa.Serial, serial)
	}
	if diff := cmp.Diff(lines(transferred(t, axfr())), lines(now)); diff != "" {
		t.Errorf("AXFR (-) and IXFR from an old serial (+) differ:\n%s", diff)
	}
	testWhole(t, now)
}

func lines(rrs []dns.RR) (all []string) {
	for _, rr := range rrs {
		all = append(all, rr.String())
	}
	slices.Sort(all)
	return all
}

// testSecondaryFollows waits for as long as the SOA record tells secondaries to, half a minute.
func testSecondaryFollows(t *testing.T, c *controlplane.Cluster) {
	apply(t, c, strings.ReplaceAll(anImport, "10.0.0.77", "10.0.0.80"))
	wantsAt(t, "1054", foo, dns.TypeA, "NOERROR 10.0.0.80")
}

// TestTransferBeforeTheFirstSync: no secondary takes a zone that is not known for an empty one.
func TestTransferBeforeTheFirstSync(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		apply(t, c, anImport)
		writeKubeconfig(t, c, "member1", "member1")
		c.StopAPIServer()
		startPrimary(t, c)
		for _, question := range []*dns.Msg{axfr(), ixfr(1)} {
			if _, err := transfer(secondaryIP, question); err == nil || !strings.Contains(err.Error(), "bad xfr rcode: 2") {
				t.Errorf("%v; want SERVFAIL", err)
			}
		}
		if err := c.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		getsReady(t)
		testWhole(t, transferred(t, axfr()))
	})
}

// TestTransferOfTheClustersZone: with `alias`, cluster.local is handed out by the kubernetes plugin, whose zone it is, without imports.
func TestTransferOfTheClustersZone(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		asClusterCoreDNS(t, c)
		startUpstream(t)
		addAddress(t, secondaryIP)
		apply(t, c, anImport)
		apply(t, c, aLocalService)
		text := replaced(t, read(t, example("alias")), "    prometheus", "    transfer cluster.local clusterset.local {\n        to "+secondaryIP+"\n    }\n    prometheus")
		start(t, c, "53", temporary(t, text))
		getsReady(t)
		for zone, want := range map[string]map[string]bool{
			"cluster.local.":    {localFoo: false, "local.default.svc.cluster.local.": true},
			"clusterset.local.": {foo: true},
		} {
			all := transferred(t, new(dns.Msg).SetAxfr(zone))
			for name, there := range want {
				if got := slices.ContainsFunc(all, func(rr dns.RR) bool { return rr.Header().Name == name }); got != there {
					t.Errorf("%s in the transfer of %s: %t; want %t", name, zone, got, there)
				}
			}
		}
	})
}
