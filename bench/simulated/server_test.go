package simulated

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
)

func everything() selection {
	return selection{labels: labels.Everything(), fields: fields.Everything()}
}

// selected are the slices that a controller asks for.
func selected(t *testing.T) selection {
	t.Helper()
	by := everything()
	var err error
	if by.labels, err = labels.Parse(ownSlices); err != nil {
		t.Fatal(err)
	}
	return by
}

func TestFollowersHaveAllObjectsAndSeeChanges(t *testing.T) {
	s := start(t, small, Options{})
	services := s.follow(t, ofServices, corev1.SchemeGroupVersion)
	exports := s.follow(t, ofExports, mcs.Versions...)
	namespaces := s.follow(t, ofNamespaces, corev1.SchemeGroupVersion)
	slices := s.follow(t, ofSlices, discoveryv1.SchemeGroupVersion)
	check := func() {
		t.Helper()
		services.equal(t, s, "services", everything())
		exports.equal(t, s, "serviceexports", everything())
		namespaces.equal(t, s, "namespaces", everything())
		slices.equal(t, s, "endpointslices", selected(t))
	}
	check()
	if n := len(services.List()); n != 9 {
		t.Errorf("%d Services", n)
	}
	if n := len(slices.List()); n != 14 {
		t.Errorf("%d slices", n)
	}

	at, called := small.Namespace(0), small.Name(0, 0)
	for what, change := range map[string]func() error{
		"change": func() error {
			return Edit(s, at, called, func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 81 })
		},
		"delete": func() error {
			return s.Delete(&mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: at, Name: called}})
		},
		"create": func() error { return s.Apply(export(name{at, "new"})) },
		"beat":   func() error { return s.Beat(time.Now()) },
		"a slice of another cluster": func() error {
			return s.Apply(emptySlice(name{at, called}, "p77", "other", false))
		},
		"a slice that is no longer selected": func() error {
			return Edit(s, at, small.Slice(0, 0, 0).Name, func(slice *discoveryv1.EndpointSlice) { slice.Labels[discoveryv1.LabelManagedBy] = "me" })
		},
	} {
		if err := change(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		check()
	}
	if n := len(slices.List()); n != 13 {
		t.Errorf("%d slices", n)
	}
	if svc, err := services.service(at, called); err != nil || svc.Spec.Ports[0].Port != 81 || svc.Spec.Ports[0].TargetPort.IntVal != 8080 {
		t.Errorf("the Service is %+v: %v", svc, err)
	}
	want := Request{Stream, "services"}
	if got := s.Requests(); got[want] != 1 || Total(got) < 4 {
		t.Errorf("the requests are %v; want one of %v", got, want)
	}
}

func TestStreamSurvivesManyChanges(t *testing.T) {
	const changes = 5000
	s := start(t, small, Options{History: 2 * changes})
	slices := s.follow(t, ofSlices, discoveryv1.SchemeGroupVersion)
	slices.equal(t, s, "endpointslices", selected(t))
	for i := range changes {
		slice := small.Slice(0, i%small.Services, 0)
		slice.Endpoints[0].Addresses[0] = fmt.Sprintf("10.200.%d.%d", i>>8, i&255)
		if err := s.Apply(slice); err != nil {
			t.Fatal(err)
		}
	}
	slices.equal(t, s, "endpointslices", selected(t))
	if n := s.Requests()[Request{Stream, "endpointslices"}]; n != 1 {
		t.Errorf("%d streams", n)
	}
}

func TestWatchBeginsAgainWhereItEnded(t *testing.T) {
	s := start(t, small, Options{})
	services := s.follow(t, ofServices, corev1.SchemeGroupVersion)
	services.equal(t, s, "services", everything())
	outage(t, s, services, false)
	services.equal(t, s, "services", everything())
	if got := s.Requests(); got[Request{Stream, "services"}] != 1 || got[Request{Watch, "services"}] == 0 {
		t.Errorf("the requests are %v; want no second list", got)
	}
}

func TestForgottenVersionLeadsToANewList(t *testing.T) {
	s := start(t, small, Options{})
	services := s.follow(t, ofServices, corev1.SchemeGroupVersion)
	services.equal(t, s, "services", everything())
	outage(t, s, services, true)
	services.equal(t, s, "services", everything())
	if got := s.Requests(); got[Request{Stream, "services"}] != 2 || got[Request{Watch, "services"}] == 0 {
		t.Errorf("the requests are %v; want a watch and then a second list", got)
	}
}

// outage refuses requests while a Service is changed and one deleted. The watch has had an event before: client-go lists again after a
// watch that has ended at once without any.
func outage(t *testing.T, s *Server, services *follower, forget bool) {
	t.Helper()
	if err := s.Apply(service(name{small.Namespace(0), "before"}, "10.0.9.9", 80)); err != nil {
		t.Fatal(err)
	}
	services.equal(t, s, "services", everything())
	if err := s.Refuse(); err != nil {
		t.Fatal(err)
	}
	probe := s.versionOf(t, corev1.SchemeGroupVersion).Client
	if err := probe.Get().Resource("services").MaxRetries(0).Do(t.Context()).Error(); err == nil {
		t.Error("a request is answered")
	}
	at := small.Namespace(0)
	if err := Edit(s, at, small.Name(0, 0), func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 82 }); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: at, Name: small.Name(0, 2)}}); err != nil {
		t.Fatal(err)
	}
	if forget {
		s.Forget()
	}
	if err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestBookmarks(t *testing.T) {
	s := start(t, small, Options{BookmarkEvery: 20 * time.Millisecond})
	api := kubernetes.NewForConfigOrDie(s.config(t)).CoreV1().Services("")
	list, err := api.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Beat(time.Now()); err != nil { // the version of a bookmark is that of all kinds
		t.Fatal(err)
	}
	w, err := api.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true, TimeoutSeconds: new(int64(60))})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	event := next(t, w)
	if event.Type != watch.Bookmark || event.Object.(*corev1.Service).ResourceVersion <= list.ResourceVersion {
		t.Errorf("%s %+v; want a bookmark after %s", event.Type, event.Object, list.ResourceVersion)
	}
}

