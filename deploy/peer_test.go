package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/test/kube"
)

const (
	peerBase       = "deploy/peer"
	system         = "multicluster-system"
	peerAccount    = "multicluster-peer"
	mcsGroup       = "multicluster.x-k8s.io"
	discoveryGroup = "discovery.k8s.io"
)

// readable are the resources that a peer may read in all namespaces. Beside them, it may read one Lease.
var readable = []schema.GroupVersionResource{
	{Group: mcsGroup, Version: "v1beta1", Resource: "serviceexports"},
	{Group: discoveryGroup, Version: "v1", Resource: "endpointslices"},
}

// announced selects the Lease by which a cluster announces itself.
var (
	leases    = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	announced = metav1.ListOptions{FieldSelector: "metadata.name=" + member.Name}
)

// installPeer makes what a peer's account needs, and that of the CRDs and the controller that it stands on.
func installPeer(t *testing.T, c *kube.Cluster) {
	t.Helper()
	kubectl(t, c, "apply", "-k", "deploy/crd")
	kubectl(t, c, "wait", "--for=condition=Established", "--all", "customresourcedefinitions")
	kubectl(t, c, "apply", "-k", "deploy/controller")
	kubectl(t, c, "apply", "-k", peerBase)
}

// rights returns what the API server permits an account: a verb and a resource, or a path.
func rights(t *testing.T, config *rest.Config) map[string]bool {
	t.Helper()
	reviews := kubernetes.NewForConfigOrDie(config).AuthorizationV1().SelfSubjectRulesReviews()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: system}}
	review, err := reviews.Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil || review.Status.Incomplete {
		t.Fatalf("the rules are not known: %v, %+v", err, review)
	}
	all := map[string]bool{}
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all[verb+" "+resource+"."+group+" "+strings.Join(rule.ResourceNames, ",")] = true
				}
			}
		}
	}
	for _, rule := range review.Status.NonResourceRules {
		all[strings.Join(rule.Verbs, ",")+" "+strings.Join(rule.NonResourceURLs, ",")] = true
	}
	return all
}

// TestPeerMayReadWhatItNeedsOnly compares the account with one that nothing is bound to, which may ask for discovery and for its own
// rights: no more than list and watch of two resources, and of one Lease in the controller's namespace, is between them.
func TestPeerMayReadWhatItNeedsOnly(t *testing.T) {
	c := shared.Cluster(t)
	installPeer(t, c)
	peer, _, err := c.ServiceAccount(t.Context(), system, peerAccount)
	if err != nil {
		t.Fatal(err)
	}
	nobody, _, err := c.ServiceAccount(t.Context(), system, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	want := readerRights(t, nobody)
	kube.Eventually(t, "the peer has its rights and no more", func() error {
		if got := rights(t, peer); !maps.Equal(got, want) {
			return fmt.Errorf("it may %q\nwant %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		return nil
	})
	reads(t, peer)
	isRefused(t, peer)
}

// readerRights are those of an account that nothing is bound to, and of a peer.
func readerRights(t *testing.T, nobody *rest.Config) map[string]bool {
	t.Helper()
	all := rights(t, nobody)
	for _, r := range readable {
		all["list "+r.Resource+"."+r.Group+" "], all["watch "+r.Resource+"."+r.Group+" "] = true, true
	}
	one := leases.Resource + "." + leases.Group + " " + member.Name
	all["list "+one], all["watch "+one] = true, true
	return all
}

// reads lists and watches all that a peer may read.
func reads(t *testing.T, config *rest.Config) {
	t.Helper()
	client := dynamic.NewForConfigOrDie(config)
	for _, r := range readable {
		read(t, client.Resource(r), metav1.ListOptions{})
	}
	read(t, client.Resource(leases).Namespace(system), announced)
}

func read(t *testing.T, from dynamic.ResourceInterface, o metav1.ListOptions) {
	t.Helper()
	if _, err := from.List(t.Context(), o); err != nil {
		t.Errorf("list: %v", err)
	}
	w, err := from.Watch(t.Context(), o)
	if err != nil {
		t.Errorf("watch: %v", err)
		return
	}
	w.Stop()
}

// isRefused asks for what a peer may not have: Secrets, the others of the API's own kinds, and to write.
func isRefused(t *testing.T, config *rest.Config) {
	t.Helper()
	ctx, client := t.Context(), kubernetes.NewForConfigOrDie(config)
	imports := schema.GroupVersionResource{Group: mcsGroup, Version: "v1beta1", Resource: "serviceimports"}
	outcome := func(_ any, err error) error { return err }
	for what, err := range map[string]error{
		"list Secrets":          outcome(client.CoreV1().Secrets(system).List(ctx, metav1.ListOptions{})),
		"list ConfigMaps":       outcome(client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})),
		"list Pods":             outcome(client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})),
		"list ServiceImports":   outcome(dynamic.NewForConfigOrDie(config).Resource(imports).List(ctx, metav1.ListOptions{})),
		"list Services":         outcome(client.CoreV1().Services("").List(ctx, metav1.ListOptions{})),
		"list Namespaces":       outcome(client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})),
		"list all Leases":       outcome(client.CoordinationV1().Leases(system).List(ctx, metav1.ListOptions{})),
		"list Leases elsewhere": outcome(client.CoordinationV1().Leases("").List(ctx, announced)),
		"create a Service":      outcome(client.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})),
		"delete a Namespace":    client.CoreV1().Namespaces().Delete(ctx, system, metav1.DeleteOptions{}),
		"delete EndpointSlices": client.DiscoveryV1().EndpointSlices("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v; want forbidden", what, err)
		}
	}
}

// TestPeerIsBoundToItsAccount: the names in the base fit. They are decoded strictly.
func TestPeerIsBoundToItsAccount(t *testing.T) {
	c := shared.Cluster(t)
	var (
		account corev1.ServiceAccount
		role    rbacv1.ClusterRole
		binding rbacv1.ClusterRoleBinding
	)
	find(t, c, peerBase, "ServiceAccount", &account)
	find(t, c, peerBase, "ClusterRole", &role)
	find(t, c, peerBase, "ClusterRoleBinding", &binding)
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: account.Namespace}
	if !slices.Equal(binding.Subjects, []rbacv1.Subject{subject}) || binding.RoleRef.Name != role.Name {
		t.Errorf("%v is bound to %v; want %v to %s", binding.Subjects, binding.RoleRef, subject, role.Name)
	}
	if account.Name != peerAccount || account.Namespace != system || account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
		t.Errorf("the account is %s/%s, and pods get its token: %v", account.Namespace, account.Name, account.AutomountServiceAccountToken)
	}
}

// TestLeavingPeerRemovesNothingOfOthers: what deploy/controller has made stays, its namespace above all.
func TestLeavingPeerRemovesNothingOfOthers(t *testing.T) {
	c := shared.Cluster(t)
	for _, object := range render(t, c, peerBase) {
		for _, other := range render(t, c, "deploy/controller") {
			if object.GetKind() == other.GetKind() && object.GetName() == other.GetName() {
				t.Errorf("%s %s is in both bases", object.GetKind(), object.GetName())
			}
		}
		if object.GetKind() == "Namespace" {
			t.Errorf("deleting %s would delete the namespace %s", peerBase, object.GetName())
		}
	}
}
