package index_test

import (
	"fmt"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

var zone = &index.Zone{Name: "clusterset.local.", TTL: 5, NegativeTTL: 5}

// noLimit is the size of a reply over TCP, in bytes.
const noLimit = dns.MaxMsgSize

// A ServiceImport of type ClusterSetIP has the addresses in its spec.ips, and SRV records of its ports.
func ExampleIndex_Lookup() {
	state := index.NewState()
	foo := index.Service{
		Key:   index.NewKey("default", "foo"),
		IPs:   []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Ports: []index.Port{{Name: "http", Protocol: "tcp", Number: 80}},
	}
	state.SetService(foo.Entry())
	x := index.New(1).With(state.Drain(), 2)

	a := x.Lookup(zone, "foo.default.svc.clusterset.local.", dns.TypeA, noLimit)
	fmt.Println(a.Answer[0])
	a = x.Lookup(zone, "_http._tcp.foo.default.svc.clusterset.local.", dns.TypeSRV, noLimit)
	fmt.Println(a.Answer[0])
	a = x.Lookup(zone, "bar.default.svc.clusterset.local.", dns.TypeA, noLimit)
	fmt.Println(a.Result == index.NameError)
	// Output:
	// foo.default.svc.clusterset.local.	5	IN	A	10.0.0.1
	// _http._tcp.foo.default.svc.clusterset.local.	5	IN	SRV	0 100 80 foo.default.svc.clusterset.local.
	// true
}

// A headless import has the addresses of its ready endpoints, and one name for each of them.
func ExampleState_SetSlice() {
	state := index.NewState()
	state.SetService(index.Service{Key: index.NewKey("default", "db"), Type: index.Headless}.Entry())
	state.SetSlice(index.Slice{
		SliceID: index.SliceID{Namespace: "default", Name: "db-member1"},
		Service: "db",
		Cluster: "member1",
		Endpoints: []index.Endpoint{
			{Addr: netip.MustParseAddr("10.1.0.7"), Hostname: "db-0"},
			{Addr: netip.MustParseAddr("10.1.0.8"), Hostname: "db-1"},
		},
	})
	x := index.New(1).With(state.Drain(), 2)

	for _, name := range []string{"db.default.svc", "db-1.member1.db.default.svc"} {
		for _, record := range x.Lookup(zone, name+".clusterset.local.", dns.TypeA, noLimit).Answer {
			fmt.Println(record)
		}
	}
	// Unordered output:
	// db.default.svc.clusterset.local.	5	IN	A	10.1.0.7
	// db.default.svc.clusterset.local.	5	IN	A	10.1.0.8
	// db-1.member1.db.default.svc.clusterset.local.	5	IN	A	10.1.0.8
}

func ExampleParseName() {
	name := index.ParseName("_http._tcp.foo.default.svc")
	fmt.Println(name.Kind == index.KindService, name.Service.Namespace(), name.Service.Name(), name.Below)
	// Output: true default foo _http._tcp
}

// An endpoint without a hostname gets one that is made from its address.
func ExampleHostLabel() {
	fmt.Println(index.HostLabel(netip.MustParseAddr("10.1.0.7")))
	fmt.Println(index.HostLabel(netip.MustParseAddr("fd00::7")))
	// Output:
	// 10-1-0-7
	// fd00--7
}
