package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world"
)

// K10, A5: a cluster with the CRD that Karmada ships (v1alpha1 only, one IP, and neither families
// nor policies nor conditions in a ServiceImport) is a full member, as importer and as peer. The
// controller does not write forever what its CRD cannot store.
func TestOldCRDs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	old, err := world.StartWith(ctx, "c2", kube.Options{ServiceCIDRs: "10.2.0.0/16,fd00:2::/112"}, kube.OldKarmada, "v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	w := world.Of(t, world.Two(t).Cluster("c1"), old)
	t.Cleanup(func() { w.Check(old.Stop()) })
	for i, c := range w.Clusters {
		peer := w.Clusters[1-i]
		w.Must(errors.Join(c.Join(ctx, peer.ID, peer.ReaderKubeconfig), c.Run(context.WithoutCancel(t.Context()))))
	}
	s := w.Namespace()
	s.Export("c1", world.Service("foo", world.DualStack, func(spec *corev1.ServiceSpec) {
		spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameZone)
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
	}), "10.9.1.1")
	s.Export("c2", world.Service("bar"), "10.9.2.1")
	s.Until("imported by the newer one", func() error { return s.Imported("c1", "bar", []string{"c2"}, "10.9.2.1") })
	s.Until("said in the older one", func() error { return s.Healthy("c2", "bar") })
	s.Until("imported by the older one", func() error { return onOldCRD(s, "foo", "10.9.1.1") })

	before := versionsOf(s, "c2", "foo")
	s.Export("c1", world.Service("another"), "10.9.1.2")
	s.Until("others go on", func() error { return onOldCRD(s, "another", "10.9.1.2") })
	if after := versionsOf(s, "c2", "foo"); after != before {
		t.Errorf("they are still written: %s, then %s", before, after)
	}
}

// onOldCRD wants an import in the cluster with the old CRD, which has no condition to look at.
func onOldCRD(s *world.Namespace, name string, addresses ...string) error {
	imp, err := s.Import("c2", name)
	if err != nil {
		return err
	}
	if len(imp.Spec.IPs) != 1 || len(imp.Status.Clusters) != 1 || len(imp.Status.Conditions) > 0 {
		return fmt.Errorf("import %s is %+v %+v", name, imp.Spec, imp.Status)
	}
	got, err := s.Endpoints("c2", name, imp)
	if err == nil && !slices.Equal(got, addresses) {
		err = fmt.Errorf("import %s has endpoints %v", name, got)
	}
	return err
}
