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
)

// exportInTurn lets the exports of two clusters be of different seconds: that is how precise their timestamps are (C11).
func (s *stage) exportInTurn(first, second *corev1.Service, addresses ...string) {
	s.Helper()
	s.export(0, first, addresses[0])
	created := new(mcsv1beta1.ServiceExport)
	if err := s.set[0].Admin.Get(s.Context(), s.key(first.Name), created); err != nil {
		s.Fatal(err)
	}
	s.until("the next second", func() error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "clock-"}}
		s.create(1, probe)
		if !probe.CreationTimestamp.After(created.CreationTimestamp.Time) {
			return errors.New("still the same")
		}
		return nil
	})
	s.export(1, second, addresses[1])
}

// conflict wants the Conflict of an export, with the parts of its message.
func (s *stage) conflict(in int, name, reason string, says ...string) error {
	if err := s.condition(in, name, "Conflict", metav1.ConditionTrue, reason); err != nil {
		return err
	}
	export := new(mcsv1beta1.ServiceExport)
	if err := s.set[in].Admin.Get(s.Context(), s.key(name), export); err != nil {
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
	s := newStage(t, three.start(t))
	s.exportInTurn(
		service("foo", withPorts(corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "metrics", Port: 9090})),
		service("foo", withPorts(corev1.ServicePort{Name: "http", Port: 8080}, corev1.ServicePort{Name: "admin", Port: 9999})),
		"10.9.1.1", "10.9.2.1")
	for i := range s.set {
		s.until("both", func() error { return s.imported(i, "foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.1") })
		s.until("ports", func() error {
			imp, err := s.imp(i, "foo")
			var ports []string
			for _, p := range imp.Spec.Ports {
				ports = append(ports, fmt.Sprintf("%s/%d", p.Name, p.Port))
			}
			if want := []string{"http/80", "metrics/9090", "admin/9999"}; err != nil || !slices.Equal(ports, want) {
				return errors.Join(err, fmt.Errorf("C13: ports are %v; want %v", ports, want))
			}
			by, err := s.set[i].Imported(t.Context(), s.key("foo"))
			if err != nil {
				return err
			}
			for source, want := range map[string][]string{"c1": {"http", "metrics"}, "c2": {"admin"}} {
				var names []string
				for _, p := range by[source][0].Ports {
					names = append(names, *p.Name)
				}
				if slices.Sort(names); !slices.Equal(names, want) {
					return fmt.Errorf("C14: the slice of %s in %s has ports %v; want %v", source, s.set[i].ID, names, want)
				}
			}
			return nil
		})
	}
	for _, i := range []int{0, 1} {
		s.until("C10: said on both", func() error { return s.conflict(i, "foo", "PortConflict", `"c1"`, "clusters disagree") })
	}
	// C12: the oldest goes, and with it the conflict.
	s.delete(0, exportOf("foo"))
	s.until("no conflict", func() error { return s.healthy(1, "foo") })
	s.until("the other's ports", func() error {
		by, err := s.set[2].Imported(t.Context(), s.key("foo"))
		if err != nil || len(by["c2"]) != 1 || len(by["c2"][0].Ports) != 2 {
			return errors.Join(err, fmt.Errorf("C14: what was hidden is still: %v", by))
		}
		return nil
	})
}

// C11, C16, C17: the oldest wins type, affinity and policies; the reasons are joined by commas (C7).
func TestOldestWins(t *testing.T) {
	s := newStage(t, three.start(t))
	s.exportInTurn(
		service("foo", func(spec *corev1.ServiceSpec) {
			spec.SessionAffinity = corev1.ServiceAffinityClientIP
			spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameZone)
		}),
		service("foo", headless),
		"10.9.1.1", "10.9.2.1")
	for i := range s.set {
		s.until("the oldest's", func() error {
			if err := s.imported(i, "foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.1"); err != nil {
				return err
			}
			imp, err := s.imp(i, "foo")
			if err != nil || imp.Spec.Type != mcsv1beta1.ClusterSetIP || imp.Spec.SessionAffinity != corev1.ServiceAffinityClientIP ||
				imp.Spec.TrafficDistribution == nil || *imp.Spec.TrafficDistribution != corev1.ServiceTrafficDistributionPreferSameZone {
				return errors.Join(err, fmt.Errorf("the import is %+v", imp.Spec))
			}
			return nil
		})
	}
	for _, i := range []int{0, 1} {
		s.until("said", func() error {
			return s.conflict(i, "foo", "TypeConflict,SessionAffinityConflict,TrafficDistributionConflict", `Conflicting type. Using "ClusterSetIP"`, "1/2 clusters disagree")
		})
	}
	// C16: the oldest goes, and the live import becomes headless.
	s.delete(0, exportOf("foo"))
	for i := range s.set {
		s.until("headless", func() error {
			imp, err := s.imp(i, "foo")
			if err == nil && imp.Spec.Type != mcsv1beta1.Headless {
				err = fmt.Errorf("it is %s", imp.Spec.Type)
			}
			return errors.Join(err, s.imported(i, "foo", []string{"c2"}, "10.9.2.1"))
		})
	}
}

