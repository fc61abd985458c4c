package simulated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/interop/beside"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world"
)

// compared is the World of the comparison.
var compared = World{Peers: 1, Services: 20, Endpoints: 5, Namespaces: 2}

// TestLikeAKubeAPIServer gives a kube-apiserver and a Server the same objects.
//
//  1. Both get the requests that a controller sends, and a write: the answers are the same.
//  2. The real controller reads each of them in a new cluster. After each change, which both get, the ServiceImports, Services and
//     EndpointSlices of both clusters have to become the same: names, and everything in them but UIDs, versions, times, generations and
//     ClusterIPs, which differ between any two clusters.
func TestLikeAKubeAPIServer(t *testing.T) {
	kube.NotShort(t)
	ctrl.SetLogger(logr.Discard())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	actual := newCluster(t, "p00")
	certificates, err := NewCertificates()
	must(err)
	server, err := New(certificates, compared.Objects(0))
	must(err)
	must(server.Start(t.Context()))
	t.Cleanup(func() { _ = server.Refuse() })
	kubeconfig, err := server.Kubeconfig()
	must(err)
	applyTo := [2]func(client.Object) error{applyActual(t.Context(), actual), server.Apply}
	for object := range compared.Objects(0) {
		must(applyTo[0](object))
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	must(err)
	answerTheSame(t, actual.Reader, config, always)

	var homes [2]*world.Cluster
	for i, text := range [][]byte{actual.ReaderKubeconfig, kubeconfig} {
		homes[i] = newCluster(t, "home")
		must(homes[i].Join(t.Context(), compared.ID(0), text))
		beside.StartController(t, homes[i].Cluster, "--cluster-id=home", "--probe-peers=false", "--leader-elect=false")
	}
	before := same(t, "the first sync", homes, func(objects map[string]string) error {
		if want := len(written) * compared.Services; len(objects) != want { // one of each kind for each name
			return fmt.Errorf("%d objects, want %d", len(objects), want)
		}
		return nil
	})
	for _, change := range changes() {
		if change.restart {
			actual.StopAPIServer()
			must(actual.StartAPIServer(t.Context()))
			must(server.Refuse())
			server.Forget()
			must(server.Resume(t.Context()))
		}
		for _, apply := range applyTo {
			for _, object := range change.objects() {
				must(apply(object))
			}
		}
		before = same(t, change.what, homes, func(objects map[string]string) error {
			if maps.Equal(objects, before) {
				return errors.New("nothing has changed")
			}
			return nil
		})
	}
	answerTheSame(t, actual.Reader, config, afterRestart)
}

// newCluster starts a cluster with the namespaces of the World until the end of the test.
func newCluster(t *testing.T, id string) *world.Cluster {
	t.Helper()
	c, err := world.Start(t.Context(), id, kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, namespace := range compared.AllNamespaces() {
		if err := c.Admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// applyActual creates or replaces objects, without what only the server sets. There are no owners: a garbage collector would delete what they
// own, and nothing that reads a peer reads them.
func applyActual(ctx context.Context, c *world.Cluster) func(client.Object) error {
	return func(object client.Object) error {
		object.SetUID("")
		object.SetManagedFields(nil)
		object.SetOwnerReferences(nil)
		object.SetResourceVersion("")
		old := object.DeepCopyObject().(client.Object)
		err := c.Admin.Get(ctx, client.ObjectKeyFromObject(object), old)
		if apierrors.IsNotFound(err) {
			return c.Admin.Create(ctx, object)
		}
		object.SetResourceVersion(old.GetResourceVersion())
		return errors.Join(err, c.Admin.Update(ctx, object))
	}
}

type change struct {
	what    string
	restart bool // is a short outage before it, after which watches cannot go on where they ended
	objects func() []client.Object
}

// changes are what happens in the peer. Each changes something in the importing cluster.
func changes() []change {
	slice := func(i int, edit func(*discoveryv1.EndpointSlice)) func() []client.Object {
		return func() []client.Object {
			of := compared.Slice(0, i)
			edit(of)
			return []client.Object{of}
		}
	}
	return []change{
		{what: "an address changes", objects: slice(0, func(of *discoveryv1.EndpointSlice) { of.Endpoints[0].Addresses[0] = "10.200.0.1" })},
		{what: "an endpoint is no longer ready", objects: slice(1, func(of *discoveryv1.EndpointSlice) { of.Endpoints[0].Conditions.Ready = new(false) })},
		{what: "the pods of a Service leave", objects: slice(4, func(of *discoveryv1.EndpointSlice) { of.Endpoints = nil })},
		{what: "the ports of a Service change", objects: slice(5, func(of *discoveryv1.EndpointSlice) {
			describe(of, func(spec *corev1.ServiceSpec) { spec.Ports[0].Port = 8443 })
		})},
		{what: "the session affinity of a Service changes", objects: slice(7, func(of *discoveryv1.EndpointSlice) {
			describe(of, func(spec *corev1.ServiceSpec) {
				spec.SessionAffinity = corev1.ServiceAffinityClientIP
				spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(600))}}
			})
		})},
		{what: "labels are exported", objects: func() []client.Object {
			labelled := compared.export(0, 6)
			labelled.Spec.ExportedLabels = map[string]string{"team": "shop"}
			return []client.Object{labelled}
		}},
		{what: "a new Service is exported", objects: func() []client.Object {
			return []client.Object{compared.export(0, compared.Services), compared.Slice(0, compared.Services)}
		}},
		{what: "an address changes after a restart of the API server", restart: true, objects: slice(8, func(of *discoveryv1.EndpointSlice) {
			of.Endpoints[1].Addresses[0] = "10.200.0.2"
		})},
		{what: "the cluster announces properties", objects: func() []client.Object {
			n := compared.announcing(0)
			n.Annotations[mcs.AnnotationHeartbeat] = time.Now().UTC().Format(time.RFC3339)
			n.Annotations[mcs.AnnotationExportNamespaces] = compared.Namespace(0)
			return []client.Object{n}
		}},
	}
}

var sides = [2]string{"kube-apiserver", "simulated"}

// same waits until both clusters have the same objects, for which a condition holds, and returns them.
func same(t *testing.T, what string, clusters [2]*world.Cluster, condition func(objects map[string]string) error) (has map[string]string) {
	t.Helper()
	kube.Eventually(t, what, func() (err error) {
		if has, err = objects(t.Context(), clusters[0]); err != nil {
			return err
		}
		b, err := objects(t.Context(), clusters[1])
		if err = errors.Join(err, condition(has)); err != nil {
			return err
		}
		all := maps.Clone(has)
		maps.Copy(all, b)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if has[key] != b[key] {
				return fmt.Errorf("%s differs:\n%s: %s\n%s: %s", key, sides[0], has[key], sides[1], b[key])
			}
		}
		return nil
	})
	return has
}

