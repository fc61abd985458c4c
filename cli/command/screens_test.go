package command_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/cli/explain/chain"
	"github.com/clusterset-dns/multicluster/cli/testing/screen"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// TestScreens draws the output of status and explain for docs/cli.md, in a clusterset with a fault. `make screens` runs it.
func TestScreens(t *testing.T) {
	if os.Getenv("SCREENS") != "write" {
		t.Skip("writes docs/pictures: only by `make screens`")
	}
	l := newLab(t)
	l.shop("shop")
	l.whole("foo.shop.svc.clusterset.local")
	for _, c := range l.Clusters { // as a kubelet reports the controller that runs beside the cluster
		l.Kubectl(c.ID, "--namespace=multicluster-system", "scale", "deployment/multicluster-controller", "--replicas=1")
		l.Kubectl(c.ID, "--namespace=multicluster-system", "patch", "deployment/multicluster-controller", "--subresource=status", "-p", `{"status": {"replicas": 1, "readyReplicas": 1}}`)
	}
	l.sh("kubectl --context member1 delete secret multicluster-peer-member2 --namespace multicluster-system")
	kube.Eventually(t, "the token is refused", func() error {
		report := chain.Walk(l.facts("foo.shop.svc.clusterset.local", nil))
		if report.Cause == nil || report.Cause.ID != "PeerUnauthorized" {
			return errors.New(printed(t, report))
		}
		return nil
	})
	t.Setenv("CLICOLOR_FORCE", "1")
	t.Setenv("NO_COLOR", "")
	for name, args := range map[string][]string{
		"status":  {"status"},
		"explain": {"explain", "foo.shop.svc.clusterset.local", "--context", "member2"},
	} {
		shown := l.World.Run(args...)
		if shown.Status != 1 || !strings.Contains(shown.Out, "\x1b[31m") {
			t.Errorf("%s: status %d\n%s%s", name, shown.Status, shown.Out, shown.Err)
		}
		picture := screen.SVG("kubectl multicluster "+strings.Join(args, " "), shown.Out, 120)
		if err := os.WriteFile(filepath.Join(binaries.Root(), "docs", "pictures", name+".svg"), picture, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
