package export_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/cli/export"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
	"github.com/clusterset-dns/multicluster/test/kube"
)

func TestMain(m *testing.M) { world.Main(m) }

const services = `
apiVersion: v1
kind: Service
metadata: {name: foo}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: external}
spec: {type: ExternalName, externalName: example.org}
---
apiVersion: v1
kind: Service
metadata: {name: auto}
spec: {ports: [{port: 80}]}
`

func exportResource(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: version, Resource: "serviceexports"}
}

func apply(t *testing.T, c *world.Cluster, namespace, text string) {
	t.Helper()
	if err := c.Apply(t.Context(), namespace, text); err != nil {
		t.Fatal(err)
	}
}

// exports returns the resource versions of the ServiceExports, to see whether something was written.
func exports(t *testing.T, c *world.Cluster, namespace string) map[string]string {
	t.Helper()
	list, err := c.Dynamic.Resource(exportResource("v1alpha1")).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for i := range list.Items {
		all[list.Items[i].GetName()] = list.Items[i].GetResourceVersion()
	}
	return all
}

func report(t *testing.T, r world.Result) export.Report {
	t.Helper()
	var found export.Report
	if err := json.Unmarshal([]byte(r.Out), &found); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	return found
}

// The commands work with a real controller: they wait for what it writes, and write once.
func TestExportAndUnexport(t *testing.T) {
	w := world.New(t, "member1", "member2")
	const namespace = "export"
	w.Namespace(namespace, "member1", "member2")
	c := w.Clusters["member1"]
	apply(t, c, namespace, services)

	// Without a controller, the export is there and its state is not known.
	got := w.Run("export", "foo", "-n", namespace, "--wait", "1s", "-o", "json")
	if r := report(t, got); got.Status != 1 || r.Action != export.Created || len(r.Problems) != 1 || r.Problems[0].ID != "NoController" {
		t.Fatalf("without a controller: %+v", got)
	}
	w.StartController("member1")
	if got := w.Run("export", "svc/foo", "-n", namespace, "--wait", "5m"); got.Status != 0 || !strings.Contains(got.Out, "is exported already. Nothing was written.") || !strings.Contains(got.Out, "Ready") {
		t.Errorf("a second time: %+v", got)
	}
	before := exports(t, c, namespace)
	if w.Run("export", "service/foo", "-n", namespace, "--context", "member1"); before["foo"] != exports(t, c, namespace)["foo"] || before["foo"] == "" {
		t.Errorf("a second export wrote: %v, then %v", before, exports(t, c, namespace))
	}

	// An import elsewhere, as the controller of member2 writes it.
	apply(t, w.Clusters["member2"], namespace, `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: foo}
spec: {type: ClusterSetIP, ports: [{port: 80}]}
`)
	w.Kubectl("member2", "patch", "serviceimport", "foo", "-n", namespace, "--subresource=status", "--type=merge", "-p", `{"status": {"clusters": [{"cluster": "member1"}]}}`)
	w.Config.Contexts["gone"] = w.Config.Contexts["member2"].DeepCopy()
	w.Config.Contexts["gone"].Cluster = "gone"
	w.Config.Clusters["gone"] = w.Config.Clusters["member2"].DeepCopy()
	w.Config.Clusters["gone"].Server = "https://127.0.0.1:1"
	w.WriteConfig()
	got = w.Run("unexport", "foo", "-n", namespace, "-o", "yaml", "--request-timeout", "5m") // a busy machine is not a silent cluster
	if got.Status != 0 || !strings.Contains(got.Out, "action: deleted") || !strings.Contains(got.Out, "importedBy:\n- member2\n") || !strings.Contains(got.Out, "unread:\n- gone\n") {
		t.Errorf("unexport: %+v", got)
	}
	if left := exports(t, c, namespace); len(left) > 0 {
		t.Errorf("ServiceExports that are left: %v", left)
	}
}

func TestWrongNames(t *testing.T) {
	w := world.New(t, "member1")
	const namespace = "wrong-names"
	w.Namespace(namespace, "member1")
	c := w.Clusters["member1"]
	apply(t, c, namespace, services)
	for name, test := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"a similar name":          {[]string{"export", "fooo"}, 1, "did you mean foo?"},
		"no similar name":         {[]string{"export", "something-else"}, 1, "3 other Services"},
		"an ExternalName":         {[]string{"export", "external"}, 1, "its type is ExternalName"},
		"another kind":            {[]string{"export", "pod/foo"}, 2, "svc/foo"},
		"no name":                 {[]string{"export", "svc/"}, 2, "no name of a Service"},
		"two names":               {[]string{"export", "foo", "bar"}, 2, "accepts 1 arg"},
		"an unknown context":      {[]string{"export", "foo", "--context", "other"}, 2, "unknown context"},
		"what is not exported":    {[]string{"unexport", "foo"}, 1, "no ServiceExport foo"},
		"control characters":      {[]string{"export", "a\x1b[31m"}, 2, "no name of a Service"},
		"contexts that are wrong": {[]string{"unexport", "foo", "--contexts", "other"}, 2, "unknown context"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.Run(append(test.args, "-n", namespace)...)
			if got.Status != test.status || !strings.Contains(got.Err, test.want) || strings.Contains(got.Err, "\x1b") {
				t.Errorf("%+v, want the status %d and %q", got, test.status, test.want)
			}
		})
	}
	if left := exports(t, c, namespace); len(left) > 0 {
		t.Errorf("wrong names have exported %v", left)
	}
}

