package merge_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Every cluster keeps every export of its peers. A ServiceExport can contain 1 MB, of which an
// import takes over 64 KiB.
func TestAnExportKeepsOnlyWhatAnImportCanTake(t *testing.T) {
	many := map[string]string{}
	for i := range 5000 {
		many[fmt.Sprintf("key-%d", i)] = strings.Repeat("v", 200)
	}
	for name, annotations := range map[string]map[string]string{
		"one annotation of 1 MB":        {"a": strings.Repeat("v", 1<<20)},
		"5000 annotations of 200 bytes": many,
		"5000 reserved keys":            prefixed(many, "kubernetes.io/"),
		"5000 invalid keys":             prefixed(many, "not a key "),
	} {
		export := exportWith(map[string]string{"team": "red"}, annotations)
		text, err := json.Marshal(export)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 2*merge.MaxExported {
			t.Errorf("%s: %d bytes are kept", name, len(text))
		}
		if export.Labels["team"] != "red" || len(export.Notes) == 0 || len(export.Notes) > 11 {
			t.Errorf("%s: labels %v, notes %q", name, export.Labels, export.Notes)
		}
	}
}

// The own cluster's cache keeps no more of an export than peers do, and the plan made from it is
// the same.
func TestTrimmedExportsAreTheSame(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"nothing": nil, "something": {"a": "b"}, "1 MB": {"a": strings.Repeat("v", 1<<20), "b": "c"}, "a reserved key": {"kubernetes.io/x": "y"},
	} {
		export := &mcsv1beta1.ServiceExport{Spec: mcsv1beta1.ServiceExportSpec{ExportedLabels: map[string]string{"team": "red"}, ExportedAnnotations: annotations}}
		export.Annotations = map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("v", 200<<10),
			mcs.AnnotationPreferClusters:                       "local, any", mcs.AnnotationMinReady: strings.Repeat("9", 200<<10),
			mcs.AnnotationToClusters: "member2, " + strings.Repeat("a,", 200<<10),
		}
		export.Finalizers = []string{"example.org/" + strings.Repeat("f", 200<<10)}
		export.OwnerReferences = []metav1.OwnerReference{{Name: strings.Repeat("o", 200<<10)}}
		whole := merge.TrimExport(export)
		merge.KeepTrimmed(export)
		equal(t, name, toJSON(t, merge.TrimExport(export)), toJSON(t, whole))
		merge.KeepTrimmed(export) // A cache can trim the same object again.
		equal(t, name+", trimmed again", toJSON(t, merge.TrimExport(export)), toJSON(t, whole))
		if text := toJSON(t, export); len(text) > 2*merge.MaxExported {
			t.Errorf("%s: %d bytes are kept", name, len(text))
		}
	}
}

func prefixed(all map[string]string, prefix string) map[string]string {
	longer := map[string]string{}
	for key, value := range all {
		longer[prefix+key] = value
	}
	return longer
}

// A difference in what is left out of an export is also a conflict (C7).
func TestExportsThatDifferInWhatIsLeftOutConflict(t *testing.T) {
	long := strings.Repeat("v", merge.MaxExported)
	for _, test := range []struct {
		name  string
		a, b  *mcsv1beta1.ServiceExportSpec
		wants []string
	}{
		{
			"a value that is too long",
			&mcsv1beta1.ServiceExportSpec{ExportedAnnotations: map[string]string{"a": long + "1"}},
			&mcsv1beta1.ServiceExportSpec{ExportedAnnotations: map[string]string{"a": long + "2"}},
			[]string{"AnnotationsConflict"},
		},
		{
			"a reserved key",
			&mcsv1beta1.ServiceExportSpec{ExportedLabels: map[string]string{mcs.LabelManagedBy: "x"}},
			&mcsv1beta1.ServiceExportSpec{},
			[]string{"LabelsConflict"},
		},
		{
			"texts that are the same when joined",
			&mcsv1beta1.ServiceExportSpec{ExportedAnnotations: map[string]string{"a": "bc"}},
			&mcsv1beta1.ServiceExportSpec{ExportedAnnotations: map[string]string{"ab": "c"}},
			[]string{"AnnotationsConflict"},
		},
		{
			"the same long value, and an empty set beside none",
			&mcsv1beta1.ServiceExportSpec{ExportedAnnotations: map[string]string{"a": long}, ExportedLabels: map[string]string{}},
			&mcsv1beta1.ServiceExportSpec{ExportedAnnotations: map[string]string{"a": long}},
			nil,
		},
	} {
		members := []merge.Member{
			{Cluster: "a", Service: terms(), Export: merge.TrimExport(&mcsv1beta1.ServiceExport{Spec: *test.a})},
			{Cluster: "b", Service: terms(), Export: merge.TrimExport(&mcsv1beta1.ServiceExport{Spec: *test.b})},
		}
		if got := merge.Merge(members).Reasons; !slices.Equal(got, test.wants) {
			t.Errorf("%s: the reasons are %v, want %v", test.name, got, test.wants)
		}
		if same := members[0].Export.Same(members[1].Export); same != (test.wants == nil) {
			t.Errorf("%s: they are the same: %v", test.name, same)
		}
	}
}