// C5, C18: labels and annotations are those of the oldest export, and go with it; what others put on the import stays; what steers
// controllers is not taken over.
func TestExportedLabels(t *testing.T) {
	s := newStage(t, three.start(t))
	s.create(0, service("foo"))
	export := exportOf("foo")
	export.Spec.ExportedLabels = map[string]string{"team": "blue", mcs.LabelKarmadaManaged: "true"}
	export.Spec.ExportedAnnotations = map[string]string{"note": "hello", mcs.AnnotationDerivedService: "somebody-elses"}
	export.Labels = map[string]string{"not": "exported"}
	s.create(0, export)
	for i := range s.set {
		s.until("imported", func() error { return s.imported(i, "foo", []string{"c1"}) })
		imp, err := s.imp(i, "foo")
		if err != nil || imp.Labels["team"] != "blue" || imp.Annotations["note"] != "hello" || imp.Labels["not"] != "" || imp.Labels[mcs.LabelKarmadaManaged] != "" ||
			imp.Annotations[mcs.AnnotationDerivedService] != "derived-foo" {
			t.Errorf("in %s: labels %v, annotations %v, %v", s.set[i].ID, imp.Labels, imp.Annotations, err)
		}
	}
	edit(s, 1, new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) { imp.Labels["mine"] = "too" })
	edit(s, 0, new(mcsv1beta1.ServiceExport), "foo", func(e *mcsv1beta1.ServiceExport) { e.Spec.ExportedLabels = map[string]string{"team2": "red"} })
	s.until("changed", func() error {
		imp, err := s.imp(1, "foo")
		if _, still := imp.Labels["team"]; err != nil || still || imp.Labels["team2"] != "red" || imp.Labels["mine"] != "too" {
			return errors.Join(err, fmt.Errorf("labels are %v", imp.Labels))
		}
		return nil
	})
}

// C19, C27: families. c3 has IPv4 only.
func TestFamilies(t *testing.T) {
	set := three.start(t)
	families := func(s *stage, in int, name string, want ...corev1.IPFamily) error {
		imp, err := s.imp(in, name)
		if err != nil || !slices.Equal(imp.Spec.IPFamilies, want) || imp.Spec.Type == mcsv1beta1.ClusterSetIP && len(imp.Spec.IPs) != len(want) {
			return errors.Join(err, fmt.Errorf("in %s: %v of %v, want %v", s.set[in].ID, imp.Spec.IPFamilies, imp.Spec.IPs, want))
		}
		return nil
	}
	t.Run("dual-stack, and an importer with one family", func(t *testing.T) {
		s := newStage(t, set)
		s.export(0, service("foo", dualStack), "10.9.1.1")
		s.until("dual", func() error { return families(s, 1, "foo", corev1.IPv4Protocol, corev1.IPv6Protocol) })
		s.until("single", func() error { return families(s, 2, "foo", corev1.IPv4Protocol) })
		s.until("ready", func() error { return s.imported(2, "foo", []string{"c1"}, "10.9.1.1") })
	})
	t.Run("one that the importer lacks: IPFamilyNotSupported", func(t *testing.T) {
		s := newStage(t, set)
		s.export(0, service("foo", onlyIPv6))
		s.until("where it can be", func() error { return families(s, 1, "foo", corev1.IPv6Protocol) })
		s.until("said", func() error {
			imp, err := s.imp(2, "foo")
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
		s := newStage(t, set)
		s.exportInTurn(service("foo", dualStack), service("foo", onlyIPv6), "10.9.1.1", "10.9.2.1")
		s.export(2, service("bar"))
		s.until("in common", func() error { return s.healthy(1, "foo") })
		s.exportInTurn(service("baz"), service("baz", onlyIPv6), "10.9.1.1", "10.9.2.1")
		for _, i := range []int{0, 1} {
			s.until("conflict", func() error { return s.conflict(i, "baz", "IPFamilyConflict", "IPv4", `"c1"`) })
		}
		s.until("the oldest's", func() error { return families(s, 1, "baz", corev1.IPv4Protocol) })
	})
	t.Run("headless has those of its Service, wherever it is", func(t *testing.T) {
		s := newStage(t, set)
		s.export(0, service("foo", headless, dualStack), "10.9.1.1")
		s.until("families", func() error { return families(s, 2, "foo", corev1.IPv4Protocol, corev1.IPv6Protocol) })
	})
}
