package status_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/cli/status"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// TestStatus: the second CoreDNS of kustomize is found, and what the user may not read is not known.
func TestStatus(t *testing.T) {
	w := world.New(t, "member1")
	w.Announce("member1", "member1")
	w.Namespace("multicluster-dns", "member1")
	w.Kubectl("member1", "create", "deployment", "multicluster-dns", "--namespace=multicluster-dns", "--image=registry.example.org/coredns:v7", "--replicas=3")
	read := func(flags ...string) status.Cluster {
		t.Helper()
		var report status.Report
		r := w.Run(append([]string{"status", "-o", "json"}, flags...)...)
		if err := json.Unmarshal([]byte(r.Out), &report); err != nil || len(report.Clusters) != 1 {
			t.Fatalf("%v: %s%s", err, r.Out, r.Err)
		}
		return report.Clusters[0]
	}
	if got := read(); got.DNS == nil || got.DNS.Wanted != 3 || got.DNSVersion != "v7" || got.Installed == nil || !*got.Installed {
		t.Errorf("found %+v", got)
	}
	if got := read("--as=nobody"); got.Installed != nil || got.DNS != nil || !strings.Contains(strings.Join(got.Errors, " "), "forbidden") {
		t.Errorf("found %+v", got)
	}
}
