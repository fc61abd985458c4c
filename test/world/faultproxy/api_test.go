package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

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

// encodings are those in which client-go asks for the API's own kinds.
var encodings = []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf}

// world is an API server with an API before it.
type world struct {
	*API
	namespace    string
	token        *rest.Config // the editor's, past the API
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
	return &world{a, kube.Namespace(t, c), token, kubernetes.NewForConfigOrDie(a.Config(token)), kubernetes.NewForConfigOrDie(token)}
}

// put writes a ConfigMap past the API.
func (w *world) put(t *testing.T, name, value string) {
	t.Helper()
	maps := w.past.CoreV1().ConfigMaps(w.namespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
	if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) list(ctx context.Context) (*corev1.ConfigMapList, error) {
	return w.client.CoreV1().ConfigMaps(w.namespace).List(ctx, metav1.ListOptions{})
}

func (w *world) mustList(t *testing.T) *corev1.ConfigMapList {
	t.Helper()
	list, err := w.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
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

// once asks one time only, where client-go would try again.
func (w *world) once(t *testing.T, resource string) error {
	t.Helper()
	return w.client.CoreV1().RESTClient().Get().Namespace(w.namespace).Resource(resource).MaxRetries(0).Do(t.Context()).Error()
}

func event(t *testing.T, i watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, ok := <-i.ResultChan():
		if !ok {
			t.Fatal("the watch has ended")
		}
		return e
	case <-time.After(long):
		t.Fatal("no event")
	}
	return watch.Event{}
}

func wantAdded(t *testing.T, i watch.Interface, name, value string) {
	t.Helper()
	e := event(t, i)
	object, ok := e.Object.(*corev1.ConfigMap)
	if !ok || e.Type != watch.Added || object.Name != name || object.Data["value"] != value {
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
	status := e.Object.(*metav1.Status)
	if status.Code != http.StatusGone {
		t.Errorf("the code is %d", status.Code)
	}
	select {
	case e, ok := <-i.ResultChan():
		if ok {
			t.Errorf("%v follows", e)
		}
	case <-time.After(long):
		t.Error("the watch goes on")
	}
}

// eachEncoding runs a test with both.
func eachEncoding(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	for _, encoding := range encodings {
		t.Run(encoding, func(t *testing.T) { test(t, newWorld(t, encoding)) })
	}
}

func TestAPIPassesRequestsAndWatches(t *testing.T) {
	eachEncoding(t, func(t *testing.T, w *world) {
		i := w.watch(t, w.mustList(t).ResourceVersion)
		w.put(t, "small", "1")
		wantAdded(t, i, "small", "1") // at once, not when the watch ends
		large := strings.Repeat("large ", 100_000)
		w.put(t, "large", large)
		wantAdded(t, i, "large", large)
		if n := len(w.mustList(t).Items); n != 2 {
			t.Errorf("%d items", n) // of a reply that is compressed
		}
		made, err := w.client.CoreV1().ConfigMaps(w.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "through"}}, metav1.CreateOptions{})
		if err != nil || made.UID == "" {
			t.Errorf("%v, %v", made, err)
		}
		wantAdded(t, i, "through", "")
	})
}

// protocol looks at the replies.
type protocol struct {
	next http.RoundTripper
	seen chan<- string
}

func (p protocol) RoundTrip(r *http.Request) (*http.Response, error) {
	reply, err := p.next.RoundTrip(r)
	if err == nil {
		p.seen <- reply.Proto
	}
	return reply, err
}

func TestAPISpeaksHTTP2(t *testing.T) {
	w := newWorld(t, runtime.ContentTypeJSON)
	config, seen := w.Config(w.token), make(chan string, 1)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return protocol{next, seen} })
	if _, err := kubernetes.NewForConfigOrDie(config).Discovery().ServerVersion(); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "HTTP/2.0" {
		t.Errorf("it speaks %s", got)
	}
}

