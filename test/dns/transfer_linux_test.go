package dns

import (
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// secondaryIP is the address that the manual's Corefile transfers to. It is also an address of this
// machine: a client that sends to the server's address here sends from it.
const secondaryIP = "192.0.2.53"

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

// TestTransfer: a secondary server gets the zone, and others nothing. That it is what questions are answered with is tested in plugin/index.
// It has the in-tree fault of the list of known ones, "headless records lack the cluster label and the SOA serial comes from cluster.local",
// as a case.
func TestTransfer(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.apply(anotherSlice)
		w.primary("")
		w.getsReady()
		w.run("each name, those of headless Services with their cluster", func(w *world) {
			for _, name := range []string{foo, "_http._tcp." + foo, db, "db-0.member1." + db, "db-0.member2.east." + db} {
				if !has(w.transferred(axfr()), name) {
					w.Errorf("%s is not there", name)
				}
			}
		})
		w.run("a host that is not a secondary server", func(w *world) {
			if _, err := transfer(server, axfr()); err == nil || !strings.Contains(err.Error(), "bad xfr rcode: 5") {
				w.Errorf("%v; want REFUSED", err)
			}
		})
		w.run("changes", testSerial)
	})
}

// primary runs the manual's server with a secondary, and more options.
func (w *world) primary(options string) {
	w.Helper()
	w.writeKubeconfig("member1", "member1")
	w.addAddress(secondaryIP)
	w.start(edited(manualBlock(w.T, "transfer {\n        to "+secondaryIP+"\n"),
		"    transfer {", "    ready\n    errors\n    transfer {", "    multicluster {\n", "    multicluster {\n"+options))
}

func (w *world) addAddress(ip string) {
	w.Helper()
	if out, err := exec.CommandContext(w.Context(), "ip", "address", "add", ip+"/32", "dev", "lo").CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
}

// TestSecondary runs another CoreDNS, which has the zone from the first alone. It follows once the time has passed that the SOA record
// gives, half a minute.
func TestSecondary(t *testing.T) {
	t.Parallel()
	inNetwork(t, func(w *world) {
		w.ownNamespace()
		w.apply(anImport + "---" + aHeadlessImport + "---" + anotherSlice)
		w.primary("")
		w.getsReady()
		secondary := w.at(server + ":1054")
		secondary.start("clusterset.local:1054 {\n    errors\n    secondary {\n        transfer from " + secondaryIP + "\n    }\n}\n")
		foo, db := w.imported("foo"), w.imported("db")
		secondary.wants(foo+" A", "NOERROR 10.0.0.77")
		secondary.wants("db-0.member2.east."+db+" A", "NOERROR 10.2.0.5")
		secondary.wants("_sql._tcp."+db+" SRV", "NOERROR 0 33 5432 10-2-0-6.member2.east."+db+" 0 33 5432 db-0.member1."+db+" 0 33 5432 db-0.member2.east."+db)
		secondary.wants(absent+" A", "NXDOMAIN")
		w.apply(strings.ReplaceAll(anImport, "10.0.0.77", "10.0.0.80"))
		secondary.wants(foo+" A", "NOERROR 10.0.0.80")
	})
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
func (w *world) transferred(question *dns.Msg) []dns.RR {
	w.Helper()
	all, err := transfer(secondaryIP, question)
	w.must(err)
	if len(all) == 0 || all[0].Header().Rrtype != dns.TypeSOA || all[0].String() != all[len(all)-1].String() {
		w.Fatalf("a transfer of %v", all)
	}
	return all[:max(1, len(all)-1)]
}

func has(zone []dns.RR, name string) bool {
	return slices.ContainsFunc(zone, func(rr dns.RR) bool { return rr.Header().Name == name })
}

// testSerial: IXFR costs a secondary one record while nothing has changed, and the whole zone afterwards.
func testSerial(w *world) {
	soa := w.transferred(axfr())[0].(*dns.SOA)
	for _, serial := range []uint32{soa.Serial, soa.Serial + 1} {
		if got := w.transferred(ixfr(serial)); len(got) != 1 || got[0].String() != soa.String() {
			w.Errorf("IXFR from %d: %v; want the SOA record of %d alone", serial, got, soa.Serial)
		}
	}
	w.apply(strings.ReplaceAll(anImport, "10.0.0.77", "10.0.0.78"))
	w.wants(foo+" A", "NOERROR 10.0.0.78")
	now := w.transferred(ixfr(soa.Serial))
	if serial := now[0].(*dns.SOA).Serial; int32(serial-soa.Serial) <= 0 {
		w.Errorf("the serial went from %d to %d", soa.Serial, serial)
	}
	if whole := w.transferred(axfr()); len(now) != len(whole) {
		w.Errorf("IXFR from an old serial has %d records, AXFR %d", len(now), len(whole))
	}
}

// TestTransferBeforeTheFirstSync: no secondary takes a zone that is not known for an empty one.
func TestTransferBeforeTheFirstSync(t *testing.T) {
	inNetwork(t, func(w *world) {
		back := w.withoutAPIServer()
		w.primary("        startup_timeout 0s\n")
		for _, question := range []*dns.Msg{axfr(), ixfr(1)} {
			if _, err := transfer(secondaryIP, question); err == nil || !strings.Contains(err.Error(), "bad xfr rcode: 2") {
				w.Errorf("%v; want SERVFAIL", err)
			}
		}
		back()
		w.getsReady()
		if !has(w.transferred(axfr()), foo) {
			w.Errorf("%s is not there", foo)
		}
	})
}

// TestTransferOfTheClustersZone: with `alias`, cluster.local is handed out by the kubernetes plugin, whose zone it is, without imports.
func TestTransferOfTheClustersZone(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.addAddress(secondaryIP)
		w.coreDNS(edited(example("alias"), "    prometheus", "    transfer cluster.local clusterset.local {\n        to "+secondaryIP+"\n    }\n    prometheus"))
		for zone, want := range map[string]map[string]bool{"cluster.local.": {localFoo: false, local: true}, "clusterset.local.": {foo: true}} {
			all := w.transferred(new(dns.Msg).SetAxfr(zone))
			for name, there := range want {
				if got := has(all, name); got != there {
					w.Errorf("%s in the transfer of %s: %t; want %t", name, zone, got, there)
				}
			}
		}
	})
}
