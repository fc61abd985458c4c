package rules

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/world"
)

// What a user edits or deletes by mistake of what the controller has made comes back.
func TestOwnObjectsAreRepaired(t *testing.T) {
	s := world.Three(t).Namespace()
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	well := func() error { return s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1") }
	s.Until("imported", well)
	name := s.SliceOf("c2", "foo", "c1").Name
	healed := func(what string) {
		t.Helper()
		world.Becomes(s, "c2", new(discoveryv1.EndpointSlice), name, what, func(slice *discoveryv1.EndpointSlice) bool {
			return slice.Labels[mcsv1beta1.LabelServiceName] == "foo"
		})
		s.Until(what, well)
	}
	s.Must(s.Admin("c2").Delete(t.Context(), s.SliceOf("c2", "foo", "c1")))
	healed("a deleted slice")
	for what, change := range map[string]func(*discoveryv1.EndpointSlice){
		"edited endpoints":         func(e *discoveryv1.EndpointSlice) { e.Endpoints[0].Addresses = []string{"10.6.6.6"} },
		"a label of the cluster":   func(e *discoveryv1.EndpointSlice) { e.Labels[mcsv1beta1.LabelSourceCluster] = "c9" },
		"a label of the name":      func(e *discoveryv1.EndpointSlice) { e.Labels[mcsv1beta1.LabelServiceName] = "bar" },
		"the label of the manager": func(e *discoveryv1.EndpointSlice) { e.Labels[discoveryv1.LabelManagedBy] = "me" },
		"no labels":                func(e *discoveryv1.EndpointSlice) { clear(e.Labels) },
		"no owner":                 func(e *discoveryv1.EndpointSlice) { e.OwnerReferences = nil },
	} {
		world.Edit(s, "c2", new(discoveryv1.EndpointSlice), name, change)
		healed(what)
	}

	world.Edit(s, "c2", new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) {
		imp.Spec.SessionAffinity, imp.Spec.Ports = corev1.ServiceAffinityClientIP, []mcsv1beta1.ServicePort{{Port: 1}}
	})
	world.Becomes(s, "c2", new(mcsv1beta1.ServiceImport), "foo", "an edited import", func(imp *mcsv1beta1.ServiceImport) bool {
		return imp.Spec.Ports[0].Port == 80 && imp.Spec.SessionAffinity != corev1.ServiceAffinityClientIP
	})
	imp := s.MustImport("c2", "foo")
	s.Must(s.Admin("c2").Delete(t.Context(), imp))
	s.Until("a deleted import", func() error {
		now, err := s.Import("c2", "foo")
		if err == nil && now.UID == imp.UID {
			err = errors.New("it is still the same")
		}
		return errors.Join(err, well())
	})

	export := world.Live(s, "c1", new(mcsv1beta1.ServiceExport), "foo")
	meta.RemoveStatusCondition(&export.Status.Conditions, "Ready")
	s.Must(s.Admin("c1").Status().Update(t.Context(), export))
	s.Until("a condition", func() error { return s.Healthy("c1", "foo") })
}
