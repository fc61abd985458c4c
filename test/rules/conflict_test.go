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

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/world"
)

// exportInTurn lets the exports of two clusters be of different seconds: that is how precise their timestamps are (C11).
func exportInTurn(s *world.Namespace, first, second *corev1.Service, addresses ...string) {
	s.Helper()
	s.Export("c1", first, addresses[0])
	created := new(mcsv1beta1.ServiceExport)
	s.Must(s.Admin("c1").Get(s.Context(), s.Key(first.Name), created))
	s.Until("the next second", func() error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "clock-"}}
		s.Create("c2", probe)
		if !probe.CreationTimestamp.After(created.CreationTimestamp.Time) {
			return errors.New("still the same")
		}
		return nil
	})
	s.Export("c2", second, addresses[1])
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

// C9 to C14: the union of the ports. Each export has the condition, and a port has endpoints only
// in the clusters that have the port.
func TestPortConflict(t *testing.T) {
	s := world.Three(t).Namespace()
	exportInTurn(s,
		world.Service("foo", world.Ports(corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "metrics", Port: 9090})),
		world.Service("foo", world.Ports(corev1.ServicePort{Name: "http", Port: 8080}, corev1.ServicePort{Name: "admin", Port: 9999})),
		"10.9.1.1", "10.9.2.1")
	for _, id := range s.IDs() {
		s.Until("both", func() error { return s.Imported(id, "foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.1") })
		s.Until("ports", func() error {
			imp, err := s.Import(id, "foo")
			var ports []string
			for _, p := range imp.Spec.Ports {
				ports = append(ports, fmt.Sprintf("%s/%d", p.Name, p.Port))
			}
			if want := []string{"http/80", "metrics/9090", "admin/9999"}; err != nil || !slices.Equal(ports, want) {
				return errors.Join(err, fmt.Errorf("C13: ports are %v; want %v", ports, want))
			}
			by, err := s.Cluster(id).Imported(t.Context(), s.Key("foo"))
			if err != nil {
				return err
			}
			for source, want := range map[string][]string{"c1": {"http", "metrics"}, "c2": {"admin"}} {
				var names []string
				for _, p := range by[source][0].Ports {
					names = append(names, *p.Name)
				}
				if slices.Sort(names); !slices.Equal(names, want) {
					return fmt.Errorf("C14: the slice of %s in %s has ports %v; want %v", source, id, names, want)
				}
			}
			return nil
		})
	}
	for _, id := range []string{"c1", "c2"} {
		s.Until("C10: said on both", func() error { return conflict(s, id, "foo", "PortConflict", `"c1"`, "clusters disagree") })
	}
	// C12: the oldest goes, and with it the conflict.
	s.Delete("c1", world.Export("foo"))
	s.Until("no conflict", func() error { return s.Healthy("c2", "foo") })
	s.Until("the other's ports", func() error {
		by, err := s.Cluster("c3").Imported(t.Context(), s.Key("foo"))
		if err != nil || len(by["c2"]) != 1 || len(by["c2"][0].Ports) != 2 {
			return errors.Join(err, fmt.Errorf("C14: what was hidden is still: %v", by))
		}
		return nil
	})
}

// C11, C16, C17: the oldest wins type, affinity and policies; the reasons are joined by commas (C7).
func TestOldestWins(t *testing.T) {
	s := world.Three(t).Namespace()
	exportInTurn(s,
		world.Service("foo", func(spec *corev1.ServiceSpec) {
			spec.SessionAffinity = corev1.ServiceAffinityClientIP
			spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameZone)
		}),
		world.Service("foo", world.Headless),
		"10.9.1.1", "10.9.2.1")
	for _, id := range s.IDs() {
		s.Until("the oldest's", func() error {
			if err := s.Imported(id, "foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.1"); err != nil {
				return err
			}
			imp, err := s.Import(id, "foo")
			if err != nil || imp.Spec.Type != mcsv1beta1.ClusterSetIP || imp.Spec.SessionAffinity != corev1.ServiceAffinityClientIP ||
				imp.Spec.TrafficDistribution == nil || *imp.Spec.TrafficDistribution != corev1.ServiceTrafficDistributionPreferSameZone {
				return errors.Join(err, fmt.Errorf("the import is %+v", imp.Spec))
			}
			return nil
		})
	}
	for _, id := range []string{"c1", "c2"} {
		s.Until("said", func() error {
			return conflict(s, id, "foo", "TypeConflict,SessionAffinityConflict,TrafficDistributionConflict", `Conflicting type. Using "ClusterSetIP"`, "1/2 clusters disagree")
		})
	}
	// C16: the oldest goes, and the live import becomes headless.
	s.Delete("c1", world.Export("foo"))
	for _, id := range s.IDs() {
		s.Until("headless", func() error {
			imp, err := s.Import(id, "foo")
			if err == nil && imp.Spec.Type != mcsv1beta1.Headless {
				err = fmt.Errorf("it is %s", imp.Spec.Type)
			}
			return errors.Join(err, s.Imported(id, "foo", []string{"c2"}, "10.9.2.1"))
		})
	}
}

