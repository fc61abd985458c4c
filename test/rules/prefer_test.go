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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/world"
)

const nearest = "local, topology.kubernetes.io/region, any"

// preferring gives an export the annotations of a preference.
func preferring(export *mcsv1beta1.ServiceExport, list string) *mcsv1beta1.ServiceExport {
	export.Annotations = map[string]string{mcs.AnnotationPreferClusters: list, mcs.AnnotationReturnAfter: "2s"}
	return export
}

// ready sets whether the endpoints of the Service are ready.
func setReady(s *world.Namespace, id, name string, is bool) {
	s.Helper()
	world.Edit(s, id, new(discoveryv1.EndpointSlice), name+"-abc", func(slice *discoveryv1.EndpointSlice) {
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
func serves(s *world.Namespace, id, name, want string) {
	s.Helper()
	servesOf(s, id, "derived-"+name, want)
}

// servesOf waits until exactly these addresses serve a Service.
func servesOf(s *world.Namespace, id, name, want string) {
	s.Helper()
	s.Until(fmt.Sprintf("%s in %s by %s", name, id, want), func() error { return served(s, id, name, want) })
}

// served wants exactly these addresses to serve a Service.
func served(s *world.Namespace, id, name, want string) error {
	var list discoveryv1.EndpointSliceList
	if err := s.Admin(id).List(s.Context(), &list, client.InNamespace(s.Name)); err != nil {
		return err
	}
	all := map[string]*discoveryv1.EndpointSlice{}
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	if got := usable(all, name); got != want {
		return fmt.Errorf("%s in %s is served by %q; want %q", name, id, got, want)
	}
	return nil
}

// neverEmpty watches the slices of a cluster until the returned function is called. That function fails the test if at some
// resourceVersion no endpoint served the Service, after the first one did.
func neverEmpty(s *world.Namespace, id, name string) (stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	slicesOf := kubernetes.NewForConfigOrDie(s.Cluster(id).Config).DiscoveryV1().EndpointSlices(s.Name)
	list, err := slicesOf.List(ctx, metav1.ListOptions{})
	s.Must(err)
	events, err := slicesOf.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	s.Must(err)
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
					s.Errorf("the watch of %s ended: %+v", id, event.Object)
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
		s.Logf("%s in %s was served by %q", name, id, history)
		for i, now := range history {
			if i > 0 && now == "" {
				s.Errorf("%s in %s was served by nothing at one moment: %q", name, id, history)
			}
		}
	}
}

// dump is all Services and slices of the namespace, without what changes with every write.
func dump(s *world.Namespace, id string) string {
	s.Helper()
	var services corev1.ServiceList
	var all discoveryv1.EndpointSliceList
	for _, list := range []client.ObjectList{&services, &all} {
		s.Must(s.Admin(id).List(s.Context(), list, client.InNamespace(s.Name)))
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
	s.Must(err)
	return string(text)
}

// Three clusters in two regions: local, then the region, then anywhere, as endpoints go away one by one, and back. At no
// resourceVersion has the derived Service no ready endpoint. Without the annotations everything is as before.
func TestClusterPreference(t *testing.T) {
	s := world.Three(t).Namespace()
	const c1, c2, c3 = "10.9.1.1", "10.9.2.1", "10.9.3.1"
	for id, address := range map[string]string{"c1": c1, "c2": c2, "c3": c3} {
		s.Export(id, world.Service("foo"), address)
	}
	for _, id := range s.IDs() {
		serves(s, id, "foo", strings.Join([]string{c1, c2, c3}, " "))
	}
	s.Until("ready", func() error { return s.Imported("c1", "foo", []string{"c1", "c2", "c3"}, c1, c2, c3) })
	before := dump(s, "c1")
	stop := neverEmpty(s, "c1", "derived-foo")
	prefer := func(list string) {
		for _, id := range s.IDs() {
			world.Edit(s, id, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) { preferring(export, list) })
		}
	}
	prefer(nearest)
	serves(s, "c1", "foo", c1)
	serves(s, "c2", "foo", c2)
	serves(s, "c3", "foo", c3)
	s.Says("c1", "foo", "ClusterPreference", "Preferred", "entry 1 of 3, local, is used: the traffic goes to c1")

	setReady(s, "c1", "foo", false)
	serves(s, "c1", "foo", c2)
	s.Says("c1", "foo", "ClusterPreference", "Fallback", "entry 2 of 3, topology.kubernetes.io/region, is used: the traffic goes to c1, c2")
	setReady(s, "c2", "foo", false)
	serves(s, "c1", "foo", c3)
	serves(s, "c2", "foo", c3)
	setReady(s, "c1", "foo", true)
	serves(s, "c1", "foo", c1)
	serves(s, "c2", "foo", c1)
	setReady(s, "c2", "foo", true)
	serves(s, "c2", "foo", c2)

	// c1 sends its own clients to c3, and c3 sends its clients to c1: what is on standby in c1 serves in c3.
	for id, list := range map[string]string{"c1": "cluster=c3", "c3": "cluster=c1"} {
		world.Edit(s, id, new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) {
			imp.Annotations[mcs.AnnotationPreferClusters] = list
		})
	}
	serves(s, "c1", "foo", c3)
	serves(s, "c3", "foo", c1)

	world.Edit(s, "c1", new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) {
		imp.Annotations[mcs.AnnotationPreferClusters] = "nearby"
	})
	serves(s, "c1", "foo", c1)
	s.Says("c1", "foo", "ClusterPreference", "MalformedAnnotation", `has "nearby" as entry 1, want one of: local, any`)

	for _, id := range s.IDs() {
		world.Edit(s, id, new(mcsv1beta1.ServiceExport), "foo", func(export *mcsv1beta1.ServiceExport) { export.Annotations = nil })
	}
	world.Edit(s, "c1", new(mcsv1beta1.ServiceImport), "foo", func(imp *mcsv1beta1.ServiceImport) {
		delete(imp.Annotations, mcs.AnnotationPreferClusters)
	})
	serves(s, "c1", "foo", strings.Join([]string{c1, c2, c3}, " "))
	s.Says("c1", "foo", "ClusterPreference", "", "")
	stop()
	if diff := cmp.Diff(before, dump(s, "c1")); diff != "" {
		t.Errorf("the annotations are gone, and this has changed (-before +after):\n%s", diff)
	}
}
