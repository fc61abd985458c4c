package reconcile

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Of the import that had a name before, the record is known for a minute, and no longer.
func TestFormers(t *testing.T) {
	key, began := types.NamespacedName{Namespace: "shop", Name: "foo"}, time.Unix(0, 0)
	imp := func(uid types.UID, record string) *mcsv1beta1.ServiceImport {
		all := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{UID: uid}}
		if record != "" {
			all.Annotations = map[string]string{mcs.AnnotationClusterIPs: record}
		}
		return all
	}
	type step struct {
		after time.Duration
		imp   *mcsv1beta1.ServiceImport
		want  string
	}
	for name, steps := range map[string][]step{
		"replaced":                     {{0, imp("1", "10.0.0.1"), ""}, {time.Hour, imp("2", ""), "10.0.0.1"}, {time.Hour + time.Second, imp("2", "10.0.0.1"), ""}},
		"deleted and created again":    {{0, imp("1", "10.0.0.1"), ""}, {1, nil, "10.0.0.1"}, {formerFor, imp("2", ""), "10.0.0.1"}},
		"too late":                     {{0, imp("1", "10.0.0.1"), ""}, {1, nil, "10.0.0.1"}, {formerFor + 1, nil, ""}, {formerFor + 2, imp("2", ""), ""}},
		"a record that a user removes": {{0, imp("1", "10.0.0.1"), ""}, {1, imp("1", ""), ""}, {2, imp("2", ""), ""}},
		"never seen":                   {{0, nil, ""}, {1, imp("1", ""), ""}},
		"a long text":                  {{0, imp("1", "10.0.0.1"), ""}, {1, imp("1", strings.Repeat("1", longestRecord+1)), ""}, {2, nil, ""}},
	} {
		var f formers
		for _, s := range steps {
			got, again := f.of(key, s.imp, began.Add(s.after))
			if got != s.want || (again > 0) != (got != "") {
				t.Errorf("%s, after %v: %q, again in %v; want %q", name, s.after, got, again, s.want)
			}
		}
		if last := steps[len(steps)-1]; last.want == "" && (last.imp == nil || last.imp.Annotations == nil) && len(f.all) > 0 {
			t.Errorf("%s: not forgotten: %v", name, f.all)
		}
	}
}
