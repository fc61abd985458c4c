package join_test

import (
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/cli/testing/world"
)

// TestThroughAProxy joins clusters whose contexts have a proxy-url: the plugin and the controllers reach them through the proxy only, because
// no resolver knows their names.
func TestThroughAProxy(t *testing.T) {
	w := world.New(t, "member1", "member2")
	w.StartController("member1")
	w.StartController("member2")
	f := &fixture{t, w}
	proxy := w.BehindProxy(t, "member1", "member2")
	f.runs(0, []string{"join", "member1", "member2"}, "created   Connected")
	if config := f.peer("member2", "member1"); config.Host != "https://member1.invalid:6443" || config.Proxy == nil || config.ServerName == "" {
		t.Errorf("member2 reads %s, through a proxy: %v, with the server name %q", config.Host, config.Proxy != nil, config.ServerName)
	}
	f.runs(0, []string{"rotate", "member1", "member2"}, "updated   Connected")
	taken := proxy.Taken()
	if r := f.runs(1, []string{"status"}, "ControllerNotReady"); strings.Count(r.Out, "ok*") != 2 { // no Deployment runs its pods here
		t.Error(r.Out)
	}
	if taken == 0 || proxy.Taken() == taken {
		t.Errorf("the proxy made %d connections before status, and %d after", taken, proxy.Taken())
	}
	f.runs(0, []string{"leave", "member1", "member2"}, "deleted")
}
