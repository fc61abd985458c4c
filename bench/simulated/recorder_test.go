package simulated

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/interop/beside"
)

// written are the kinds that the controller writes in namespaces of users.
var written = []schema.GroupVersionResource{
	{Group: mcsv1beta1.GroupName, Version: "v1beta1", Resource: "serviceimports"},
	corev1.SchemeGroupVersion.WithResource("services"),
	discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
}

// recorder has every write to the objects of some namespaces, and what they are now.
type recorder struct {
	mu      sync.Mutex
	writes  []string          // the object of each write, in their order
	objects map[string]string // normalized
	err     error             // of a watch that ended too early
}

// record begins to record, in namespaces in which nothing has been written yet. It ends with the test.
func record(t *testing.T, config *rest.Config, namespaces []string) *recorder {
	t.Helper()
	r := &recorder{objects: map[string]string{}}
	for _, namespace := range namespaces {
		beside.Follow(t, config, written, namespace, r.add)
	}
	return r
}

// add returns false for the end of the watch.
func (r *recorder) add(event watch.Event, open bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	object, is := event.Object.(*unstructured.Unstructured)
	if !open || !is {
		r.err = fmt.Errorf("a watch ended: %v", event.Object)
		return false
	}
	key := fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
	r.writes = append(r.writes, key)
	if event.Type == watch.Deleted {
		delete(r.objects, key)
		return true
	}
	r.objects[key], r.err = normalize(object)
	return r.err == nil
}

// now returns the objects, and how many writes there were.
func (r *recorder) now(t *testing.T) (objects map[string]string, writes int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		t.Fatal(r.err)
	}
	return maps.Clone(r.objects), len(r.writes)
}

// since returns the objects that were written, each once, sorted.
func (r *recorder) since(writes int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(r.writes[writes:])))
}

// What differs between two clusters by itself: UIDs, the addresses of derived Services, and times. Created, in an annotation, is the time of
// the export, which no client can choose in a kube-apiserver.
var unlike = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\b10\.0\.0\.\d+\b`), "CLUSTERIP"},
	{regexp.MustCompile(`"lastTransitionTime":"[^"]*"`), `"lastTransitionTime":"TIME"`},
	{regexp.MustCompile(`\\"Created\\":\\"[^"]*\\"`), `\"Created\":\"TIME\"`},
	{regexp.MustCompile(`"observedGeneration":\d+`), `"observedGeneration":0`},
}

// normalize returns an object as a text, without what differs between two clusters by itself, and without the generation, which is the
// number of writes.
func normalize(of *unstructured.Unstructured) (string, error) {
	object := of.DeepCopy().Object
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		unstructured.RemoveNestedField(object, "metadata", field)
	}
	text, err := json.Marshal(object)
	for _, u := range unlike {
		text = u.what.ReplaceAll(text, []byte(u.by))
	}
	return string(text), err
}