// TestIdentities: a token passes both, a certificate just what does not end TLS.
func TestIdentities(t *testing.T) {
	w, admin := newWorld(t, runtime.ContentTypeJSON), shared.Cluster(t).Config
	p := start(t, strings.TrimPrefix(admin.Host, "https://"))
	list := func(config *rest.Config) error {
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
		return err
	}
	for name, c := range map[string]struct {
		kubeconfig func(*rest.Config) ([]byte, error)
		config     func(*rest.Config) *rest.Config
		of         *rest.Config
	}{
		"a token past a Proxy":       {p.Kubeconfig, p.Config, w.token},
		"a certificate past a Proxy": {p.Kubeconfig, p.Config, admin},
		"a token past an API":        {w.Kubeconfig, w.Config, w.token},
	} {
		if err := list(c.config(c.of)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text, err := c.kubeconfig(c.of)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := list(config); err != nil {
			t.Errorf("%s, by its kubeconfig: %v", name, err)
		}
	}
	if err := list(w.Config(admin)); !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		t.Errorf("a certificate past an API: %v; want no identity", err)
	}
	if _, err := w.Kubeconfig(admin); !errors.Is(err, errNoIdentity) {
		t.Errorf("its kubeconfig: %v; want %v", err, errNoIdentity)
	}
	if err := list(p.Config(w.Config(w.token))); err == nil {
		t.Error("the API server was taken for the API")
	}
}

func TestAnswersAreGivenUntilTheyEnd(t *testing.T) {
	for name, c := range map[string]struct {
		with *apierrors.StatusError
		is   func(error) bool
		code int
	}{
		"too many requests": {apierrors.NewTooManyRequests("later", 7), apierrors.IsTooManyRequests, 429},
		"internal error":    {apierrors.NewInternalError(errors.New("of a test")), apierrors.IsInternalError, 500},
		"an expired token":  {apierrors.NewUnauthorized("Unauthorized"), apierrors.IsUnauthorized, 401},
	} {
		t.Run(name, func(t *testing.T) {
			eachEncoding(t, func(t *testing.T, w *world) {
				resume := w.Answer(c.with)
				err := w.once(t, "configmaps")
				var status *apierrors.StatusError
				if !c.is(err) || !errors.As(err, &status) || int(status.Status().Code) != c.code {
					t.Errorf("%v; want %d", err, c.code)
				}
				want, _ := apierrors.SuggestsClientDelay(c.with)
				if seconds, _ := apierrors.SuggestsClientDelay(err); seconds != want {
					t.Errorf("to be tried again after %d s, want %d", seconds, want)
				}
				if c.code != http.StatusTooManyRequests { // which client-go waits for
					if _, err := w.client.CoreV1().ConfigMaps(w.namespace).Watch(t.Context(), metav1.ListOptions{}); !c.is(err) {
						t.Errorf("a watch: %v; want %d", err, c.code)
					}
				}
				resume()
				w.mustList(t)
			})
		})
	}
}

func TestRetryAfterIsInTheHeader(t *testing.T) {
	w := newWorld(t, runtime.ContentTypeJSON)
	defer w.Answer(apierrors.NewTooManyRequests("later", 7))()
	client, err := rest.HTTPClientFor(w.Config(w.token))
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	reply, err := client.Get("https://" + w.Address() + "/version")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reply.Body.Close() }()
	if after := reply.Header.Get("Retry-After"); reply.StatusCode != 429 || after != "7" {
		t.Errorf("%s, Retry-After %q", reply.Status, after)
	}
}

func TestAnAnswerForSomeResourcesLeavesOthersAlone(t *testing.T) {
	w := newWorld(t, runtime.ContentTypeJSON)
	missing := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", corev1.Resource("configmaps"), "", "", 0, true)
	resume := w.Answer(missing, "configmaps", "namespaces")
	second := w.Answer(apierrors.NewInternalError(errors.New("of a test")), "services")
	for resource, is := range map[string]func(error) bool{
		"configmaps": apierrors.IsNotFound,
		"services":   apierrors.IsInternalError,
		"secrets":    func(err error) bool { return err == nil },
	} {
		if err := w.once(t, resource); !is(err) {
			t.Errorf("%s: %v", resource, err)
		}
	}
	if _, err := w.client.CoreV1().Namespaces().Get(t.Context(), w.namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace: %v; want not found", err)
	}
	resume()
	if err := errors.Join(w.once(t, "configmaps")); err != nil {
		t.Error(err)
	}
	if err := w.once(t, "services"); !apierrors.IsInternalError(err) {
		t.Errorf("services: %v", err)
	}
	second()
	if err := w.once(t, "services"); err != nil {
		t.Error(err)
	}
}

