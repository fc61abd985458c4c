package chain

import (
	"net/netip"
	"strings"
	"testing"
)

const withPlugin = ".:53 {\n multicluster clusterset.local\n forward . /etc/resolv.conf\n}"

// What a new pod would do with the Corefile decides whether a command replaces a pod that works.
func TestServersThatKeepTheirCorefile(t *testing.T) {
	for name, c := range map[string]struct {
		corefile string
		log      Read[string]
		want     string
		replaces bool
	}{
		"the zone is forwarded":         {forwarding, Read[string]{}, "CorefileNotLoaded", true},
		"the log cannot be read":        {forwarding, Read[string]{Error: "forbidden"}, "CorefileNotLoaded", false},
		"the image may lack the plugin": {withPlugin, Read[string]{}, "CorefileNotLoaded", false},
		"the server refuses it":         {forwarding, Read[string]{Value: "x\n[ERROR] plugin/reload: Corefile changed but reload failed: /etc/coredns/Corefile:3 - Error: no\ny"}, "CorefileRefused", false},
		"an earlier refusal":            {forwarding, Read[string]{Value: "[ERROR] plugin/reload: Corefile changed but reload failed: no\n[INFO] Reloading complete\n"}, "CorefileNotLoaded", true},
	} {
		f := good()
		f.DNS.Corefile.Value = c.corefile
		f.DNS.Servers.Value[0].Answer, f.DNS.Servers.Value[0].Log = Answer{Code: "NXDOMAIN"}, c.log
		r := Walk(f)
		if r.Cause == nil || r.Cause.ID != c.want || (len(r.Cause.Fix) > 0) != c.replaces {
			t.Errorf("%s: %+v", name, r.Cause)
		}
		check(t, r)
	}
}

// Servers with the right answer are no fault, wherever the zone is forwarded to.
func TestForwardToAnotherAddressOfTheServers(t *testing.T) {
	f := good()
	f.DNS.Second.Value[0].Address = "10.0.0.60"
	if r := Walk(f); r.Result != ResultWhole {
		t.Errorf("%+v", r)
	}
}

func TestNodeLocal(t *testing.T) {
	const domain = "cluster.local:53 {\n bind 169.254.20.10\n forward . 10.0.0.12 {\n force_tcp\n }\n}\n"
	for name, c := range map[string]struct{ text, want string }{
		"no NodeLocal":                     {"", ResultWhole},
		"the resolvers of the node":        {domain + ".:53 {\n forward . /etc/resolv.conf\n}", "NodeLocalNoStanza"},
		"all names to the cluster's DNS":   {".:53 {\n forward . 10.0.0.10\n}", ResultWhole},
		"all names to the upstream server": {domain + ".:53 {\n forward . 10.0.0.12\n}", ResultWhole},
		"the plugin in NodeLocal":          {domain + "clusterset.local:53 {\n multicluster\n}", ResultWhole},
		"a block on another port":          {domain + "clusterset.local:54 {\n forward . 10.0.0.12\n}", "NodeLocalNoStanza"},
	} {
		f := good()
		f.DNS.NodeLocal.Value = c.text
		r := Walk(f)
		got := r.Result
		if r.Cause != nil {
			got = r.Cause.ID
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s: %+v", name, got, c.want, r.Links)
		}
	}
}

// Networks that overlap where no endpoint is prove nothing.
func TestOverlapWithoutEndpoints(t *testing.T) {
	f := good()
	f.Here.Peers.Value[0].DataPath = "Unknown"
	f.Here.Networks.Value.Pods = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}
	f.Others[0].Networks.Value.Pods = f.Here.Networks.Value.Pods
	if r := Walk(f); r.Result != ResultWhole {
		t.Errorf("%+v", r)
	}
	f.Here.Slices.Value[0].Endpoints[0].Addresses = []string{"10.244.0.7"}
	if r := Walk(f); r.Cause == nil || r.Cause.ID != "OverlappingNetworks" || !strings.Contains(r.Cause.What, "10.244.0.0/24") {
		t.Errorf("%+v", r)
	}
}
