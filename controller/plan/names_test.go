package plan

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

func TestDerivedName(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, test := range []struct {
		name, imp, annotation, want string
	}{
		{name: "Karmada's name by default (K1)", imp: "foo", want: "derived-foo"},
		{name: "the annotation's name where there is one (R2, karmada#4515)", imp: "foo", annotation: "derived-0p6lqce99d", want: "derived-0p6lqce99d"},
		{name: "55 characters fit", imp: long[:55], want: "derived-" + long[:55]},
		{name: "a longer name is shortened with a hash", imp: long, want: "derived-" + long[:44] + "-dedf7a0a3d"},
		{name: "a dotted name, which no Service can have, too", imp: "my.svc", want: "derived-my-svc-9af01dedb7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: test.imp}}
			if test.annotation != "" {
				imp.Annotations = map[string]string{mcs.AnnotationDerivedService: test.annotation}
			}
			got := ownership.DerivedName(imp)
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if faults := validation.IsDNS1035Label(got); len(faults) > 0 {
				t.Errorf("%s is no Service name: %s", got, faults)
			}
		})
	}
}

// Other projects hash without a separator: foo1 of cluster 2 and foo of cluster 12 then get the
// same name.
func TestDerivedNamesOfTwoImportsDiffer(t *testing.T) {
	long := strings.Repeat("a", 60)
	a := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: long + "1"}}
	b := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: long + "2"}}
	if ownership.DerivedName(a) == ownership.DerivedName(b) {
		t.Errorf("both are %s", ownership.DerivedName(a))
	}
}
