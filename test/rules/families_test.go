package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/world"
)

// C10, C19, C27: the families that all exporters have. c3 has one family, and the others two.
func TestFamilies(t *testing.T) {
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	families := func(s *world.Namespace, id, name string, want ...corev1.IPFamily) {
		s.Until(fmt.Sprintf("%s in %s has the families %v", name, id, want), func() error {
			imp, err := s.Import(id, name)
			if err != nil || !slices.Equal(imp.Spec.IPFamilies, want) || imp.Spec.Type == mcsv1beta1.ClusterSetIP && len(imp.Spec.IPs) != len(want) {
				return errors.Join(err, fmt.Errorf("%v of %v", imp.Spec.IPFamilies, imp.Spec.IPs))
			}
			return nil
		})
	}
	t.Run("dual-stack, and an importer with one family", func(t *testing.T) {
		s := world.Three(t).Namespace()
		s.Export("c1", world.Service("foo", world.DualStack), "10.9.1.1")
		families(s, "c2", "foo", v4, v6)
		families(s, "c3", "foo", v4)
		s.Until("ready", func() error { return s.Imported("c3", "foo", []string{"c1"}, "10.9.1.1") })
	})
	t.Run("one that the importer lacks: IPFamilyNotSupported", func(t *testing.T) {
		s := world.Three(t).Namespace()
		s.Export("c1", world.Service("foo", world.OnlyIPv6))
		families(s, "c2", "foo", v6)
		s.Says("c3", "foo", "Ready", "IPFamilyNotSupported", "")
	})
	t.Run("those that all have; none in common: IPFamilyConflict", func(t *testing.T) {
		s := world.Three(t).Namespace()
		exportInTurn(s, world.Service("foo", world.DualStack), world.Service("foo", world.OnlyIPv6))
		s.Until("in common", func() error { return s.Healthy("c2", "foo") })
		exportInTurn(s, world.Service("baz"), world.Service("baz", world.OnlyIPv6))
		for _, id := range []string{"c1", "c2"} {
			s.Until("conflict", func() error { return conflict(s, id, "baz", "IPFamilyConflict", "IPv4", `"c1"`) })
		}
		families(s, "c2", "baz", v4) // the oldest's
	})
	t.Run("headless has those of its Service, wherever it is", func(t *testing.T) {
		s := world.Three(t).Namespace()
		s.Export("c1", world.Service("foo", world.Headless, world.DualStack), "10.9.1.1")
		families(s, "c3", "foo", v4, v6)
	})
}

// exportInTurn lets the exports of c1 and c2 be of different seconds: that is how precise their timestamps are (C11). c2 knows the first one by
// then: the first address family of a Service that c2 has made cannot change.
func exportInTurn(s *world.Namespace, first, second *corev1.Service) {
	s.Helper()
	s.Export("c1", first, "10.9.1.1")
	s.Until("c2 knows it", func() error {
		_, err := s.Import("c2", first.Name)
		return err
	})
	created := world.Live(s, "c1", new(mcsv1beta1.ServiceExport), first.Name)
	s.Until("the next second", func() error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "clock-"}}
		s.Create("c2", probe)
		if !probe.CreationTimestamp.After(created.CreationTimestamp.Time) {
			return errors.New("still the same")
		}
		return nil
	})
	s.Export("c2", second, "10.9.2.1")
}

// conflict wants the Conflict of an export, with the parts of its message.
func conflict(s *world.Namespace, id, name, reason string, says ...string) error {
	if err := s.Condition(id, name, "Conflict", metav1.ConditionTrue, reason); err != nil {
		return err
	}
	export := new(mcsv1beta1.ServiceExport)
	if err := s.Admin(id).Get(s.Context(), s.Key(name), export); err != nil {
		return err
	}
	message := meta.FindStatusCondition(export.Status.Conditions, "Conflict").Message
	for _, part := range says {
		if !strings.Contains(message, part) {
			return fmt.Errorf("the message is %q; want %q in it", message, part)
		}
	}
	return nil
}
