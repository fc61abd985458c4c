package reconcile

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Without a selector all namespaces are selected. Namespaces that belong to the cluster itself, the one of the
// controller, and the API server's own Service must be named.
func TestNamespacesOfASelector(t *testing.T) {
	all := []string{"shop/foo", "lab/foo", "default/foo", "default/kubernetes", "kube-system/foo", "kube-flannel/foo", "openshift-dns/foo", "multicluster-system/foo", "kubeflow/foo"}
	for selector, want := range map[string][]string{
		"":           {"shop/foo", "lab/foo", "default/foo", "kubeflow/foo"},
		"team=shop":  {"shop/foo"},
		"team":       {"shop/foo", "lab/foo"},
		"team!=shop": {"lab/foo", "default/foo", "kubeflow/foo"},
		"!nothing":   {"shop/foo", "lab/foo", "default/foo", "kubeflow/foo"},
		"kubernetes.io/metadata.name in (kube-system, shop)":                  {"shop/foo", "kube-system/foo"},
		"kubernetes.io/metadata.name in (openshift-dns, multicluster-system)": {"openshift-dns/foo", "multicluster-system/foo"},
		"kubernetes.io/metadata.name=default":                                 {"default/foo", "default/kubernetes"},
		"kubernetes.io/metadata.name!=shop":                                   {"lab/foo", "default/foo", "kubeflow/foo"},
	} {
		var n Namespaces
		if err := n.UnmarshalText([]byte(selector)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, key := range all {
			namespace, name, _ := strings.Cut(key, "/")
			object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{corev1.LabelMetadataName: namespace}}}
			if namespace == "shop" || namespace == "lab" {
				object.Labels["team"] = namespace
			}
			if n.have(object, name, "multicluster-system") {
				got = append(got, key)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q selects %q, want %q", selector, got, want)
		}
		again := new(Namespaces)
		if text, err := n.MarshalText(); err != nil || again.UnmarshalText(text) != nil || (again.selector == nil) != (n.selector == nil) {
			t.Errorf("%q is written as %q, %v", selector, text, err)
		}
	}
	if err := new(Namespaces).UnmarshalText([]byte("team in shop")); err == nil || !strings.Contains(err.Error(), "want a label selector") {
		t.Errorf("a malformed selector: %v", err)
	}
}

// Of the edits of a Namespace, only those of its labels and its deletion reach the names in it.
func TestEditsOfANamespaceThatMatter(t *testing.T) {
	for what, c := range map[string]struct {
		edit func(*corev1.Namespace)
		want bool
	}{
		"nothing":    {func(*corev1.Namespace) {}, false},
		"annotation": {func(n *corev1.Namespace) { n.Annotations = map[string]string{"example.com/a": "b"} }, false},
		"label":      {func(n *corev1.Namespace) { n.Labels["team"] = "lab" }, true},
		"no label":   {func(n *corev1.Namespace) { n.Labels = nil }, true},
		"deletion":   {func(n *corev1.Namespace) { n.DeletionTimestamp = new(metav1.Now()) }, true},
		"new object": {func(n *corev1.Namespace) { n.UID = "u2" }, true},
	} {
		old := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "u1", Labels: map[string]string{"team": "shop"}}}
		edited := old.DeepCopy()
		c.edit(edited)
		if got := matters(event.UpdateEvent{ObjectOld: old, ObjectNew: edited}); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
