// Package deploy tests the kustomize bases in the folders below: what they render, that an API server takes it, and that the plugin
// needs each right that it is given.
package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

var shared kube.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// karmada has kinds that only a Karmada control plane knows.
const karmada = "deploy/karmada"

// bases are the folders with a kustomization, from the project's top, in an order to apply them: the CRDs first, then the controller,
// whose namespace deploy/peer and deploy/cluster-profiles need. Other bases need nothing of each other.
func bases(t *testing.T) []string {
	t.Helper()
	found := []string{"deploy/crd", "deploy/controller"}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if base := "deploy/" + filepath.ToSlash(filepath.Dir(path)); filepath.Base(path) == "kustomization.yaml" && !slices.Contains(found[:2], base) {
			found = append(found, base)
		}
		return err
	})
	if err != nil || len(found) < 8 {
		t.Fatalf("bases %v, %v", found, err)
	}
	return found
}

func kubectl(t *testing.T, c *kube.Cluster, args ...string) string {
	t.Helper()
	out, err := binaries.Kubectl(t.Context(), c, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// render is the objects of a base.
func render(t *testing.T, c *kube.Cluster, base string) []*unstructured.Unstructured {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(kubectl(t, c, "kustomize", base)), 4096)
	var all []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
}

// find fills a typed object from the one of its kind in a base.
func find(t *testing.T, c *kube.Cluster, base, kind string, into any) {
	t.Helper()
	all := render(t, c, base)
	i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
	if i < 0 {
		t.Fatalf("no %s in %s", kind, base)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(all[i].Object, into, true); err != nil {
		t.Fatal(err)
	}
}

// TestBasesAreAccepted applies every base to a real API server, with strict validation, twice: the second time changes nothing.
func TestBasesAreAccepted(t *testing.T) {
	c := shared.Cluster(t)
	for _, base := range bases(t) {
		if base == karmada {
			if len(render(t, c, base)) == 0 {
				t.Errorf("%s is empty", base)
			}
			continue
		}
		if base == "deploy/search" && kube.IsOldest() { // which has no MutatingAdmissionPolicy
			continue
		}
		kubectl(t, c, "apply", "--validate=strict", "-k", base)
		for line := range strings.Lines(kubectl(t, c, "apply", "--validate=strict", "-k", base)) {
			if !strings.HasSuffix(strings.TrimSpace(line), "unchanged") && !strings.Contains(line, "customresourcedefinition") {
				t.Errorf("%s, applied again: %s", base, line)
			}
		}
	}
}

func TestReadmeListsEachBase(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range bases(t) {
		if row := "`kubectl apply -k " + base + "` |\n"; !bytes.Contains(text, []byte(row)) {
			t.Errorf("no row ends with %s", row)
		}
	}
}

// TestReadmesOverlayGivesAClusterID: the example works as it is printed.
func TestReadmesOverlayGivesAClusterID(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "An overlay of `controller` with the flag:\n\n")
	block, _, ended := strings.Cut(block, "\n\n")
	if !found || !ended {
		t.Fatal("the example is gone")
	}
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	this, err := filepath.Rel(dir, here)
	if err != nil {
		t.Fatal(err)
	}
	block = strings.ReplaceAll(strings.ReplaceAll(block+"\n", "<this folder>", this), "\n    ", "\n")
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(strings.TrimPrefix(block, "    ")), 0o600); err != nil {
		t.Fatal(err)
	}
	var plain, given appsv1.Deployment
	find(t, shared.Cluster(t), "deploy/controller", "Deployment", &plain)
	find(t, shared.Cluster(t), dir, "Deployment", &given)
	want := append(plain.Spec.Template.Spec.Containers[0].Args, "--cluster-id=member1")
	if got := given.Spec.Template.Spec.Containers[0].Args; !slices.Equal(got, want) {
		t.Errorf("the arguments %q, want %q", got, want)
	}
}