func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case event := <-w.ResultChan():
		return event
	case <-time.After(time.Minute):
		t.Fatal("no event arrives")
		return watch.Event{}
	}
}

func TestWatchEndsAtItsTimeout(t *testing.T) {
	s := start(t, small, Options{})
	api := kubernetes.NewForConfigOrDie(s.config(t)).CoreV1().Services("")
	w, err := api.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "100", AllowWatchBookmarks: true, TimeoutSeconds: new(int64(1))})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var kinds []watch.EventType
	for event := range w.ResultChan() {
		kinds = append(kinds, event.Type)
	}
	if len(kinds) != 1 || kinds[0] != watch.Bookmark {
		t.Errorf("the events are %v; want a bookmark before the end", kinds)
	}
}

func TestTooOldVersionIsAnErrorEvent(t *testing.T) {
	s := start(t, small, Options{})
	w, err := kubernetes.NewForConfigOrDie(s.config(t)).CoreV1().Services("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "2"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if event := next(t, w); event.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
		t.Errorf("%s %+v", event.Type, event.Object)
	}
	if _, open := <-w.ResultChan(); open {
		t.Error("the watch goes on")
	}
}

func TestLists(t *testing.T) {
	s := start(t, small, Options{})
	for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		config := s.config(t)
		config.ContentType = media
		api := kubernetes.NewForConfigOrDie(config).CoreV1()
		for what, test := range map[string]struct {
			namespace string
			options   metav1.ListOptions
			want      int
			fails     func(error) bool
		}{
			"all":                         {"", metav1.ListOptions{}, 9, nil},
			"from the cache":              {"", metav1.ListOptions{ResourceVersion: "0"}, 9, nil},
			"from the cache, with limit":  {"", metav1.ListOptions{ResourceVersion: "0", Limit: 3}, 9, nil},
			"a namespace":                 {small.Namespace(1), metav1.ListOptions{}, 4, nil},
			"a name":                      {"", metav1.ListOptions{FieldSelector: "metadata.name=internal-1"}, 1, nil},
			"no name, as a probe":         {"", metav1.ListOptions{FieldSelector: "metadata.name=none.clusterset-dns.io", ResourceVersion: "0"}, 0, nil},
			"another label":               {"", metav1.ListOptions{LabelSelector: "a=b"}, 0, nil},
			"not a label":                 {"", metav1.ListOptions{LabelSelector: "a!=b"}, 9, nil},
			"another field":               {"", metav1.ListOptions{FieldSelector: "spec.type=ClusterIP"}, 0, apierrors.IsBadRequest},
			"an old version":              {"", metav1.ListOptions{ResourceVersion: "2", ResourceVersionMatch: metav1.ResourceVersionMatchExact}, 0, apierrors.IsResourceExpired},
			"a match without a version":   {"", metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact}, 0, apierrors.IsInvalid},
			"a continue that has expired": {"", metav1.ListOptions{Continue: "x"}, 0, apierrors.IsResourceExpired},
		} {
			list, err := api.Services(test.namespace).List(t.Context(), test.options)
			switch {
			case test.fails != nil:
				if err == nil || !test.fails(err) {
					t.Errorf("%s, %s: %v", media, what, err)
				}
			case err != nil || len(list.Items) != test.want || list.ResourceVersion == "":
				t.Errorf("%s, %s: %d items, %+v: %v", media, what, len(list.Items), list.ListMeta, err)
			}
		}
	}
}

func TestFutureVersionIsTooLarge(t *testing.T) {
	s := start(t, small, Options{})
	err := s.versionOf(t, corev1.SchemeGroupVersion).Client.Get().Resource("services").Param("resourceVersion", "1000000").MaxRetries(0).Do(t.Context()).Error()
	if !apierrors.IsTimeout(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Error(err)
	}
}

func TestApplyOfTheSameIsNoChange(t *testing.T) {
	s := start(t, small, Options{})
	before := s.version
	for object := range small.Objects(0) {
		if err := s.Apply(object); err != nil {
			t.Fatal(err)
		}
	}
	if s.version != before {
		t.Errorf("the version rose from %d to %d", before, s.version)
	}
	if err := s.Apply(&corev1.Pod{}); err == nil {
		t.Error("a Pod is stored")
	}
	if err := Edit(s, "ns", "none", func(*corev1.Service) {}); err == nil {
		t.Error("an absent Service is edited")
	}
}

func TestBeats(t *testing.T) {
	s := start(t, small, Options{})
	namespaces := s.follow(t, ofNamespaces, corev1.SchemeGroupVersion)
	ended := make(chan error, 1)
	go func() { ended <- Beat(t.Context(), []*Server{s}, time.Millisecond) }()
	kube.Eventually(t, "a heartbeat arrives", func() error {
		object, found, err := namespaces.GetByKey(SystemNamespace)
		if err != nil || !found {
			return errors.Join(err, errors.New("no namespace"))
		}
		if beat := object.(*corev1.Namespace).Annotations[mcs.AnnotationHeartbeat]; beat == "" {
			return errors.New("no heartbeat")
		}
		return nil
	})
	select {
	case err := <-ended:
		t.Errorf("it ended: %v", err)
	default:
	}
}
