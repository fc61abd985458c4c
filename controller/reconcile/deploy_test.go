package reconcile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// The shipped namespace, with the «restricted» Pod Security Standard, admits the pod of the shipped
// Deployment.
func TestPodIsAdmittedAsRestricted(t *testing.T) {
	p := newPlace(t, shared.Cluster(t))
	deployment := new(appsv1.Deployment)
	if err := p.Get(p.ctx, client.ObjectKey{Namespace: "multicluster-system", Name: "multicluster-controller"}, deployment); err != nil {
		t.Fatal(err)
	}
	template := deployment.Spec.Template
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: "pod", Labels: template.Labels}, Spec: template.Spec}
	if err := p.Create(p.ctx, pod.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("not admitted: %v", err)
	}
	pod.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = new(true)
	if err := p.Create(p.ctx, pod, client.DryRunAll); err == nil {
		t.Error("any pod is admitted: this test shows nothing")
	}
	if security := template.Spec.Containers[0].SecurityContext; !*security.ReadOnlyRootFilesystem {
		t.Error("the root file system can be written")
	}
}

func TestKustomizationsListEachFile(t *testing.T) {
	for _, folder := range []string{"controller", "karmada"} {
		folder = filepath.Join("..", "..", "deploy", folder)
		text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var kustomization struct{ Resources []string }
		if err := yaml.Unmarshal(text, &kustomization); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, file := range files {
			if name := filepath.Base(file); name != "kustomization.yaml" {
				names = append(names, name)
			}
		}
		slices.Sort(kustomization.Resources)
		if !slices.Equal(names, kustomization.Resources) {
			t.Errorf("%s has %s and lists %s", folder, strings.Join(names, " "), strings.Join(kustomization.Resources, " "))
		}
	}
}
