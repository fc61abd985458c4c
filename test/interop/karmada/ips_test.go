package karmada

import (
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// history is each value that spec.ips of an import had, as a watch saw it: a value that was there for a moment only is in it too.
type history struct {
	mu     sync.Mutex
	values []string
}

// watchIPs records the ips of one import until the test ends. Deletions are not recorded.
func watchIPs(t *testing.T, config *rest.Config, name string) *history {
	t.Helper()
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	h := &history{}
	imports := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "serviceimports"}
	informer := dynamicinformer.NewFilteredDynamicInformer(objects, imports, metav1.NamespaceDefault, 0*time.Second, cache.Indexers{},
		func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + name }).Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    h.add,
		UpdateFunc: func(_, after any) { h.add(after) },
	})
	if err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the watch of ServiceImports has not begun")
	}
	return h
}

func (h *history) add(object any) {
	imp := object.(*unstructured.Unstructured)
	ips, _, _ := unstructured.NestedStringSlice(imp.Object, "spec", "ips")
	value := ""
	if len(ips) > 0 {
		value = ips[0]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.values) == 0 || h.values[len(h.values)-1] != value {
		h.values = append(h.values, value)
	}
}

// take returns the values since the last call, the one at that time first.
func (h *history) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	values := slices.Clone(h.values)
	h.values = values[max(0, len(values)-1):]
	return values
}

// wantUnchanged fails if the ips had another value since the last call of take.
func (h *history) wantUnchanged(t *testing.T, ip string) {
	t.Helper()
	if got := h.take(); !slices.Equal(got, []string{ip}) {
		t.Errorf("the import had the ips %q, one after the other; want %q all the time", got, ip)
	}
}
