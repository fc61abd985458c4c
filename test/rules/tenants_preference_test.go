package rules

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/world"
)

// TestPreferencesOfTenants: the annotations choose among the clusters that export a name, and add no endpoint. A later export does not
// decide. On an import they count in its own cluster, for those who can write imports.
func TestPreferencesOfTenants(t *testing.T) {
	s := newTenants(t)
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Export("c2", world.Service("foo"), "10.9.2.1")
	const both = "10.9.1.1 10.9.2.1"
	serves(s.Namespace, "c1", "foo", both) // both serve

	later := s.tenant("c2", "edit", exportsToo)
	world.EditAs(s.Namespace, later, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) {
		export.Annotations = map[string]string{mcs.AnnotationPreferClusters: "cluster=c2", mcs.AnnotationToClusters: "nobody"}
	})
	serves(s.Namespace, "c1", "foo", "10.9.1.1") // the later export is for its own cluster only
	world.EditAs(s.Namespace, later, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) {
		delete(export.Annotations, mcs.AnnotationToClusters)
	})
	serves(s.Namespace, "c1", "foo", both) // it does not decide
	s.settled()
	s.Check(served(s.Namespace, "c1", "derived-foo", both))

	imp := s.MustImport("c1", "foo")
	prefer := func(tenant client.Client, list string) error {
		return s.patch(tenant, imp.DeepCopy(), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, mcs.AnnotationPreferClusters, list))
	}
	if err := prefer(later, "cluster=c2"); !apierrors.IsForbidden(err) {
		t.Errorf("an import by a tenant without the right: %v; want forbidden", err)
	}
	s.Must(prefer(s.tenant("c1", "view", importsToo), "cluster=c2"))
	serves(s.Namespace, "c1", "foo", "10.9.2.1") // the import's own cluster follows
	if err := served(s.Namespace, "c2", "derived-foo", both); err != nil {
		t.Error("the other cluster:", err)
	}
}

// TestProbesOfTenants: whether the endpoints of a name are tested is decided by its oldest export. On an
// import it is decided for its own cluster, by those who can write imports.
func TestProbesOfTenants(t *testing.T) {
	s := newTenants(t)
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Export("c2", world.Service("foo"), "10.9.2.1")
	const both = "10.9.1.1 10.9.2.1"
	serves(s.Namespace, "c1", "foo", both) // both serve

	ask := func(by client.Client) {
		world.EditAs(s.Namespace, by, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) {
			export.Annotations = map[string]string{mcs.AnnotationProbe: "true"}
		})
	}
	later := s.tenant("c2", "edit", exportsToo)
	ask(later)
	s.Until("the later export is in conflict", func() error { return s.Condition("c2", "foo", "Conflict", metav1.ConditionTrue, "ProbeConflict") })
	s.settled()
	s.Check(s.Said("c1", "foo", "EndpointsProbed", "", "")) // the later export does not decide
	ask(s.Admin("c1"))
	// The controllers of these tests run with --probe-peers=false.
	s.Says("c2", "foo", "EndpointsProbed", "ProbesOff", "")

	refuse := func(in string, by client.Client) error {
		return s.patch(by, s.MustImport(in, "foo"), fmt.Sprintf(`{"metadata":{"annotations":{%q:"false"}}}`, mcs.AnnotationProbe))
	}
	if err := refuse("c2", later); !apierrors.IsForbidden(err) {
		t.Errorf("an import by a tenant without the right: %v; want forbidden", err)
	}
	s.Must(refuse("c1", s.tenant("c1", "view", importsToo)))
	s.Says("c1", "foo", "EndpointsProbed", "", "") // the import's own cluster follows
	s.Check(errors.Join(s.Said("c2", "foo", "EndpointsProbed", "ProbesOff", ""), served(s.Namespace, "c1", "derived-foo", both), served(s.Namespace, "c2", "derived-foo", both)))
}