// C5, C18: labels and annotations are those of the oldest export, and go with it; what others put on the import stays; what steers
// controllers is not taken over.
func TestExportedLabels(t *testing.T) {
	s := world.Three(t).Namespace()
	s.Create("c1", world.Service("foo"))
	export := world.Export("foo")
	export.Spec.ExportedLabels = map[string]string{"team": "blue", mcs.LabelKarmadaManaged: "true"}
	export.Spec.ExportedAnnotations = map[string]string{"note": "hello", mcs.AnnotationDerivedService: "somebody-elses"}
	export.Labels = map[string]string{"not": "exported"}
	s.Create("c1", export)
	for _, id := range s.IDs() {
		s.Until("imported", func() error { return s.Imported(id, "foo", []string{"c1"}) })
		imp, err := s.Import(id, "foo")
		if err != nil || imp.Labels["team"] != "blue" || imp.Annotations["note"] != "hello" || imp.Labels["not"] != "" || imp.Labels[mcs.LabelKarmadaManaged] != "" ||
			imp.Annotations[mcs.AnnotationDerivedService] != "derived-foo" {
			t.Errorf("in %s: labels %v, annotations %v, %v", id, imp.Labels, imp.Annotations, err)
		}
	}
	world.Edit(s, "c2", new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) { imp.Labels["mine"] = "too" })
	world.Edit(s, "c1", new(mcsv1beta1.ServiceExport), "foo", func(e *mcsv1beta1.ServiceExport) { e.Spec.ExportedLabels = map[string]string{"team2": "red"} })
	s.Until("changed", func() error {
		imp, err := s.Import("c2", "foo")
		if _, still := imp.Labels["team"]; err != nil || still || imp.Labels["team2"] != "red" || imp.Labels["mine"] != "too" {
			return errors.Join(err, fmt.Errorf("labels are %v", imp.Labels))
		}
		return nil
	})
}

// C19, C27: families. c3 has IPv4 only.
func TestFamilies(t *testing.T) {
	families := func(s *world.Namespace, id, name string, want ...corev1.IPFamily) error {
		imp, err := s.Import(id, name)
		if err != nil || !slices.Equal(imp.Spec.IPFamilies, want) || imp.Spec.Type == mcsv1beta1.ClusterSetIP && len(imp.Spec.IPs) != len(want) {
			return errors.Join(err, fmt.Errorf("in %s: %v of %v, want %v", id, imp.Spec.IPFamilies, imp.Spec.IPs, want))
		}
		return nil
	}
	t.Run("dual-stack, and an importer with one family", func(t *testing.T) {
		s := world.Three(t).Namespace()
		s.Export("c1", world.Service("foo", world.DualStack), "10.9.1.1")
		s.Until("dual", func() error { return families(s, "c2", "foo", corev1.IPv4Protocol, corev1.IPv6Protocol) })
		s.Until("single", func() error { return families(s, "c3", "foo", corev1.IPv4Protocol) })
		s.Until("ready", func() error { return s.Imported("c3", "foo", []string{"c1"}, "10.9.1.1") })
	})
	t.Run("one that the importer lacks: IPFamilyNotSupported", func(t *testing.T) {
		s := world.Three(t).Namespace()
		s.Export("c1", world.Service("foo", world.OnlyIPv6))
		s.Until("where it can be", func() error { return families(s, "c2", "foo", corev1.IPv6Protocol) })
		s.Until("said", func() error {
			imp, err := s.Import("c3", "foo")
			if err != nil {
				return err
			}
			if c := meta.FindStatusCondition(imp.Status.Conditions, "Ready"); c == nil || c.Reason != "IPFamilyNotSupported" || c.Status != metav1.ConditionFalse {
				return fmt.Errorf("Ready is %+v", c)
			}
			return nil
		})
	})
	t.Run("those that all have; none in common: IPFamilyConflict", func(t *testing.T) {
		s := world.Three(t).Namespace()
		exportInTurn(s, world.Service("foo", world.DualStack), world.Service("foo", world.OnlyIPv6), "10.9.1.1", "10.9.2.1")
		s.Export("c3", world.Service("bar"))
		s.Until("in common", func() error { return s.Healthy("c2", "foo") })
		exportInTurn(s, world.Service("baz"), world.Service("baz", world.OnlyIPv6), "10.9.1.1", "10.9.2.1")
		for _, id := range []string{"c1", "c2"} {
			s.Until("conflict", func() error { return conflict(s, id, "baz", "IPFamilyConflict", "IPv4", `"c1"`) })
		}
		s.Until("the oldest's", func() error { return families(s, "c2", "baz", corev1.IPv4Protocol) })
	})
	t.Run("headless has those of its Service, wherever it is", func(t *testing.T) {
		s := world.Three(t).Namespace()
		s.Export("c1", world.Service("foo", world.Headless, world.DualStack), "10.9.1.1")
		s.Until("families", func() error { return families(s, "c3", "foo", corev1.IPv4Protocol, corev1.IPv6Protocol) })
	})
}
