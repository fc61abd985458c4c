package join_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// TestThroughAProxy joins clusters whose contexts have a proxy-url: the plugin and the controllers reach them through the proxy only, because
// no resolver knows their names. Without a proxy-url, the proxy of the controller's environment counts.
func TestThroughAProxy(t *testing.T) {
	w := world.New(t, "member1", "member2")
	f := &fixture{t, w}
	proxy := w.BehindProxy(t, "member1", "member2")
	w.StartController("member1")
	t.Setenv("HTTPS_PROXY", proxy.URL()) // member2's own API server is on loopback, which no proxy serves
	w.StartController("member2")
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
	secret := f.secret("member2", "member1")
	secret.Data["kubeconfig"] = regexp.MustCompile(`(?m)^ *proxy-url: .*\n`).ReplaceAll(secret.Data["kubeconfig"], nil)
	taken = proxy.Taken()
	if _, err := f.kube("member2").CoreV1().Secrets(system.Namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if config := f.peer("member2", "member1"); config.Proxy != nil {
		t.Error("the kubeconfig still has a proxy-url")
	}
	kube.Eventually(t, "the controller of member2 uses the proxy of its environment", func() error {
		if proxy.Taken() == taken || f.peerOf("member2", "member1").Reason != "Connected" {
			return errors.New("it does not")
		}
		return nil
	})
	f.runs(0, []string{"leave", "member1", "member2"}, "deleted")
}
