package multicluster

import (
	"context"
	"testing"

	"github.com/coredns/coredns/request"
	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// A name is completed if it ends in svc, and if what stands for the pod's namespace is one: otherwise it is another pod's second try, for a
// name outside the cluster.
func TestAutoPath(t *testing.T) {
	m := &Multicluster{
		clusterDomain: "cluster.local.", searchTail: searchTail("cluster.local.", []string{"clusterset.local."}),
		owner: namespaces{"app.svc.cluster.local.": dns.RcodeSuccess, "slow.svc.cluster.local.": dns.RcodeServerFailure},
	}
	for name, first := range map[string]string{
		"foo.default.svc.app.svc.cluster.local.":            "app.svc.cluster.local.",
		"FOO.default.svc.App.svc.Cluster.Local.":            "app.svc.cluster.local.",
		"_http._tcp.foo.default.svc.app.svc.cluster.local.": "app.svc.cluster.local.",
		"foo.default.svc.slow.svc.cluster.local.":           "slow.svc.cluster.local.", // the namespaces are not listed yet
		"foo.default.svc.au.svc.cluster.local.":             "",                        // foo.default.svc.au, by any pod
		"shop.example.app.svc.cluster.local.":               "",                        // shop.example.app, by any pod
		"shop.example.au.app.svc.cluster.local.":            "",
		"foo.default.app.svc.cluster.local.":                "",
		"foo.app.svc.cluster.local.":                        "",
		"foo.default.svc.svc.cluster.local.":                "", // the second name for foo.default.svc
		"svc.app.svc.cluster.local.":                        "",
		"app.svc.cluster.local.":                            "",
		"svc.cluster.local.":                                "",
		"foo.default.svc.clusterset.local.":                 "",
		"www.example.org.":                                  "",
	} {
		var want []string
		if first != "" {
			want = []string{first, "svc.cluster.local.", "cluster.local.", "clusterset.local."}
		}
		if diff := cmp.Diff(want, m.AutoPath(request.Request{Req: new(dns.Msg).SetQuestion(name, dns.TypeA)})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// namespaces is the owner of the cluster's zone, and has the rcode for the name of each namespace.
type namespaces map[string]int

func (n namespaces) Name() string { return "kubernetes" }

func (n namespaces) ServeDNS(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	code, ok := n[r.Question[0].Name]
	switch {
	case !ok:
		code = dns.RcodeNameError
	case code == dns.RcodeServerFailure:
		return code, nil // the server writes it
	}
	return code, w.WriteMsg(new(dns.Msg).SetRcode(r, code))
}
