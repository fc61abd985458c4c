package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// pair are two clusters that tests use one after the other, and start and stop the controllers of.
var pair duoOf

type duoOf struct {
	once sync.Once
	set  []*Cluster
	err  error
}

// start gives the pair as it was at first: joined, without controllers, and without a namespace of another test.
func (s *duoOf) start(t *testing.T) []*Cluster {
	t.Helper()
	controlplane.NotShort(t)
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 15*time.Minute)
		defer cancel()
		s.set, s.err = startSet(ctx, "10.1.0.0/16,fd00:1::/112", "10.2.0.0/16,fd00:2::/112")
	})
	if s.err != nil {
		t.Fatalf("start two clusters: %v", s.err)
	}
	reset(t, s.set)
	t.Cleanup(func() {
		for _, c := range s.set {
			if err := c.End(); err != nil {
				t.Errorf("the controller of %s ended with: %v", c.ID, err)
			}
		}
	})
	return s.set
}

func reset(t *testing.T, set []*Cluster) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also in a Cleanup
	for _, c := range set {
		if err := c.Clean(ctx); err != nil {
			t.Fatalf("clean %s: %v", c.ID, err)
		}
	}
	for _, c := range set {
		controlplane.Eventually(t, "the namespaces of other tests go", func() error { return c.empty(ctx) })
		for _, peer := range set {
			if c == peer {
				continue
			}
			if err := c.Join(ctx, peer.ID, peer.ReaderKubeconfig); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Clean deletes what a controller and tests have written: the namespaces of tests, and in the controller's own
// namespace the Secrets and Leases of peers and the annotations.
func (c *Cluster) Clean(ctx context.Context) error {
	own := client.InNamespace(SystemNamespace)
	failed := []error{c.End(), c.Admin.DeleteAllOf(ctx, new(corev1.Secret), own, client.HasLabels{mcs.LabelPeer}), c.Admin.DeleteAllOf(ctx, new(coordinationv1.Lease), own)}
	var all corev1.NamespaceList
	failed = append(failed, c.Admin.List(ctx, &all))
	for _, n := range all.Items {
		if n.Name == SystemNamespace {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`))
			failed = append(failed, c.Admin.Patch(ctx, &n, patch))
		} else if ofATest(n.Name) && n.DeletionTimestamp == nil {
			failed = append(failed, client.IgnoreNotFound(c.Admin.Delete(ctx, &n)))
		}
	}
	return errors.Join(failed...)
}

func (c *Cluster) empty(ctx context.Context) error {
	var all corev1.NamespaceList
	if err := c.Admin.List(ctx, &all); err != nil {
		return err
	}
	for _, n := range all.Items {
		if ofATest(n.Name) {
			return fmt.Errorf("namespace %s of %s is there", n.Name, c.ID)
		}
	}
	return nil
}

func ofATest(namespace string) bool {
	return namespace != SystemNamespace && namespace != "default" && !strings.HasPrefix(namespace, "kube-")
}
