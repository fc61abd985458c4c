// Package charts tests the Helm chart in the folder multicluster: that it renders what the kustomize bases beside it render, what each
// value changes, that wrong values are refused with a reason, and that an API server takes it all. Helm is the program itself, built
// from its module: `go tool helm`, in this folder.
package charts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

const (
	chart   = "deploy/charts/multicluster" // from the project's top, where the programs run
	release = "multicluster"
	system  = "multicluster-system"
)

// shared is a dual-stack cluster for tests that uninstall their release.
var shared = kube.Shared{Options: kube.Options{ServiceCIDRs: "10.0.0.0/24,fd00:10::/112"}}

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// output runs a program in the project's top folder, without the settings of the user, and returns
// its output.
func output(t *testing.T, path, kubeconfig, input string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	home := t.TempDir()
	cmd.Dir = binaries.Root()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home)
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", path, strings.Join(args, " "), err, &stderr)
	}
	return string(out), err
}

// helm runs Helm, without a cluster where the kubeconfig is "".
func helm(t *testing.T, kubeconfig, input string, args ...string) (string, error) {
	t.Helper()
	path, err := binaries.Helm()
	if err != nil {
		t.Fatal(err)
	}
	return output(t, path, kubeconfig, input, args...)
}

// kustomize renders a base.
func kustomize(t *testing.T, base string) []*unstructured.Unstructured {
	t.Helper()
	programs, err := kube.Build(t.Context(), os.Stderr, "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	text, err := output(t, programs["kubectl"], "", "", "kustomize", base)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, text)
}

// template renders the chart with the values of a YAML text, without what only `helm test` creates.
func template(t *testing.T, values string) (string, error) {
	t.Helper()
	return helm(t, "", values, "template", release, chart, "--skip-tests", "--namespace", system, "--values", "-")
}

func render(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	text, err := template(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, text)
}

func decode(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	var all []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if len(object.Object) > 0 { // Nothing but comments is no object.
			all = append(all, object)
		}
	}
}

// key tells the objects of a rendering apart.
func key(o *unstructured.Unstructured) string { return o.GetKind() + "/" + o.GetName() }

// without removes what Helm's charts add to every object.
func without(t *testing.T, all []*unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	plain := map[string]map[string]any{}
	for _, object := range all {
		labels := object.GetLabels()
		for _, added := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "helm.sh/chart"} {
			if labels[added] == "" {
				t.Errorf("%s has no label %s", key(object), added)
			}
			delete(labels, added)
		}
		object.SetLabels(orNone(labels))
		if _, twice := plain[key(object)]; twice {
			t.Errorf("%s is there twice", key(object))
		}
		plain[key(object)] = object.Object
	}
	return plain
}

// orNone is nil for an empty map, as the field is left out then.
func orNone(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}
