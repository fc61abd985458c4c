package faultproxy

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/test/kube"
)

var shared = kube.Shared{Prepare: bindEditor}

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

const editor = "editor"

// bindEditor lets the account of the tests do everything.
func bindEditor(ctx context.Context, c *kube.Cluster) error {
	_, err := kubernetes.NewForConfigOrDie(c.Config).RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: editor},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: editor}},
	}, metav1.CreateOptions{})
	return err
}

// world is an API server with an API before it.
type world struct {
	*API
	namespace    string
	client, past kubernetes.Interface
}

// newWorld has a client whose objects are in an encoding.
func newWorld(t *testing.T, encoding string) *world {
	t.Helper()
	c := shared.Cluster(t)
	token, _, err := c.ServiceAccount(t.Context(), "default", editor)
	if err != nil {
		t.Fatal(err)
	}
	token.ContentType, token.AcceptContentTypes = encoding, encoding
	a, err := Before(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{a, kube.Namespace(t, c), kubernetes.NewForConfigOrDie(a.Config(token)), kubernetes.NewForConfigOrDie(token)}
}

// put writes a ConfigMap past the API.
func (w *world) put(t *testing.T, name, value string) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
	if _, err := w.past.CoreV1().ConfigMaps(w.namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// version is that of a list.
func (w *world) version(t *testing.T) string {
	t.Helper()
	list, err := w.client.CoreV1().ConfigMaps(w.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.ResourceVersion
}

// watch goes on from a version.
func (w *world) watch(t *testing.T, version string) watch.Interface {
	t.Helper()
	i, err := w.client.CoreV1().ConfigMaps(w.namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Stop)
	return i
}

// code is the status of one request, which client-go would repeat.
func (w *world) code(t *testing.T, resource string) (code int) {
	t.Helper()
	_ = w.client.CoreV1().RESTClient().Get().Namespace(w.namespace).Resource(resource).MaxRetries(0).Do(t.Context()).StatusCode(&code)
	return code
}

// event is the next one, or none when the watch ends.
func event(t *testing.T, i watch.Interface) watch.Event {
	t.Helper()
	select {
	case e := <-i.ResultChan():
		return e
	case <-time.After(long):
		t.Fatal("no event")
	}
	return watch.Event{}
}

func wantAdded(t *testing.T, i watch.Interface, name, value string) {
	t.Helper()
	e := event(t, i)
	if object, ok := e.Object.(*corev1.ConfigMap); !ok || e.Type != watch.Added || object.Name != name || object.Data["value"] != value {
		t.Fatalf("%s %v; want %s added", e.Type, e.Object, name)
	}
}

// wantTooOld is the end that a watch has when it expires: the event, and nothing after it.
func wantTooOld(t *testing.T, i watch.Interface) {
	t.Helper()
	e := event(t, i)
	if err := apierrors.FromObject(e.Object); e.Type != watch.Error || !apierrors.IsResourceExpired(err) {
		t.Fatalf("%s %v; want an error, expired", e.Type, e.Object)
	}
	if e := event(t, i); e.Type != "" {
		t.Errorf("%v follows", e)
	}
}

// TestAnswers: only the requests for the named resources get the error, until it ends. Watches that are open go on.
func TestAnswers(t *testing.T) {
	w := newWorld(t, runtime.ContentTypeJSON)
	open := w.watch(t, w.version(t))
	busy := w.Answer(apierrors.NewTooManyRequests("later", 7), "configmaps", "endpointslices")
	denied := w.Answer(apierrors.NewUnauthorized("of a test"), "services")
	codes := func(want map[string]int) {
		t.Helper()
		for resource, code := range want {
			if got := w.code(t, resource); got != code {
				t.Errorf("%s: %d; want %d", resource, got, code)
			}
		}
	}
	codes(map[string]int{"configmaps": http.StatusTooManyRequests, "services": http.StatusUnauthorized, "secrets": http.StatusOK})
	if got := w.Replies(); got != 2 {
		t.Errorf("%d requests were answered, want 2", got)
	}
	path := "/apis/discovery.k8s.io/v1/namespaces/" + w.namespace + "/endpointslices"
	err := w.client.CoreV1().RESTClient().Get().AbsPath(path).MaxRetries(0).Do(t.Context()).Error()
	if after, ok := apierrors.SuggestsClientDelay(err); !ok || after != 7 {
		t.Errorf("%v; want one with a delay of 7 s", err)
	}
	w.put(t, "one", "1")
	wantAdded(t, open, "one", "1")
	busy()
	codes(map[string]int{"configmaps": http.StatusOK, "services": http.StatusUnauthorized})
	denied()
	codes(map[string]int{"services": http.StatusOK})
}

// TestWatchesExpire in both encodings in which client-go asks for the API's own kinds.
func TestWatchesExpire(t *testing.T) {
	for _, encoding := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(encoding, func(t *testing.T) {
			w := newWorld(t, encoding)
			old := w.version(t)
			first, second := w.watch(t, old), w.watch(t, old)
			large := strings.Repeat("large ", 100_000)
			w.put(t, "one", large)
			wantAdded(t, first, "one", large)
			wantAdded(t, second, "one", large)
			if n := w.Expire(); n != 2 {
				t.Errorf("%d watches expired, want 2", n)
			}
			wantTooOld(t, first)
			wantTooOld(t, second)
			wantTooOld(t, w.watch(t, old))
			third := w.watch(t, w.version(t))
			w.put(t, "two", "2")
			wantAdded(t, third, "two", "2")
		})
	}
}
