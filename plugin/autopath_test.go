package multicluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/coredns/coredns/request"
	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

func TestAutoPath(t *testing.T) {
	m := &Multicluster{clusterDomain: "cluster.local.", searchTail: searchTail("cluster.local.", []string{"clusterset.local."}, []string{"corp.example."})}
	tail := []string{"svc.cluster.local.", "cluster.local.", "clusterset.local.", "corp.example.", ""}
	for name, want := range map[string]string{
		"foo.default.svc.app.svc.cluster.local.": "app.svc.cluster.local.",
		"foo.app.svc.cluster.local.":             "app.svc.cluster.local.",
		"FOO.default.svc.App.svc.Cluster.Local.": "app.svc.cluster.local.",
		"www.example.org.app.svc.cluster.local.": "app.svc.cluster.local.",
		"app.svc.cluster.local.":                 "",
		"svc.cluster.local.":                     "",
		"foo.default.svc.clusterset.local.":      "",
		"www.example.org.":                       "",
	} {
		got := m.AutoPath(request.Request{Req: new(dns.Msg).SetQuestion(name, dns.TypeA)})
		if want == "" {
			if got != nil {
				t.Errorf("%s has the path %q, want none", name, got)
			}
			continue
		}
		if diff := cmp.Diff(append([]string{want}, tail...), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOwnSearch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if got := ownSearch(path); got != nil {
		t.Errorf("got %q without a file", got)
	}
	if err := os.WriteFile(path, []byte("search Corp.example b.example.\nnameserver 192.0.2.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"corp.example.", "b.example."}, ownSearch(path)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.WriteFile(path, []byte("search .\nnameserver 127.0.0.53\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ownSearch(path); len(got) > 0 {
		t.Errorf("systemd-resolved's entry for none became %q", got)
	}
}
