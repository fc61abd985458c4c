package autoexport

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/walls"
)

func TestImports(t *testing.T) { walls.Pure(t) }

// The label of the namespace and the annotation of the Service decide together.
func TestLabelAndAnnotation(t *testing.T) {
	for _, c := range []struct {
		label, own, second string
		want               Decision
	}{
		{"", "", "", Leave}, {"", "true", "true", Leave}, {"yes", "true", "", Leave},
		{"annotated", "", "", Leave}, {"annotated", "true", "", Create}, {"annotated", "false", "", Leave}, {"annotated", "yes", "", Leave},
		{"all", "", "", Create}, {"all", "true", "", Create}, {"all", "false", "", Leave},
		{"annotated", "", "true", Create}, {"annotated", "false", "true", Leave}, {"all", "", "false", Leave}, {"all", "true", "false", Create},
	} {
		in := input(c.label)
		if c.own != "" {
			in.Service.Annotations[Key] = c.own
		}
		if c.second != "" {
			in.Service.Annotations["kosmos.io/auto-create-mcs"], in.Annotation = c.second, "kosmos.io/auto-create-mcs"
		}
		name := fmt.Sprintf("%+v", c)
		if got, reason := Decide(in); got != c.want || reason == "" {
			t.Errorf("%s: %v, %s", name, got, reason)
		}
		// The controller's export follows, and that of a user stays.
		in.Export = &mcsv1beta1.ServiceExport{}
		if got, reason := Decide(in); got != Leave {
			t.Errorf("%s, with an export of a user: %v, %s", name, got, reason)
		}
		in.Export.Labels = map[string]string{mcs.LabelManagedBy: mcs.ControllerName}
		if got, reason := Decide(in); (got == Leave) != (c.want == Create) || got == Create {
			t.Errorf("%s, with an export of the controller: %v, %s", name, got, reason)
		}
	}
}

func input(label string) Input {
	return Input{
		Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{Key: label}}},
		Service:   &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "foo", Annotations: map[string]string{}}},
	}
}

func TestServicesThatAreNeverExported(t *testing.T) {
	now := metav1.Now()
	for what, change := range map[string]func(*Input){
		"no namespace":         func(in *Input) { in.Namespace = nil },
		"a dying namespace":    func(in *Input) { in.Namespace.DeletionTimestamp = &now },
		"no Service":           func(in *Input) { in.Service = nil },
		"a dying Service":      func(in *Input) { in.Service.DeletionTimestamp = &now },
		"ExternalName":         func(in *Input) { in.Service.Spec.Type = corev1.ServiceTypeExternalName },
		"a native name's":      func(in *Input) { in.Service.Labels = map[string]string{mcs.LabelNativeOf: in.Service.Name} },
		"a derived Service":    func(in *Input) { in.Service.Labels = map[string]string{mcs.LabelManagedBy: mcs.ControllerName} },
		"the API server's own": func(in *Input) { in.Service.Namespace, in.Service.Name = "default", "kubernetes" },
		"the cluster's own":    func(in *Input) { in.Service.Namespace = "kube-system" },
		"named by an import":   func(in *Input) { in.Derived = true },
		"owned by an import": func(in *Input) { // of Cilium, or of the mcs-api reference controllers
			in.Service.OwnerReferences = []metav1.OwnerReference{{APIVersion: "multicluster.x-k8s.io/v1alpha1", Kind: "ServiceImport", Name: "foo"}}
		},
	} {
		in := input("all")
		change(&in)
		if got, reason := Decide(in); got != Leave {
			t.Errorf("%s: %v, %s", what, got, reason)
		}
		in.Export = &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{mcs.LabelManagedBy: mcs.ControllerName}}}
		if got, reason := Decide(in); got != Delete {
			t.Errorf("%s, with an export of the controller: %v, %s", what, got, reason)
		}
	}
}
