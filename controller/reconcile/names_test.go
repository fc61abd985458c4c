package reconcile

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// stored is a cache of exports, imports and slices.
type stored struct {
	client.Reader
	exports []mcsv1beta1.ServiceExport
	imports []mcsv1beta1.ServiceImport
	slices  []discoveryv1.EndpointSlice
}

func (s stored) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var of client.ListOptions
	of.ApplyOptions(options)
	switch all := list.(type) {
	case *mcsv1beta1.ServiceExportList:
		all.Items = s.exports
	case *discoveryv1.EndpointSliceList:
		for _, slice := range s.slices {
			if of.LabelSelector == nil || of.LabelSelector.Matches(labels.Set(slice.Labels)) {
				all.Items = append(all.Items, slice)
			}
		}
	case *mcsv1beta1.ServiceImportList:
		if of.FieldSelector == nil { // none is derived from another name
			all.Items = s.imports
		}
	}
	return nil
}

// A peer whose state changes costs one plan for each name that this cluster has of it, and none for
// other names.
func TestAPeersStateConcernsItsOwnNames(t *testing.T) {
	record := func(clusters ...string) map[string]string {
		all := map[string]struct{}{}
		for _, cluster := range clusters {
			all[cluster] = struct{}{}
		}
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{mcs.AnnotationExports: string(text)}
	}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }
	cache := stored{imports: []mcsv1beta1.ServiceImport{
		{ObjectMeta: named("none")},
		{ObjectMeta: named("recorded")},
		{ObjectMeta: named("in-status"), Status: mcsv1beta1.ServiceImportStatus{Clusters: []mcsv1beta1.ClusterStatus{{Cluster: "west"}, {Cluster: "east"}}}},
		{ObjectMeta: named("longer-id")},
		{ObjectMeta: named("slices")},
	}}
	cache.imports[1].Annotations = record("east", "west")
	cache.imports[3].Annotations = record("east.eu", "north-east", "eastern")
	for cluster, service := range map[string]string{"east": "slices", "west": "none"} {
		cache.slices = append(cache.slices, discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Labels: map[string]string{mcsv1beta1.LabelSourceCluster: cluster, mcsv1beta1.LabelServiceName: service},
		}})
	}
	for cluster, want := range map[string]string{
		"east": "in-status recorded slices", "west": "in-status none recorded", "north": "", "home": "in-status longer-id none recorded slices",
	} {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
		s := &nameSource{ctx: t.Context(), home: "home", cache: cache, queue: queue}
		s.importsOf(cluster)
		queue.ShutDown()
		var got []string
		for {
			request, ended := queue.Get()
			if ended {
				break
			}
			got = append(got, request.Name)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q are planned, want %q", cluster, got, want)
		}
	}
}
