package reconcile

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/test/kube"
)

func clusterID(value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "about.k8s.io/v1", "kind": "ClusterProperty",
		"metadata": map[string]any{"name": idProperty}, "spec": map[string]any{"value": value},
	}}
}

// installAbout installs the CRD and waits until it is served.
func installAbout(t *testing.T, c *kube.Cluster) client.Client {
	t.Helper()
	if err := c.Apply(t.Context(), "", kube.AboutCRD); err != nil {
		t.Fatal(err)
	}
	var admin client.Client
	kube.Eventually(t, "serve ClusterProperties", func() (err error) {
		if admin, err = client.New(c.Config, client.Options{}); err != nil {
			return err
		}
		if err := admin.Get(t.Context(), client.ObjectKey{Name: idProperty}, clusterID("")); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), idProperty) {
			return fmt.Errorf("they are not: %w", err)
		}
		return nil
	})
	return admin
}

// The client returns a refused list of API groups as an empty one. That does not mean that the
// cluster has no ID.
func TestEmptyDiscoveryIsAnError(t *testing.T) {
	for body, want := range map[string]bool{
		`{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`: false,
		`{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}], "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}]}`: true,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path == "/api" {
				_, _ = io.WriteString(w, `{"kind": "APIVersions", "versions": ["v1"]}`)
				return
			}
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(server.Close)
		identity, err := NewIdentity(&rest.Config{Host: server.URL}, "", "")
		if err != nil {
			t.Fatal(err)
		}
		if id, err := identity.Find(t.Context()); id != "" || (err == nil) != want {
			t.Errorf("%s: the id is %q, and the error %v", body, id, err)
		}
	}
}

// A failed name is tried again after at most 30 seconds.
func TestRetriesAreNeverFarApart(t *testing.T) {
	limiter := newLimiter()
	var request ctrl.Request
	var wait time.Duration
	for range 100 {
		wait = limiter.When(request)
	}
	if wait != 30*time.Second {
		t.Errorf("after 100 failures it is tried again after %v", wait)
	}
}

// C50, C51, C53: the ID is that of the flag, otherwise that of the ClusterProperty. It must be
// valid.
func TestIdentity(t *testing.T) {
	cluster := kube.New(t, kube.Options{})
	for _, bad := range []string{"Not-An-Id", "under_score", strings.Repeat("a", 64)} {
		if _, err := NewIdentity(cluster.Config, bad, ""); err == nil || !strings.Contains(err.Error(), "--cluster-id") {
			t.Errorf("flag %q gives %v", bad, err)
		}
	}
	identity, err := NewIdentity(cluster.Config, "", "")
	if err != nil {
		t.Fatal(err)
	}
	finds := func(want string) error {
		id, err := identity.Find(t.Context())
		if err == nil && id != want {
			err = fmt.Errorf("the id is %q; want %q", id, want)
		}
		return err
	}
	if err := finds(""); err != nil {
		t.Error("without the CRD:", err)
	}
	admin := installAbout(t, cluster)
	kube.Eventually(t, "without the property", func() error { return finds("") })
	property := clusterID("one.registry")
	if err := admin.Create(t.Context(), property); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "C45: an id of two labels", func() error { return finds("one.registry") })
	if named, err := NewIdentity(cluster.Config, "flag", ""); err != nil {
		t.Error(err)
	} else if id, err := named.Find(t.Context()); id != "flag" || err != nil {
		t.Errorf("with a flag: %q, %v", id, err)
	}

	// C40: a changed ID means another member, so the process restarts.
	watch := &idWatch{identity, "one.registry", 10 * time.Millisecond}
	ended := make(chan error, 1)
	go func() { ended <- watch.Start(t.Context()) }()
	if err := unstructured.SetNestedField(property.Object, "two", "spec", "value"); err != nil {
		t.Fatal(err)
	}
	if err := admin.Update(t.Context(), property); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ErrIDChanged) {
		t.Errorf("it ended with %v", err)
	}
	if err := unstructured.SetNestedField(property.Object, "Not_An_Id", "spec", "value"); err != nil {
		t.Fatal(err)
	}
	if err := admin.Update(t.Context(), property); err != nil {
		t.Fatal(err)
	}
	if err := finds(""); err == nil || !strings.Contains(err.Error(), "ClusterProperty") {
		t.Errorf("a value that is no id gives %v", err)
	}
}

// The properties are those of the flag, otherwise those of the ClusterProperties. What no label can
// have is left out, with a note.
func TestProperties(t *testing.T) {
	cluster := kube.New(t, kube.Options{})
	for flag, says := range map[string]string{
		"region":                                "want KEY=VALUE",
		"region=eu":                             "want a key with a domain",
		"topology.kubernetes.io/a=":             "the value is empty",
		"a=b c":                                 "want KEY=VALUE",
		"example.com/re/gion=eu":                "want KEY=VALUE",
		manyProperties():                        "33 properties, want at most 32",
		"a." + strings.Repeat("b.", 40) + "c=d": "want KEY=VALUE",
	} {
		if _, err := NewIdentity(cluster.Config, "", flag); err == nil || !strings.Contains(err.Error(), "--cluster-properties: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("flag %.40q: %v, want %q", flag, err, says)
		}
	}
	identity, err := NewIdentity(cluster.Config, "", "")
	if err != nil {
		t.Fatal(err)
	}
	finds := func(i *Identity, want string, left int) error {
		p, err := i.readProperties(t.Context())
		if got := labels.Set(p.all).String(); err == nil && (got != want || len(p.notes) != left) {
			err = fmt.Errorf("%q with the notes %q; want %q", got, p.notes, want)
		}
		return err
	}
	if err := finds(identity, "", 0); err != nil {
		t.Error("without the CRD:", err)
	}
	admin := installAbout(t, cluster)
	for name, value := range map[string]string{
		idProperty: "one", "clusterset.k8s.io": "set", "region.topology.kubernetes.io": " eu\n", "tier.example.com": "gold",
		"long.example.com": strings.Repeat("x", 64), "odd.example.com": "a b", "empty.example.com": "",
	} {
		property := clusterID(value)
		property.SetName(name)
		if err := admin.Create(t.Context(), property); err != nil {
			t.Fatal(err)
		}
	}
	kube.Eventually(t, "ClusterProperties", func() error {
		return finds(identity, "region.topology.kubernetes.io=eu,tier.example.com=gold", 3)
	})
	flag, err := NewIdentity(cluster.Config, "", "topology.kubernetes.io/region=us,zone.example.com=a")
	if err != nil {
		t.Fatal(err)
	}
	if err := finds(flag, "region.topology.kubernetes.io=us,zone.example.com=a", 0); err != nil {
		t.Error("with a flag:", err)
	}
}

func manyProperties() string {
	var all []string
	for i := range maxProperties + 1 {
		all = append(all, fmt.Sprintf("p%d.example.com=x", i))
	}
	return strings.Join(all, ",")
}
