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
	"github.com/clusterset-dns/multicluster/test/kube"
)

// TestConnected joins clusters whose controllers run: join ends when they are connected, or says why not.
func TestConnected(t *testing.T) {
	w := world.New(t, "member1", "member2")
	f := &fixture{t, w}
	joined := make(chan world.Result)
	// It waits for the IDs.
	go func() { joined <- w.Run("join", "--mesh", "--wait=10m") }()
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
	kube.Eventually(t, "the Secret has the address", func() error {
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
		kube.Eventually(t, "the Lease of the peer of "+name+" goes", func() error {
			_, err := c.Kube.CoordinationV1().Leases(system.Namespace).Get(t.Context(), map[string]string{"member1": "member2", "member2": "member1"}[name], metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("it is there"), err)
		})
	}
}

// TestSecondClusterWithTheID: a cluster that announces the ID of a connected peer does not get into the way of that one. It is a third one: its
// tokens are void in the first.
func TestSecondClusterWithTheID(t *testing.T) {
	w := world.New(t, "member1", "member2", "twin")
	w.StartController("member1")
	w.StartController("member2")
	f := &fixture{t, w}
	f.runs(0, []string{"join", "member2", "--from", "member1"}, "created   Connected")
	w.Announce("twin", "member1")
	before := f.secret("member2", "member1")
	for _, command := range []string{"join", "rotate"} {
		f.runs(1, []string{command, "member2", "--from", "twin"}, "OtherCluster", "Nothing was changed", "--cluster-id", "kubectl multicluster leave member2 --from twin")
	}
	if after := f.secret("member2", "member1"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Secret is another: %v", after.ManagedFields)
	}
	f.runs(0, []string{"join", "member2", "--from", "member1"}, "unchanged   Connected")

	// It replaces the first cluster on purpose.
	f.runs(0, []string{"leave", "member2", "--from", "twin"}, "deleted")
	kube.Eventually(t, "the Lease is gone", func() error {
		_, err := w.Clusters["member2"].Kube.CoordinationV1().Leases(system.Namespace).Get(t.Context(), "member1", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
	f.runs(0, []string{"join", "member2", "--from", "twin", "--wait", "0"}, "created")
	if got := f.peer("member2", "member1").Host; got != w.Clusters["twin"].Config.Host {
		t.Errorf("member2 reads %s", got)
	}
}

// TestRotateWithoutRights: a token is revoked only if its successor can be stored.
func TestRotateWithoutRights(t *testing.T) {
	w := world.New(t, "member1", "member2")
	f := &fixture{t, w}
	f.Announce("member1", "member1")
	f.Announce("member2", "member2")
	if err := w.Clusters["member2"].Apply(t.Context(), system.Namespace, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: viewer}
rules:
  - {apiGroups: ["", coordination.k8s.io], resources: [namespaces, secrets, leases], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: viewer}
subjects: [{kind: ServiceAccount, name: viewer, namespace: default}]
`); err != nil {
		t.Fatal(err)
	}
	w.As("viewer", "member2", "default", "viewer")
	for _, kind := range []string{"--static", "--expiring=1h"} {
		f.runs(0, []string{"join", "member2", "--from", "member1", kind, "--wait", "0"})
		f.runs(1, []string{"rotate", "viewer", "--from", "member1", "--wait", "0"}, "nothing is revoked", "forbidden")
		f.reads(f.peer("member2", "member1"))
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
