package rules

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

const nearest = "local, topology.kubernetes.io/region, any"

// preferring gives an export the annotations of a preference.
func preferring(export *mcsv1beta1.ServiceExport, list string) *mcsv1beta1.ServiceExport {
	export.Annotations = map[string]string{mcs.AnnotationPreferClusters: list, mcs.AnnotationReturnAfter: "2s"}
	return export
}

// ready sets whether the endpoints of the Service are ready.
func (s *stage) setReady(in int, name string, is bool) {
	s.Helper()
	edit(s, in, new(discoveryv1.EndpointSlice), name+"-abc", func(slice *discoveryv1.EndpointSlice) {
		for i := range slice.Endpoints {
			slice.Endpoints[i].Conditions = discoveryv1.EndpointConditions{Ready: new(is), Serving: new(is), Terminating: new(false)}
		}
	})
}

// usable are the addresses that kube-proxy uses for a Service, in the slices of one moment.
func usable(all map[string]*discoveryv1.EndpointSlice, service string) string {
	var addresses []string
	for _, slice := range all {
		for _, e := range slice.Endpoints {
			if slice.Labels[discoveryv1.LabelServiceName] == service && *e.Conditions.Ready {
				addresses = append(addresses, e.Addresses...)
			}
		}
	}
	slices.Sort(addresses)
	return strings.Join(addresses, " ")
}

// serves waits until exactly these addresses serve an import.
func (s *stage) serves(in int, name, want string) {
	s.Helper()
	s.servesOf(in, "derived-"+name, want)
}

