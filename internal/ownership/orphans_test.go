package ownership

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// A derived Service without an owner belongs to the import that its name says. A shortened name says none: the import that has it is another one.
func TestOrphansBelongToTheImportOfTheirName(t *testing.T) {
	labels := map[string]string{mcs.LabelManagedBy: mcs.ControllerName}
	for name, want := range map[string][]string{
		"derived-foo": {"foo"}, "derived-foo-bar": {"foo-bar"}, "foo": nil, DefaultDerivedName("shop", strings.Repeat("long-", 14)): nil,
	} {
		if got := OwnerImports(&metav1.ObjectMeta{Name: name, Labels: labels}); !slices.Equal(got, want) {
			t.Errorf("%s belongs to %q, want %q", name, got, want)
		}
		if got := OwnerImports(&metav1.ObjectMeta{Name: name}); got != nil {
			t.Errorf("%s of somebody else belongs to %q", name, got)
		}
	}
}
