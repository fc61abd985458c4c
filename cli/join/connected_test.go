package join_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// TestConnected joins clusters whose controllers run: join ends when they are connected, or says why not.
func TestConnected(t *testing.T) {
	w := world.New(t, "member1", "member2")
	f := &fixture{t, w}
	joined := make(chan world.Result)
	go func() { joined <- w.Run("join", "--mesh") }() // it waits for the IDs
	w.StartController("member1")
	w.StartController("member2")
	if r := <-joined; r.Status != 0 || strings.Count(r.Out, "Connected") != 2 || strings.Contains(r.Err, "connected") {
		t.Fatalf("status %d\n%s%s", r.Status, r.Out, r.Err)
	}
	f.runs(0, []string{"join", "member1", "member2"}, "unchanged   Connected")
	f.runs(0, []string{"rotate", "member1", "member2"}, "updated   Connected")
	f.runs(0, []string{"join", "member2", "--from", "member1", "--expiring=1h"}, "updated   Connected")
	if p := f.peerOf("member2", "member1"); p.TokenExpiry.IsZero() || !p.Renews || p.TokenMessage != "" {
		t.Errorf("the token of %+v does not expire, or cannot be renewed", p)
	}
	f.runs(0, []string{"rotate", "member2", "--from", "member1"}, "updated   Connected")
	f.runs(0, []string{"join", "member1", "member2"}, "unchanged   Connected")
	f.runs(0, []string{"join", "member2", "--from", "member1", "--static"}, "updated   Connected")

	// Nothing listens on port 1.
	f.runs(1, []string{"join", "member2", "--from=member1", "--server=https://127.0.0.1:1", "--wait=3s"}, "Unreachable", "member2 does not read member1", "--server member1=https://ADDRESS")
	ctx, cancel := context.WithCancel(t.Context())
	interrupted := make(chan world.Result)
	go func() {
		interrupted <- w.RunContext(ctx, "join", "member2", "--from=member1", "--server=https://127.0.0.1:2", "--wait=1h")
	}()
	controlplane.Eventually(t, "the Secret has the address", func() error {
		if got := f.peer("member2", "member1").Host; got != "https://127.0.0.1:2" {
			return errors.New(got)
		}
		return nil
	})
	cancel()
	if r := <-interrupted; r.Status != 1 || !strings.Contains(r.Err, "canceled") {
		t.Errorf("status %d\n%s%s", r.Status, r.Out, r.Err)
	}

	f.runs(0, []string{"leave", "member1", "--all"}, "deleted")
	for name, c := range w.Clusters {
		controlplane.Eventually(t, "the Lease of the peer of "+name+" goes", func() error {
			_, err := c.Kube.CoordinationV1().Leases(system.Namespace).Get(t.Context(), map[string]string{"member1": "member2", "member2": "member1"}[name], metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("it is there"), err)
		})
	}
}

func (f *fixture) peerOf(context, id string) system.Peer {
	f.Helper()
	all, err := system.ReadPeers(f.Context(), f.kube(context))
	i := slices.IndexFunc(all, func(p system.Peer) bool { return p.ID == id })
	if err != nil || i < 0 {
		f.Fatalf("%s has the peers %+v, %v", context, all, err)
	}
	return all[i]
}
