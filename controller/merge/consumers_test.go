package merge_test

import (
	"slices"
	"strings"
	"testing"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Without the annotation all clusters import the name. A mistake in it never adds a cluster.
func TestConsumers(t *testing.T) {
	long := strings.Repeat("x, ", 1365) + "member12"
	for text, want := range map[string][]string{
		"-": {"member1", "member2", "member12"}, "": nil, "member2": {"member2"}, " member1 ,member12": {"member1", "member12"},
		"Member2, member1": {"member1"}, "*": nil, "member2 member1": nil, long: nil, "member1," + long: {"member1"},
	} {
		export := new(mcsv1beta1.ServiceExport)
		if text != "-" {
			export.Annotations = map[string]string{mcs.AnnotationToClusters: text}
		}
		consumers := merge.TrimExport(export).Consumers
		var got []string
		for _, cluster := range []string{"member1", "member2", "member12"} {
			if consumers.Have(cluster) {
				got = append(got, cluster)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%.20q: %v, want %v", text, got, want)
		}
		if faulty := slices.Contains([]string{"", "Member2, member1", "*", "member2 member1"}, text); faulty != (len(consumers.Faults()) == 1) {
			t.Errorf("%.20q: the faults are %q", text, consumers.Faults())
		}
	}
}
