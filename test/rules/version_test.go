package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
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

// A cluster whose slices describe its exported Services needs to give its peers no right to read Services.
func TestPeersNeedNotReadServices(t *testing.T) {
	s := world.Three(t).Namespace()
	world.Becomes(s.System(), "c1", new(corev1.Namespace), world.SystemNamespace, "announced", func(own *corev1.Namespace) bool {
		return own.Annotations[mcs.AnnotationTerms] == "v1"
	})
	s.Export("c1", world.Service("old"), "10.9.1.1")
	s.Until("imported", func() error { return s.Imported("c2", "old", []string{"c1"}, "10.9.1.1") })
	role := world.Live(s, "c1", new(rbacv1.ClusterRole), "multicluster-peer")
	before := role.DeepCopy()
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return rule.Resources[0] == "services" })
	s.Must(s.Admin("c1").Update(t.Context(), role))
	t.Cleanup(func() {
		before.ResourceVersion = ""
		s.Check(s.Admin("c1").Update(s.Late(), before))
	})
	reads := s.As(s.Cluster("c1").Reader)
	s.Until("the right is gone", func() error {
		if err := reads.List(s.Context(), new(corev1.ServiceList)); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the list of Services is not refused: %w", err)
		}
		return nil
	})
	s.Restart("c2")
	s.Export("c1", world.Service("foo"), "10.9.1.2")
	s.Create("c1", world.Service("empty"), world.Export("empty"))
	s.Until("imported without the right", func() error {
		return errors.Join(s.Imported("c2", "old", []string{"c1"}, "10.9.1.1"), s.Imported("c2", "foo", []string{"c1"}, "10.9.1.2"), s.Imported("c2", "empty", []string{"c1"}))
	})
	world.Edit(s, "c1", new(corev1.Service), "foo", func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 8443 })
	world.Becomes(s, "c2", new(mcsv1beta1.ServiceImport), "foo", "another port", func(imp *mcsv1beta1.ServiceImport) bool {
		return imp.Spec.Ports[0].Port == 8443
	})
}