// written are the kinds that the controller writes in namespaces of users.
var written = []schema.GroupVersionKind{
	mcsv1beta1.SchemeGroupVersion.WithKind("ServiceImportList"),
	corev1.SchemeGroupVersion.WithKind("ServiceList"),
	discoveryv1.SchemeGroupVersion.WithKind("EndpointSliceList"),
}

// objects are those of the namespaces of users, normalized.
func objects(ctx context.Context, c *world.Cluster) (map[string]string, error) {
	all := map[string]string{}
	for _, kind := range written {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind)
		if err := c.Admin.List(ctx, &list); err != nil {
			return nil, err
		}
		for _, one := range list.Items {
			if slices.Contains(compared.AllNamespaces(), one.GetNamespace()) {
				text, err := normalize(one.Object)
				if err != nil {
					return nil, err
				}
				all[fmt.Sprintf("%s %s/%s", one.GetKind(), one.GetNamespace(), one.GetName())] = text
			}
		}
	}
	return all, nil
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
func normalize(object map[string]any) (string, error) {
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		unstructured.RemoveNestedField(object, "metadata", field)
	}
	text, err := json.Marshal(object)
	for _, u := range unlike {
		text = u.what.ReplaceAll(text, []byte(u.by))
	}
	return string(text), err
}

const ownSlices = mcsv1beta1.LabelSourceCluster + "=p00," + discoveryv1.LabelManagedBy + "=" + mcs.ControllerName

// request asks an API server, and gives what is to be the same of its answer. The reason of an error is too.
type request func(ctx context.Context, config *rest.Config) ([]string, error)