// An export of auto-export stays. The output has the command that ends it.
func TestAutoExported(t *testing.T) {
	w := world.New(t, "member1")
	const namespace = "auto"
	w.Namespace(namespace, "member1")
	c := w.Clusters["member1"]
	apply(t, c, namespace, services)
	for _, mode := range []string{"all", "annotated", "none"} {
		apply(t, c, namespace, "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: auto, labels: {app.kubernetes.io/managed-by: multicluster-controller}}")
		w.Kubectl("member1", "label", "namespace", namespace, "--overwrite", "clusterset-dns.io/export="+mode)
		w.Kubectl("member1", "annotate", "service", "auto", "-n", namespace, "--overwrite", "clusterset-dns.io/export=true")
		before := exports(t, c, namespace)
		got := w.Run("unexport", "auto", "-n", namespace, "-o", "json")
		r := report(t, got)
		if got.Status != 1 || r.Action != export.Unchanged || len(r.Problems) != 1 || r.Problems[0].ID != "AutoExported" || exports(t, c, namespace)["auto"] != before["auto"] {
			t.Fatalf("%s: %+v", mode, got)
		}
		w.Kubectl("member1", strings.Fields(r.Problems[0].Fix[0])[1:]...)
		service, err := c.Kube.CoreV1().Services(namespace).Get(t.Context(), "auto", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		annotation, there := service.Annotations["clusterset-dns.io/export"]
		_, err = c.Dynamic.Resource(exportResource("v1beta1")).Namespace(namespace).Get(t.Context(), "auto", metav1.GetOptions{})
		switch ended := apierrors.IsNotFound(err); {
		case mode == "all" && annotation != "false", mode == "annotated" && there, mode == "none" && !ended:
			t.Errorf("%s: after the fix the annotation is %q, and the export is gone: %v", mode, annotation, ended)
		}
	}
}

// A cluster with the older version only has its exports in that version. A conflict is a problem.
func TestOldVersionAndConflict(t *testing.T) {
	w := world.New(t, "member1")
	const namespace = "old"
	w.Namespace(namespace, "member1")
	c := w.Clusters["member1"]
	if err := c.InstallCRDs(t.Context(), kube.OnlyV1Alpha1); err != nil {
		t.Fatal(err)
	}
	apply(t, c, namespace, services)
	if got := w.Run("export", "foo", "-n", namespace, "--wait", "0"); got.Status != 0 || exports(t, c, namespace)["foo"] == "" {
		t.Fatalf("%+v", got)
	}
	const message = "port http: member1 has 80\x1b[31m"
	conditions := `{"status": {"conditions": [` + strings.Join([]string{
		set("Valid", "True", "Valid", "fine"), set("Ready", "True", "Ready", "fine"), set("Conflict", "True", "PortConflict", message),
	}, ",") + `]}}`
	if _, err := c.Dynamic.Resource(exportResource("v1alpha1")).Namespace(namespace).Patch(t.Context(), "foo", types.MergePatchType, []byte(conditions), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	got := w.Run("export", "foo", "-n", namespace)
	if got.Status != 1 || !strings.Contains(got.Out, "Conflict") || !strings.Contains(got.Out, "port http: member1 has 80") || strings.Contains(got.Out, "\x1b") {
		t.Errorf("%+v", got)
	}
}

func set(kind, status, reason, message string) string {
	text, _ := json.Marshal(message)
	return fmt.Sprintf(`{"type": %q, "status": %q, "reason": %q, "message": %s, "lastTransitionTime": "2026-01-01T00:00:00Z"}`, kind, status, reason, text)
}

func TestParseName(t *testing.T) {
	for _, argument := range []string{"foo", "svc/foo", "service/foo", "Services/foo"} {
		if name, err := export.ParseName(argument); name != "foo" || err != nil {
			t.Errorf("%s: %s, %v", argument, name, err)
		}
	}
	wrong := []string{"", "svc/", "deploy/foo", "a/b/c", "Foo", strings.Repeat("a", 64)}
	if i := slices.IndexFunc(wrong, func(argument string) bool { _, err := export.ParseName(argument); return err == nil }); i >= 0 {
		t.Errorf("%q: no error", wrong[i])
	}
}
