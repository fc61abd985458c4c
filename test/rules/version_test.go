package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// K10, A5: a cluster with the CRD that Karmada ships (v1alpha1 only, one IP, and neither families
// nor policies nor conditions in a ServiceImport) is a full member, as importer and as peer. The
// controller does not write forever what its CRD cannot store.
func TestOldCRDs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	old, err := StartWith(ctx, "c2", controlplane.Options{ServiceCIDRs: "10.2.0.0/16,fd00:2::/112"}, controlplane.OldKarmada, "v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := old.Stop(); err != nil {
			t.Error("stop the cluster with old CRDs:", err)
		}
	})
	set := []*Cluster{pair.start(t)[0], old}
	for i, c := range set {
		peer := set[1-i]
		if err := errors.Join(c.Join(ctx, peer.ID, peer.ReaderKubeconfig), c.Run(context.WithoutCancel(t.Context()))); err != nil {
			t.Fatal(err)
		}
	}
	s := newStage(t, set, 0, 1)
	s.export(0, service("foo", dualStack, func(spec *corev1.ServiceSpec) {
		spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameZone)
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
	}), "10.9.1.1")
	s.export(1, service("bar"), "10.9.2.1")
	s.until("imported by the newer one", func() error { return s.imported(0, "bar", []string{"c2"}, "10.9.2.1") })
	s.until("said in the older one", func() error { return s.healthy(1, "bar") })
	s.until("imported by the older one", func() error { return s.onOldCRD("foo", "10.9.1.1") })

	versions := func() string {
		imp, err := s.imp(1, "foo")
		svc := new(corev1.Service)
		if err := errors.Join(err, set[1].Admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: ownership.DerivedName(imp)}, svc)); err != nil {
			t.Fatal(err)
		}
		return imp.ResourceVersion + " " + svc.ResourceVersion
	}
	before := versions()
	s.export(0, service("another"), "10.9.1.2")
	s.until("others go on", func() error { return s.onOldCRD("another", "10.9.1.2") })
	if after := versions(); after != before {
		t.Errorf("they are still written: %s, then %s", before, after)
	}
}

// onOldCRD wants an import in the cluster with the old CRD, which has no condition to look at.
func (s *stage) onOldCRD(name string, addresses ...string) error {
	imp, err := s.imp(1, name)
	if err != nil {
		return err
	}
	if len(imp.Spec.IPs) != 1 || len(imp.Status.Clusters) != 1 || len(imp.Status.Conditions) > 0 {
		return fmt.Errorf("import %s is %+v %+v", name, imp.Spec, imp.Status)
	}
	got, err := s.endpoints(1, name, imp)
	if err == nil && !slices.Equal(got, addresses) {
		err = fmt.Errorf("import %s has endpoints %v", name, got)
	}
	return err
}
