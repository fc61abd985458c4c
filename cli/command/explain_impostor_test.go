package command_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/clusterset-dns/multicluster/cli/explain/chain"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// TestExplainImpostor: a context that is first in the alphabet announces the ID of the exporting peer, and exports nothing. The Secret of the peer
// names the other one.
func TestExplainImpostor(t *testing.T) {
	w := world.New(t, "aaa", "member1", "member2")
	w.StartController("member1")
	w.StartController("member2")
	if joined := w.Run("join", "member1", "member2"); joined.Status != 0 {
		t.Fatal(joined.Out, joined.Err)
	}
	w.Namespace("shop", "member1", "member2")
	if err := w.Clusters["member1"].Apply(t.Context(), "shop", service+"---"+endpoints+"---"+export); err != nil {
		t.Fatal(err)
	}
	w.Announce("aaa", "member1")
	controlplane.Eventually(t, "the exporter is member1", func() error {
		shown := w.Run("explain", "foo.shop.svc.clusterset.local", "--context", "member2", "-o", "json")
		var r chain.Report
		if err := json.Unmarshal([]byte(shown.Out), &r); err != nil {
			return errors.New(shown.Out + shown.Err)
		}
		found := slices.ContainsFunc(r.Links, func(l chain.Link) bool {
			return l.Link == "endpoints" && l.Cluster == "member1" && l.State == chain.OK
		})
		duplicate := slices.ContainsFunc(r.Also, func(p output.Problem) bool {
			return p.ID == "DuplicateID" && p.What == "2 clusters announce the ID member1: aaa, member1."
		})
		if !found || !duplicate || r.Cause != nil && r.Cause.ID == "NoExport" {
			return errors.New(shown.Out)
		}
		return nil
	})
}