func TestResourceOfAPath(t *testing.T) {
	for path, want := range map[string]string{
		"/":                         "",
		"/version":                  "",
		"/api/v1":                   "",
		"/api/v1/namespaces":        "namespaces",
		"/api/v1/namespaces/a":      "namespaces",
		"/api/v1/services":          "services",
		"/api/v1/nodes/a/status":    "nodes",
		"/apis/discovery.k8s.io/v1": "",
		"/apis/discovery.k8s.io/v1/endpointslices":                "endpointslices",
		"/apis/discovery.k8s.io/v1/namespaces/a/endpointslices":   "endpointslices",
		"/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/b": "endpointslices",
	} {
		if got := resource(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestOpenWatchesOutliveAnAnswer: as with an API server, a token that expires is found out by the next request.
func TestOpenWatchesOutliveAnAnswer(t *testing.T) {
	w := newWorld(t, runtime.ContentTypeJSON)
	i := w.watch(t, w.mustList(t).ResourceVersion)
	defer w.Answer(apierrors.NewUnauthorized("Unauthorized"))()
	w.put(t, "one", "1")
	wantAdded(t, i, "one", "1")
	if n := w.Cut(); n == 0 {
		t.Error("nothing was cut")
	}
	select {
	case e, ok := <-i.ResultChan():
		if ok && e.Type != watch.Error { // client-go logs a broken connection
			t.Errorf("%v; want an end", e)
		}
	case <-time.After(long):
		t.Error("the watch goes on")
	}
	if err := w.once(t, "configmaps"); !apierrors.IsUnauthorized(err) {
		t.Errorf("%v; want unauthorized", err)
	}
}

func TestWatchesExpire(t *testing.T) {
	eachEncoding(t, func(t *testing.T, w *world) {
		old := w.mustList(t).ResourceVersion
		first, second := w.watch(t, old), w.watch(t, old)
		w.put(t, "one", "1")
		wantAdded(t, first, "one", "1")
		wantAdded(t, second, "one", "1")
		if n := w.Expire(); n != 2 {
			t.Errorf("%d watches expired, want 2", n)
		}
		wantTooOld(t, first)
		wantTooOld(t, second)
		wantTooOld(t, w.watch(t, old))
		if n := w.Expire(); n != 0 {
			t.Errorf("%d watches expired that had", n)
		}

		list := w.mustList(t)
		third := w.watch(t, list.ResourceVersion)
		w.put(t, "two", "2")
		wantAdded(t, third, "two", "2")
		if len(list.Items) != 1 {
			t.Errorf("%d items", len(list.Items))
		}
	})
}

// TestAWatchThatListsIsNeverTooOld: it asks for what there is first.
func TestAWatchThatListsIsNeverTooOld(t *testing.T) {
	w := newWorld(t, runtime.ContentTypeJSON)
	old := w.mustList(t).ResourceVersion
	w.put(t, "one", "1")
	w.Expire()
	i, err := w.client.CoreV1().ConfigMaps(w.namespace).Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: old, SendInitialEvents: new(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Stop()
	// "Not older than" the version of before: the server may begin with what was there then, and bring the object after the bookmark.
	seen := map[watch.EventType]int{}
	for range 2 {
		e := event(t, i)
		seen[e.Type]++
		if object, ok := e.Object.(*corev1.ConfigMap); !ok || e.Type == watch.Added && object.Name != "one" {
			t.Errorf("%s %v; want one added", e.Type, e.Object)
		}
	}
	if seen[watch.Added] != 1 || seen[watch.Bookmark] != 1 {
		t.Errorf("%v; want an object added, and a bookmark", seen)
	}
	after := w.watch(t, old) // the lister can continue
	wantAdded(t, after, "one", "1")
}

// TestAnInformerComesThrough: client-go's informer under each disturbance, and after it.
func TestAnInformerComesThrough(t *testing.T) {
	w := newWorld(t, runtime.ContentTypeProtobuf)
	lister := cache.NewListWatchFromClient(w.client.CoreV1().RESTClient(), "configmaps", w.namespace, fields.Everything())
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lister, ObjectType: &corev1.ConfigMap{}, Handler: cache.ResourceEventHandlerFuncs{},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(ctx)
	}()
	defer func() { cancel(); <-done }()

	n := 0
	inStep := func(after string) {
		t.Helper()
		n++
		w.put(t, fmt.Sprintf("map-%d", n), after)
		kube.Eventually(t, after, func() error {
			if have := len(store.List()); have != n {
				return fmt.Errorf("%d objects, want %d", have, n)
			}
			return nil
		})
	}
	inStep("nothing")
	w.Cut()
	inStep("a cut")
	w.Expire()
	inStep("expired watches")
	answered := make(chan struct{})
	once := sync.OnceFunc(func() { close(answered) })
	resume := w.Instead(about(nil), func(rw http.ResponseWriter, _ *http.Request) {
		once()
		rw.WriteHeader(http.StatusInternalServerError)
	})
	w.Cut()
	<-answered
	resume()
	inStep("an internal error")
	defer w.Slow(time.Millisecond)()
	inStep("slowness")
}

func TestHollowListsAreDetected(t *testing.T) {
	eachEncoding(t, func(t *testing.T, w *world) {
		if w.mustList(t).ResourceVersion == "" {
			t.Fatal("an empty list has no version: nothing tells it from a hollow one")
		}
		resume := w.Hollow("configmaps")
		list, err := w.list(t.Context())
		if err != nil || len(list.Items) > 0 || list.ResourceVersion != "" {
			t.Errorf("%v, %v; want nothing, and no error", list, err)
		}
		i := w.watch(t, "")
		if e, ok := <-i.ResultChan(); ok {
			t.Errorf("%v; want an end", e)
		}
		resume()
		if w.mustList(t).ResourceVersion == "" {
			t.Error("it is hollow still")
		}
	})
}

// TestConnectionsOfAnAPI: each disturbance of a Proxy, as client-go has it.
func TestConnectionsOfAnAPI(t *testing.T) {
	w := newWorld(t, runtime.ContentTypeJSON)
	impatient := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), short)
		defer cancel()
		_, err := w.list(ctx)
		return err
	}
	w.mustList(t)

	resume := w.Stall()
	if err := impatient(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stalled: %v; want silence", err)
	}
	resume()
	w.mustList(t)

	resume = w.Slow(short)
	if err := impatient(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("slow: %v; want a late reply", err)
	}
	w.mustList(t)
	resume()
	w.mustList(t)

	listen, err := w.Refuse()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.list(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused: %v; want %v", err, syscall.ECONNREFUSED)
	}
	if err := listen(); err != nil {
		t.Fatal(err)
	}
	w.mustList(t)

	w.Strand()
	if err := impatient(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stranded: %v; want silence", err)
	}
	fresh := w.Config(w.token)
	fresh.Dial = new(net.Dialer).DialContext // else client-go shares the connection that it has
	if _, err := kubernetes.NewForConfigOrDie(fresh).Discovery().ServerVersion(); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	c := shared.Cluster(t)
	token, _, err := c.ServiceAccount(t.Context(), "default", editor)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Before(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(a.Config(token))
	i, err := client.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Stop()
	if _, err := client.Discovery().ServerVersion(); err != nil { // over a connection that is idle then
		t.Fatal(err)
	}
	resume := a.Stall()
	defer resume()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", a.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, %v: somebody listens", conn, err)
	}
	kube.Eventually(t, "all goroutines end", func() error {
		var text strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
			return err
		}
		for _, ours := range []string{"fault.(*Proxy)", "fault.(*API)", "fault.(*stream)", "net/http.(*Server)", "net/http.(*persistConn)", "net/http.(*http2serverConn)"} {
			if strings.Contains(text.String(), ours) {
				return fmt.Errorf("%s in\n%s", ours, text.String())
			}
		}
		return nil
	})
}
