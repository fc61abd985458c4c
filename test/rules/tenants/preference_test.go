package rbac

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/rules"
)

// usable wants the ready endpoints of a derived Service.
func (s *stage) usable(in *rules.Cluster, name string, want ...string) error {
	var all discoveryv1.EndpointSliceList
	if err := in.Admin.List(s.Context(), &all, client.InNamespace(s.namespace), client.MatchingLabels{labelLeadsTo: "derived-" + name}); err != nil {
		return err
	}
	var got []string
	for _, slice := range all.Items {
		for _, e := range slice.Endpoints {
			if *e.Conditions.Ready {
				got = append(got, e.Addresses...)
			}
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		return fmt.Errorf("%s in %s is served by %v; want %v", name, in.ID, got, want)
	}
	return nil
}

// TestPreferencesOfTenants: the annotations choose among the clusters that export a name, and add no endpoint. A later export does not
// decide. On an import they count in its own cluster, for those who can write imports.
func TestPreferencesOfTenants(t *testing.T) {
	s := newStage(t)
	s.export(s.c1, service("foo"), "10.9.1.1")
	s.export(s.c2, service("foo"), "10.9.2.1")
	both := []string{"10.9.1.1", "10.9.2.1"}
	s.until("both serve", func() error { return s.usable(s.c1, "foo", both...) })

	later := s.tenant(s.c2, "edit", exportsToo)
	edit(s, later, "foo", new(mcsv1beta1.ServiceExport), func(export *mcsv1beta1.ServiceExport) {
		export.Annotations = map[string]string{mcs.AnnotationPreferClusters: "cluster=c2", mcs.AnnotationToClusters: "nobody"}
	})
	s.until("the later export is for its own cluster only", func() error { return s.usable(s.c1, "foo", "10.9.1.1") })
	edit(s, later, "foo", new(mcsv1beta1.ServiceExport), func(export *mcsv1beta1.ServiceExport) {
		delete(export.Annotations, mcs.AnnotationToClusters)
	})
	s.until("it does not decide", func() error { return s.usable(s.c1, "foo", both...) })
	s.settled()
	if err := s.usable(s.c1, "foo", both...); err != nil {
		t.Error(err)
	}

	imp, err := s.imp(s.c1, "foo")
	if err != nil {
		t.Fatal(err)
	}
	prefer := func(tenant clientOf, list string) error {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, mcs.AnnotationPreferClusters, list)
		return tenant.Patch(s.Context(), imp.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	}
	if err := prefer(later, "cluster=c2"); !apierrors.IsForbidden(err) {
		t.Errorf("an import by a tenant without the right: %v; want forbidden", err)
	}
	if err := prefer(s.tenant(s.c1, "view", importsToo), "cluster=c2"); err != nil {
		t.Fatal(err)
	}
	s.until("the import's own cluster follows", func() error { return s.usable(s.c1, "foo", "10.9.2.1") })
	if err := s.usable(s.c2, "foo", both...); err != nil {
		t.Error("the other cluster:", err)
	}
}

// TestProbesOfTenants: whether the endpoints of a name are tested is decided by its oldest export. On an
// import it is decided for its own cluster, by those who can write imports.
func TestProbesOfTenants(t *testing.T) {
	s := newStage(t)
	s.export(s.c1, service("foo"), "10.9.1.1")
	s.export(s.c2, service("foo"), "10.9.2.1")
	both := []string{"10.9.1.1", "10.9.2.1"}
	s.until("both serve", func() error { return s.usable(s.c1, "foo", both...) })

	ask := func(by clientOf) {
		edit(s, by, "foo", new(mcsv1beta1.ServiceExport), func(export *mcsv1beta1.ServiceExport) {
			export.Annotations = map[string]string{mcs.AnnotationProbe: "true"}
		})
	}
	later := s.tenant(s.c2, "edit", exportsToo)
	ask(later)
	s.until("the later export is in conflict", func() error {
		export, err := s.exportNamed("foo", s.c2)
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(export.Status.Conditions, string(mcsv1beta1.ServiceExportConditionConflict)); c == nil || c.Reason != "ProbeConflict" {
			return fmt.Errorf("its conditions are %v", export.Status.Conditions)
		}
		return nil
	})
	s.settled()
	if err := s.tested(s.c1, "foo", ""); err != nil {
		t.Error("the later export decides:", err)
	}
	ask(s.c1.Admin)
	// The controllers of these tests run with --probe-peers=false.
	s.until("the oldest export decides", func() error { return s.tested(s.c2, "foo", "ProbesOff") })

	refuse := func(in *rules.Cluster, by clientOf) error {
		imp, err := s.imp(in, "foo")
		if err != nil {
			return err
		}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"false"}}}`, mcs.AnnotationProbe)
		return by.Patch(s.Context(), imp, client.RawPatch(types.MergePatchType, patch))
	}
	if err := refuse(s.c2, later); !apierrors.IsForbidden(err) {
		t.Errorf("an import by a tenant without the right: %v; want forbidden", err)
	}
	if err := refuse(s.c1, s.tenant(s.c1, "view", importsToo)); err != nil {
		t.Fatal(err)
	}
	s.until("the import's own cluster follows", func() error { return s.tested(s.c1, "foo", "") })
	if err := errors.Join(s.tested(s.c2, "foo", "ProbesOff"), s.usable(s.c1, "foo", both...), s.usable(s.c2, "foo", both...)); err != nil {
		t.Error(err)
	}
}

// tested wants an import to have the condition EndpointsProbed with a reason, or not to have it for "".
func (s *stage) tested(in *rules.Cluster, name, reason string) error {
	imp, err := s.imp(in, name)
	if err != nil {
		return err
	}
	got := ""
	if c := meta.FindStatusCondition(imp.Status.Conditions, "EndpointsProbed"); c != nil {
		got = c.Reason
	}
	if got != reason {
		return fmt.Errorf("EndpointsProbed of %s in %s is %q, want %q", name, in.ID, got, reason)
	}
	return nil
}