// servesOf waits until exactly these addresses serve a Service.
func (s *stage) servesOf(in int, name, want string) {
	s.Helper()
	s.until(fmt.Sprintf("%s in %s by %s", name, s.set[in].ID, want), func() error {
		var list discoveryv1.EndpointSliceList
		if err := s.set[in].Admin.List(s.Context(), &list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		all := map[string]*discoveryv1.EndpointSlice{}
		for i := range list.Items {
			all[list.Items[i].Name] = &list.Items[i]
		}
		if got := usable(all, name); got != want {
			return fmt.Errorf("by %q", got)
		}
		return nil
	})
}

// preference waits for the condition ClusterPreference of an import.
func (s *stage) preference(in int, name, reason, says string) {
	s.Helper()
	s.says(in, name, "ClusterPreference", reason, says)
}

// says waits for a condition of an import, or for none if there is no reason.
func (s *stage) says(in int, name, kind, reason, says string) {
	s.Helper()
	s.until("the condition "+reason, func() error {
		imp, err := s.imp(in, name)
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(imp.Status.Conditions, kind)
		if c == nil && reason != "" || c != nil && (c.Reason != reason || !strings.Contains(c.Message, says)) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// neverEmpty watches the slices of a cluster until the returned function is called. That function fails the test if at some
// resourceVersion no endpoint served the Service, after the first one did.
func (s *stage) neverEmpty(in int, name string) (stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	slicesOf := kubernetes.NewForConfigOrDie(s.set[in].Config).DiscoveryV1().EndpointSlices(s.namespace)
	list, err := slicesOf.List(ctx, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	events, err := slicesOf.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		s.Fatal(err)
	}
	var running sync.WaitGroup
	var history []string
	running.Go(func() {
		all := map[string]*discoveryv1.EndpointSlice{}
		for i := range list.Items {
			all[list.Items[i].Name] = &list.Items[i]
		}
		for event := range events.ResultChan() {
			slice, ok := event.Object.(*discoveryv1.EndpointSlice)
			if !ok {
				if ctx.Err() == nil { // otherwise stop has ended it
					s.Errorf("the watch of %s ended: %+v", s.set[in].ID, event.Object)
				}
				return
			}
			all[slice.Name] = slice
			if event.Type == watch.Deleted {
				delete(all, slice.Name)
			}
			if now := usable(all, name); len(history) == 0 || history[len(history)-1] != now {
				history = append(history, now)
			}
		}
	})
	return func() {
		s.Helper()
		cancel()
		events.Stop()
		running.Wait()
		s.Logf("%s in %s was served by %q", name, s.set[in].ID, history)
		for i, now := range history {
			if i > 0 && now == "" {
				s.Errorf("%s in %s was served by nothing at one moment: %q", name, s.set[in].ID, history)
			}
		}
	}
}

// dump is all Services and slices of the namespace, without what changes with every write.
func (s *stage) dump(in int) string {
	s.Helper()
	var services corev1.ServiceList
	var all discoveryv1.EndpointSliceList
	for _, list := range []client.ObjectList{&services, &all} {
		if err := s.set[in].Admin.List(s.Context(), list, client.InNamespace(s.namespace)); err != nil {
			s.Fatal(err)
		}
	}
	plain := func(m *metav1.ObjectMeta) { m.ManagedFields, m.ResourceVersion, m.Generation = nil, "", 0 }
	for i := range services.Items {
		plain(&services.Items[i].ObjectMeta)
	}
	for i := range all.Items {
		plain(&all.Items[i].ObjectMeta)
	}
	services.ListMeta, all.ListMeta = metav1.ListMeta{}, metav1.ListMeta{}
	text, err := json.MarshalIndent([]any{services, all}, "", " ")
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// Three clusters in two regions: local, then the region, then anywhere, as endpoints go away one by one, and back. At no
// resourceVersion has the derived Service no ready endpoint. Without the annotations everything is as before.
func TestClusterPreference(t *testing.T) {
	s := newStage(t, three.start(t))
	const c1, c2, c3 = "10.9.1.1", "10.9.2.1", "10.9.3.1"
	for i, address := range []string{c1, c2, c3} {
		s.create(i, service("foo"), endpointsOf(service("foo"), "", address))
		s.create(i, exportOf("foo"))
	}
	for i := range s.set {
		s.serves(i, "foo", strings.Join([]string{c1, c2, c3}, " "))
	}
	s.until("ready", func() error { return s.imported(0, "foo", []string{"c1", "c2", "c3"}, c1, c2, c3) })
	before := s.dump(0)
	stop := s.neverEmpty(0, "derived-foo")
	prefer := func(list string) {
		for i := range s.set {
			edit(s, i, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) { preferring(export, list) })
		}
	}
	prefer(nearest)
	s.serves(0, "foo", c1)
	s.serves(1, "foo", c2)
	s.serves(2, "foo", c3)
	s.preference(0, "foo", "Preferred", "entry 1 of 3, local, is used: the traffic goes to c1")

	s.setReady(0, "foo", false)
	s.serves(0, "foo", c2)
	s.preference(0, "foo", "Fallback", "entry 2 of 3, topology.kubernetes.io/region, is used: the traffic goes to c1, c2")
	s.setReady(1, "foo", false)
	s.serves(0, "foo", c3)
	s.serves(1, "foo", c3)
	s.setReady(0, "foo", true)
	s.serves(0, "foo", c1)
	s.serves(1, "foo", c1)
	s.setReady(1, "foo", true)
	s.serves(1, "foo", c2)

	// c1 sends its own clients to c3, and c3 sends its clients to c1: what is on standby in c1 serves in c3.
	for i, list := range map[int]string{0: "cluster=c3", 2: "cluster=c1"} {
		edit(s, i, new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) {
			imp.Annotations[mcs.AnnotationPreferClusters] = list
		})
	}
	s.serves(0, "foo", c3)
	s.serves(2, "foo", c1)

	edit(s, 0, new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) {
		imp.Annotations[mcs.AnnotationPreferClusters] = "nearby"
	})
	s.serves(0, "foo", c1)
	s.preference(0, "foo", "MalformedAnnotation", `has "nearby" as entry 1, want one of: local, any`)

	for i := range s.set {
		edit(s, i, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) { export.Annotations = nil })
	}
	edit(s, 0, new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) {
		delete(imp.Annotations, mcs.AnnotationPreferClusters)
	})
	s.serves(0, "foo", strings.Join([]string{c1, c2, c3}, " "))
	s.preference(0, "foo", "", "")
	stop()
	if diff := cmp.Diff(before, s.dump(0)); diff != "" {
		t.Errorf("the annotations are gone, and this has changed (-before +after):\n%s", diff)
	}
}

// The clusters of a headless import that are not chosen have the label that the plugin reads, and their endpoints keep their
// conditions.
func TestClusterPreferenceOfAHeadlessService(t *testing.T) {
	s := newStage(t, three.start(t))
	for i, address := range []string{"10.9.1.1", "10.9.2.1"} {
		s.create(i, service("db", headless), endpointsOf(service("db"), "", address))
		s.create(i, preferring(exportOf("db"), "local, any"))
	}
	s.until("on standby", func() error {
		by, err := s.set[0].Imported(s.Context(), s.key("db"))
		if err != nil || len(by["c1"]) != 1 || len(by["c2"]) != 1 {
			return fmt.Errorf("the slices are %+v: %w", by, err)
		}
		near, far := by["c1"][0], by["c2"][0]
		if near.Labels[mcs.LabelStandby] != "" || far.Labels[mcs.LabelStandby] != "true" || !*far.Endpoints[0].Conditions.Ready {
			return fmt.Errorf("the slices are %+v", by)
		}
		return nil
	})
}