// TestServerHasTheExamplesCorefile: kustomize reads no file outside of its folder, so there are two copies.
func TestServerHasTheExamplesCorefile(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("..", "corefile-examples", "second-server.Corefile"))
	if err != nil {
		t.Fatal(err)
	}
	var got corev1.ConfigMap
	find(t, shared.Cluster(t), "deploy/plugin/server", "ConfigMap", &got)
	if got.Data["Corefile"] != string(want) {
		t.Error("deploy/plugin/server/Corefile is not that of corefile-examples: cp corefile-examples/second-server.Corefile deploy/plugin/server/Corefile")
	}
}

// TestServiceReachesTheServer: the names that join Service, Deployment, ConfigMap and account fit.
func TestServiceReachesTheServer(t *testing.T) {
	const base = "deploy/plugin/server"
	c := shared.Cluster(t)
	var (
		service    corev1.Service
		deployment appsv1.Deployment
		config     corev1.ConfigMap
		account    corev1.ServiceAccount
	)
	find(t, c, base, "Service", &service)
	find(t, c, base, "Deployment", &deployment)
	find(t, c, base, "ConfigMap", &config)
	find(t, c, base, "ServiceAccount", &account)

	pod := deployment.Spec.Template
	for key, value := range service.Spec.Selector {
		if pod.Labels[key] != value {
			t.Errorf("the Service selects %s=%s, the pods have %q", key, value, pod.Labels[key])
		}
	}
	ports := map[string]corev1.ContainerPort{}
	for _, port := range pod.Spec.Containers[0].Ports {
		ports[port.Name] = port
	}
	protocols := map[corev1.Protocol]bool{}
	for _, port := range service.Spec.Ports {
		protocols[port.Protocol] = true
		target := ports[port.TargetPort.String()]
		if listen := fmt.Sprintf("-dns.port=%d", target.ContainerPort); port.Port != 53 || target.Protocol != port.Protocol || !slices.Contains(pod.Spec.Containers[0].Args, listen) {
			t.Errorf("the Service's port %v leads to %v, and the server does not run with %s", port, target, listen)
		}
	}
	if len(protocols) != 2 {
		t.Errorf("the Service has %v; want UDP and TCP", protocols)
	}
	if volume := pod.Spec.Volumes[0].ConfigMap; volume == nil || volume.Name != config.Name {
		t.Errorf("the Corefile comes from %v, and the ConfigMap is %s", volume, config.Name)
	}
	if pod.Spec.ServiceAccountName != account.Name {
		t.Errorf("the pods are %s, the account is %s", pod.Spec.ServiceAccountName, account.Name)
	}
}

// TestPodsAreAdmittedAsRestricted: the pods of each Deployment keep to the «restricted» Pod Security Standard, where one thing less does not.
func TestPodsAreAdmittedAsRestricted(t *testing.T) {
	c := shared.Cluster(t)
	client := kubernetes.NewForConfigOrDie(c.Config).CoreV1()
	namespace := kube.Namespace(t, c)
	const restrict = `{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`
	kubectl(t, c, "patch", "namespace", namespace, "-p", restrict)
	if _, _, err := c.ServiceAccount(t.Context(), namespace, "default"); err != nil {
		t.Fatal(err)
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for _, base := range []string{"deploy/controller", "deploy/plugin/server", "deploy/client"} {
		var deployment appsv1.Deployment
		find(t, c, base, "Deployment", &deployment)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: deployment.Spec.Template.Spec}
		pod.Spec.ServiceAccountName = "default"
		if _, err := client.Pods(namespace).Create(t.Context(), pod, dryRun); err != nil {
			t.Errorf("%s: %v", base, err)
		}
		security := pod.Spec.Containers[0].SecurityContext
		if security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem {
			t.Errorf("%s: the root file system can be written", base)
		}
		security.AllowPrivilegeEscalation = new(true)
		if _, err := client.Pods(namespace).Create(t.Context(), pod, dryRun); err == nil {
			t.Error("any pod is admitted: this test shows nothing")
		}
	}
}
