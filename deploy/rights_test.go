package deploy

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/plugin/watch"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// refusals are the requests that the API server forbade: "list serviceimports".
type refusals struct {
	mu   sync.Mutex
	seen map[string]bool
}

// wrap looks at each reply.
func (r *refusals) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && response.StatusCode == http.StatusForbidden {
			verb := "list"
			if request.URL.Query().Get("watch") != "" {
				verb = "watch"
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.seen[verb+" "+path.Base(request.URL.Path)] = true
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (r *refusals) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.seen))
}

// deaf hears nothing of what a watch says.
type deaf struct{}

func (deaf) Failed(string, error)                           {}
func (deaf) Problems(string, string, []watch.Problem, bool) {}
func (deaf) Recovered(string)                               {}
func (deaf) Absent(string)                                  {}
func (deaf) Published(int, int, bool)                       {}
func (deaf) Programmed(string, time.Duration)               {}

// TestPluginNeedsEachRight lets the plugin's watch run as accounts that have the shipped ClusterRole, and the same without one verb
// of one rule: the first syncs, and each of the others is refused what it lacks. The API server is one that cannot stream lists
// through a watch, as older ones cannot: others are asked for fewer lists.
func TestPluginNeedsEachRight(t *testing.T) {
	c := kube.New(t, kube.Options{APIServerFlags: []string{"--feature-gates=WatchList=false"}})
	kubectl(t, c, "apply", "-k", "deploy/crd")
	kubectl(t, c, "wait", "--for=condition=Established", "--all", "customresourcedefinitions")
	var shipped rbacv1.ClusterRole
	find(t, c, "deploy/plugin/rights", "ClusterRole", &shipped)

	t.Run("with all", func(t *testing.T) {
		bind(t, c, "all", shipped.Rules)
		w, forbidden := watchAs(t, c, "all", shipped.Rules, watch.Options{})
		syncs(t, w, forbidden)
	})
	for i, rule := range shipped.Rules {
		for j, verb := range rule.Verbs {
			resource := rule.Resources[0]
			t.Run(fmt.Sprintf("without %s of %s", verb, resource), func(t *testing.T) {
				less := shipped.DeepCopy().Rules
				less[i].Verbs = slices.Delete(less[i].Verbs, j, j+1)
				account := "no-" + verb + "-" + resource
				bind(t, c, account, less)
				_, forbidden := watchAs(t, c, account, less, watch.Options{})
				kube.Eventually(t, "be forbidden", func() error {
					if all := forbidden.all(); !slices.Equal(all, []string{verb + " " + resource}) {
						return fmt.Errorf("forbidden: %v", all)
					}
					return nil
				})
			})
		}
	}
}

// TestFewerRightsAreEnoughForLess: what the ClusterRole's comment and the plugin's manual say of `noendpoints` and `namespaces`.
func TestFewerRightsAreEnoughForLess(t *testing.T) {
	c := shared.Cluster(t)
	kubectl(t, c, "apply", "-k", "deploy/crd")
	kubectl(t, c, "wait", "--for=condition=Established", "--all", "customresourcedefinitions")
	var shipped rbacv1.ClusterRole
	find(t, c, "deploy/plugin/rights", "ClusterRole", &shipped)

	t.Run("noendpoints needs the first rule only", func(t *testing.T) {
		bind(t, c, "imports-only", shipped.Rules[:1])
		w, forbidden := watchAs(t, c, "imports-only", shipped.Rules[:1], watch.Options{NoEndpoints: true})
		syncs(t, w, forbidden)
	})
	t.Run("namespaces needs a Role in each", func(t *testing.T) {
		const name = "some-namespaces"
		namespaces := []string{kube.Namespace(t, c), kube.Namespace(t, c)}
		kubectl(t, c, "apply", "-k", "deploy/plugin/rights")
		for _, namespace := range namespaces {
			kubectl(t, c, "create", "rolebinding", name, "--namespace="+namespace, "--clusterrole=multicluster-dns", "--serviceaccount=default:"+name)
		}
		w, forbidden := watchAs(t, c, name, shipped.Rules, watch.Options{Namespaces: namespaces})
		syncs(t, w, forbidden)
	})
}

// syncs waits until a watch has synced, without being forbidden anything.
func syncs(t *testing.T, w *watch.Watch, forbidden *refusals) {
	t.Helper()
	kube.Eventually(t, "sync", func() error {
		if v := w.View(); v == nil || !v.Whole() {
			return fmt.Errorf("not yet; forbidden: %v", forbidden.all())
		}
		return nil
	})
	if all := forbidden.all(); len(all) > 0 {
		t.Errorf("forbidden: %v", all)
	}
}

// hasRights waits until an account has its rights in a namespace, or in all: the API server hears of a new binding a moment after it
// was stored.
func hasRights(t *testing.T, account *rest.Config, namespace string, rules []rbacv1.PolicyRule) {
	t.Helper()
	reviews := kubernetes.NewForConfigOrDie(account).AuthorizationV1().SelfSubjectAccessReviews()
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			asked := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: rule.APIGroups[0], Resource: rule.Resources[0]}
			kube.Eventually(t, "be allowed to "+verb+" "+asked.Resource, func() error {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &asked}}
				review, err := reviews.Create(t.Context(), review, metav1.CreateOptions{})
				if err == nil && !review.Status.Allowed {
					err = fmt.Errorf("not yet: %s", review.Status.Reason)
				}
				return err
			})
		}
	}
}

// bind gives an account rights everywhere, until the test's end.
func bind(t *testing.T, c *kube.Cluster, account string, rules []rbacv1.PolicyRule) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(c.Config).RbacV1()
	meta := metav1.ObjectMeta{Name: account}
	if _, err := client.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: account}},
	}
	if _, err := client.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = client.ClusterRoleBindings().Delete(ctx, account, metav1.DeleteOptions{})
		_ = client.ClusterRoles().Delete(ctx, account, metav1.DeleteOptions{})
	})
}

// watchAs runs the plugin's watch until the test's end, as an account that was given these rights, in the watch's namespaces or everywhere.
func watchAs(t *testing.T, c *kube.Cluster, account string, rules []rbacv1.PolicyRule, o watch.Options) (*watch.Watch, *refusals) {
	t.Helper()
	config, _, err := c.ServiceAccount(t.Context(), "default", account)
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range o.Namespaces {
		hasRights(t, config, namespace, rules)
	}
	if len(o.Namespaces) == 0 {
		hasRights(t, config, metav1.NamespaceAll, rules)
	}
	forbidden := &refusals{seen: map[string]bool{}}
	config.Wrap(forbidden.wrap)
	w, err := watch.New(config, o, deaf{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(t.Context())
	}()
	t.Cleanup(func() { <-done })
	return w, forbidden
}