// always are requests at any time.
var always = map[string]request{
	"versions and resources": func(_ context.Context, config *rest.Config) (found []string, err error) {
		api := kubernetes.NewForConfigOrDie(config).Discovery()
		groups, err := api.ServerGroups()
		if err != nil {
			return nil, err
		}
		for _, k := range kinds {
			list, err := api.ServerResourcesForGroupVersion(k.GroupVersion().String())
			if err != nil {
				return nil, err
			}
			for _, group := range groups.Groups {
				for _, resource := range list.APIResources {
					if group.Name == k.Group && resource.Name == k.resource {
						found = append(found, group.PreferredVersion.GroupVersion,
							fmt.Sprint(resource.Name, resource.SingularName, resource.Kind, resource.Namespaced))
					}
				}
			}
		}
		return found, nil
	},
	"a version that is not there": func(_ context.Context, config *rest.Config) ([]string, error) {
		_, err := kubernetes.NewForConfigOrDie(config).Discovery().ServerResourcesForGroupVersion("discovery.k8s.io/v9")
		return nil, err
	},
	"a write": func(ctx context.Context, config *rest.Config) ([]string, error) {
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Services(compared.Namespace(0)).Create(ctx,
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
		return nil, err
	},
	"a probe, which selects nothing": list(metav1.ListOptions{FieldSelector: "metadata.name=none.clusterset-dns.io", ResourceVersion: "0"}),
	"a namespace by its name":        list(metav1.ListOptions{FieldSelector: "metadata.name=kube-system"}),
	"another field":                  list(metav1.ListOptions{FieldSelector: "spec.other=1"}),
	"exports, in JSON": func(ctx context.Context, config *rest.Config) (names []string, err error) {
		config = rest.CopyConfig(config)
		config.ContentType = runtime.ContentTypeJSON
		exports := dynamic.NewForConfigOrDie(config).Resource(mcsv1beta1.SchemeGroupVersion.WithResource(mcsv1beta1.ServiceExportPluralName))
		all, err := exports.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return names, all.EachListItem(func(object runtime.Object) error {
			names = append(names, object.(*unstructured.Unstructured).GetName())
			return nil
		})
	},
	"own slices, then a bookmark": events(metav1.ListOptions{
		LabelSelector: ownSlices, SendInitialEvents: new(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}),
}

// afterRestart are requests to an API server that has forgotten its changes.
var afterRestart = map[string]request{
	"a watch from a version that is too old": events(metav1.ListOptions{ResourceVersion: "2"}),
}

func list(options metav1.ListOptions) request {
	return func(ctx context.Context, config *rest.Config) (names []string, err error) {
		all, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().List(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, one := range all.Items {
			names = append(names, one.Name)
		}
		return names, nil
	}
}

// events are those of EndpointSlices up to the first that is none of an object.
func events(options metav1.ListOptions) request {
	return func(ctx context.Context, config *rest.Config) (seen []string, err error) {
		w, err := kubernetes.NewForConfigOrDie(config).DiscoveryV1().EndpointSlices("").Watch(ctx, options)
		if err != nil {
			return nil, err
		}
		defer w.Stop()
		for event := range w.ResultChan() {
			switch object := event.Object.(type) {
			case *discoveryv1.EndpointSlice:
				seen = append(seen, fmt.Sprint(event.Type, object.Name, object.Annotations[metav1.InitialEventsAnnotationKey], len(object.Endpoints)))
			default:
				return seen, apierrors.FromObject(event.Object)
			}
			if event.Type == watch.Bookmark {
				slices.Sort(seen)
				return seen, nil
			}
		}
		return seen, ctx.Err()
	}
}

func answerTheSame(t *testing.T, actual, simulated *rest.Config, requests map[string]request) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what, ask := range requests {
		var answers [2]string
		for i, config := range []*rest.Config{actual, simulated} {
			config = rest.CopyConfig(config)
			config.ContentType = runtime.ContentTypeProtobuf
			found, err := ask(ctx, config)
			answers[i] = fmt.Sprintf("%q %s", found, apierrors.ReasonForError(err))
			if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
				t.Errorf("%s: %s: %v", what, sides[i], err)
			}
		}
		if answers[0] != answers[1] {
			t.Errorf("%s:\n%s: %s\n%s: %s", what, sides[0], answers[0], sides[1], answers[1])
		}
	}
}
