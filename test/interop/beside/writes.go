package beside

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// resources are the kinds of objects that implementations of the API write, with the API's version that the cluster serves.
func resources(version string) []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: mcsv1beta1.GroupName, Version: version, Resource: "serviceimports"},
		{Group: mcsv1beta1.GroupName, Version: version, Resource: "serviceexports"},
		corev1.SchemeGroupVersion.WithResource("services"),
		discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
	}
}

// Writes has every write to the objects of a namespace: the API server sends an event for each that changes an object.
type Writes struct {
	mu  sync.Mutex
	log []write
	err error // of a watch that ended too early
}

type write struct{ object, event, by string }

// WatchWrites begins to count, in a version of the API that the cluster serves. It ends with the test.
func WatchWrites(t *testing.T, c *kube.Cluster, namespace, version string) *Writes {
	t.Helper()
	w := &Writes{}
	Follow(t, c.Config, resources(version), namespace, w.add)
	return w
}

// Follow calls add with each write to the objects of a namespace, until add returns false or the test ends. ok is false at the end of a
// watch.
func Follow(t *testing.T, config *rest.Config, kinds []schema.GroupVersionResource, namespace string, add func(event watch.Event, ok bool) bool) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	for _, kind := range kinds {
		objects := client.Resource(kind).Namespace(namespace)
		list, err := objects.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		events, err := objects.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { follow(ctx, events, add) })
	}
}

func follow(ctx context.Context, events watch.Interface, add func(event watch.Event, ok bool) bool) {
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-events.ResultChan():
			if !add(event, ok) {
				return
			}
		}
	}
}

// add returns false for the end of the watch.
func (w *Writes) add(event watch.Event, ok bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	object, is := event.Object.(*unstructured.Unstructured)
	if !ok || !is {
		w.err = fmt.Errorf("a watch ended: %v", event.Object)
		return false
	}
	w.log = append(w.log, write{object.GetKind() + " " + object.GetName(), string(event.Type), writers(object)})
	return true
}

// writers names who wrote to an object last: those managers with the newest time, which has whole seconds.
func writers(object *unstructured.Unstructured) string {
	var newest metav1.Time
	names := map[string]bool{}
	for _, entry := range object.GetManagedFields() {
		if entry.Time == nil || entry.Time.Before(&newest) {
			continue
		}
		if newest.Before(entry.Time) {
			newest = *entry.Time
			clear(names)
		}
		names[entry.Manager] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), "+")
}

// Mark is a place in the order of the writes.
type Mark int

// Now is the place after the last write.
func (w *Writes) Now() Mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Mark(len(w.log))
}

// AtMost fails the test if an object was written more often since a mark, or if nothing was written at all: then nothing was counted.
func (w *Writes) AtMost(t *testing.T, since Mark, most int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		t.Error(w.err)
	}
	if len(w.log) == int(since) {
		t.Error("no write was counted")
	}
	times := map[string]int{}
	highest := 0
	for _, one := range w.log[since:] {
		times[one.object]++
		highest = max(highest, times[one.object])
	}
	t.Logf("%d writes to %d objects, at most %d to one", len(w.log)-int(since), len(times), highest)
	for object, n := range times {
		if n > most {
			t.Errorf("%s was written %d times; want %d at most:\n%s", object, n, most, w.last(object))
		}
	}
}

// Rest fails the test if objects that exist are never at rest. create makes a new name and waits until both implementations have served
// it: the time in which nothing else may be written. The writes of what happened before can come late, and so there are several rounds.
func (w *Writes) Rest(t *testing.T, create func(round int)) {
	t.Helper()
	const most = 10
	for round := range most {
		mark := w.Now()
		create(round)
		written, err := w.existing(mark)
		switch {
		case err != nil:
			t.Fatal(err)
		case len(written) == 0:
			t.Logf("nothing but a new name is written in round %d", round+1)
			return
		case round == most-1:
			t.Errorf("%s was still written in round %d:\n%s", written[0], most, w.last(written[0]))
		}
	}
}

// existing are the objects written since a mark that were not new then. Without any new one, it returns an error: nothing was counted.
func (w *Writes) existing(since Mark) (objects []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	created := map[string]bool{}
	for _, one := range w.log[since:] {
		if one.event == string(watch.Added) {
			created[one.object] = true
		}
		if !created[one.object] {
			objects = append(objects, one.object)
		}
	}
	if w.err == nil && len(created) == 0 {
		return nil, fmt.Errorf("no write of a new object was counted")
	}
	return objects, w.err
}

// last are the last writes of an object.
func (w *Writes) last(object string) string {
	const most = 20
	var lines []string
	for _, one := range w.log {
		if one.object == object {
			lines = append(lines, one.event+" by "+one.by)
		}
	}
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
