package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
)

// right is what a command needs.
type right struct {
	verb, group, resource, namespace string
	command                          string
	// writes is true if only a command that writes needs it.
	writes bool
}

func (r right) String() string {
	text := r.verb + " " + r.resource
	if r.group != "" {
		text += "." + r.group
	}
	if r.namespace != "" {
		text += " in " + r.namespace
	}
	return text
}

const (
	groupMCS  = "multicluster.x-k8s.io"
	groupRBAC = "rbac.authorization.k8s.io"

	groupLease = "coordination.k8s.io"
)

// usage are the rights for the other commands, each once, by the first command that needs it.
var usage = slices.Concat(reading, writing, linking("get", "create", "patch", "delete"))

// reading are the rights of commands that only read.
var reading = []right{
	{verb: "get", resource: "namespaces", command: "status"},
	{verb: "list", resource: "secrets", namespace: system.Namespace, command: "status"},
	{verb: "list", group: groupLease, resource: "leases", namespace: system.Namespace, command: "status"},
	{verb: "get", group: groupLease, resource: "leases", namespace: system.Namespace, command: "status"},
	{verb: "get", group: "apps", resource: "deployments", namespace: system.Namespace, command: "status"},
	{verb: "list", group: groupMCS, resource: "serviceexports", command: "status"},
	{verb: "list", group: groupMCS, resource: "serviceimports", command: "status"},
	{verb: "list", group: "apps", resource: "deployments", namespace: system.Namespace, command: "status"},
	{verb: "get", group: "apiextensions.k8s.io", resource: "customresourcedefinitions", command: "check"},
	{verb: "list", resource: "nodes", command: "check"},
	{verb: "list", group: "networking.k8s.io", resource: "servicecidrs", command: "check"},
	{verb: "get", resource: "configmaps", namespace: metav1.NamespaceSystem, command: "check"},
	{verb: "list", group: "apps", resource: "deployments", namespace: metav1.NamespaceSystem, command: "check"},
	{verb: "list", group: "apps", resource: "daemonsets", namespace: metav1.NamespaceSystem, command: "check"},
	{verb: "list", resource: "pods", command: "explain"},
	{verb: "get", resource: "pods", command: "explain"},
	{verb: "get", resource: "services", command: "explain"},
	{verb: "get", group: groupMCS, resource: "serviceexports", command: "explain"},
	{verb: "get", group: groupMCS, resource: "serviceimports", command: "explain"},
	{verb: "list", group: "discovery.k8s.io", resource: "endpointslices", command: "explain"},
	{verb: "create", resource: portForward, namespace: metav1.NamespaceSystem, command: "explain"},
	{verb: "create", resource: portForward, namespace: system.Namespace, command: "explain"},
	{verb: "create", resource: portForward, namespace: secondDNS, command: "explain"},
	{verb: "get", resource: "pods/log", namespace: system.Namespace, command: "gather"},
	{verb: "list", resource: "events", namespace: system.Namespace, command: "gather"},
}

const portForward = "pods/portforward"

// writing are the rights of commands that write, without those for links.
var writing = []right{
	{verb: "create", group: groupMCS, resource: "serviceexports", command: "export", writes: true},
	{verb: "list", resource: "services", command: "export", writes: true},
	{verb: "delete", group: groupMCS, resource: "serviceexports", command: "unexport", writes: true},
	{verb: "create", resource: "namespaces", command: "verify", writes: true},
	{verb: "list", resource: "namespaces", command: "verify", writes: true},
	{verb: "delete", resource: "namespaces", command: "verify", writes: true},
	{verb: "create", resource: "pods", command: "verify", writes: true},
	{verb: "create", resource: "services", command: "verify", writes: true},
	{verb: "create", resource: "pods/exec", command: "verify", writes: true},
}

// linking are the rights for links: those with these verbs for each kind of the objects of deploy/peer,
// which are created by server-side apply, and a few others.
func linking(verbs ...string) []right {
	all := []right{
		{verb: "create", resource: "serviceaccounts/token", namespace: system.Namespace, command: "join", writes: true},
		{verb: "patch", group: groupLease, resource: "leases", namespace: system.Namespace, command: "leave", writes: true},
		{verb: "list", resource: "serviceaccounts", namespace: system.Namespace, command: "leave", writes: true},
	}
	for _, verb := range verbs {
		command := "join"
		if verb == "delete" {
			command = "leave"
		}
		all = append(all,
			right{verb: verb, resource: "secrets", namespace: system.Namespace, command: command, writes: true},
			right{verb: verb, resource: "serviceaccounts", namespace: system.Namespace, command: command, writes: true},
			right{verb: verb, group: groupRBAC, resource: "roles", namespace: system.Namespace, command: command, writes: true},
			right{verb: verb, group: groupRBAC, resource: "rolebindings", namespace: system.Namespace, command: command, writes: true},
			right{verb: verb, group: groupRBAC, resource: "clusterroles", command: command, writes: true},
			right{verb: verb, group: groupRBAC, resource: "clusterrolebindings", command: command, writes: true},
		)
	}
	return all
}

// installation are the rights to install.
var installation = []right{
	{verb: "create", group: "apiextensions.k8s.io", resource: "customresourcedefinitions", command: "install"},
	{verb: "create", resource: "namespaces", command: "install"},
	{verb: "create", group: groupRBAC, resource: "clusterroles", command: "install"},
	{verb: "create", group: groupRBAC, resource: "clusterrolebindings", command: "install"},
	{verb: "create", group: groupRBAC, resource: "roles", namespace: system.Namespace, command: "install"},
	{verb: "create", group: groupRBAC, resource: "rolebindings", namespace: system.Namespace, command: "install"},
	{verb: "create", resource: "serviceaccounts", namespace: system.Namespace, command: "install"},
	{verb: "create", group: "apps", resource: "deployments", namespace: system.Namespace, command: "install"},
	{verb: "create", resource: "services", namespace: system.Namespace, command: "install"},
	{verb: "create", resource: "configmaps", namespace: system.Namespace, command: "install"},
	{verb: "create", resource: "secrets", namespace: system.Namespace, command: "install"},
	{verb: "patch", resource: "configmaps", namespace: metav1.NamespaceSystem, command: "install"},
}

// deniedRights asks for each right by a SelfSubjectAccessReview, which every user can create and which
// stores nothing.
func deniedRights(ctx context.Context, kube kubernetes.Interface, pre bool) ([]right, error) {
	all := usage
	if pre {
		all = installation
	}
	allowed := make([]bool, len(all))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(requests)
	for i, r := range all {
		asking.Go(func() error {
			resource, sub, _ := strings.Cut(r.resource, "/")
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: r.verb, Group: r.group, Resource: resource, Subresource: sub, Namespace: r.namespace},
			}}
			answer, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("ask whether the user may %s: %w", r, err)
			}
			allowed[i] = answer.Status.Allowed
			return nil
		})
	}
	if err := asking.Wait(); err != nil {
		return nil, err
	}
	var denied []right
	for i, r := range all {
		if !allowed[i] {
			denied = append(denied, r)
		}
	}
	return denied, nil
}

func (f *facts) checkRights(pre bool) Check {
	c := Check{ID: Rights, Cluster: f.context}
	if f.denied.err != nil {
		return c.unknown(f.denied.err)
	}
	denied := slices.DeleteFunc(slices.Clone(f.denied.value), f.elsewhere)
	if len(denied) == 0 {
		return c.ok("the user has all rights that the commands need")
	}
	c.Result = Warning
	var texts []string
	for _, r := range denied {
		texts = append(texts, fmt.Sprintf("%s (%s)", r, r.command))
		if !r.writes {
			c.Result = Failed
		}
	}
	c.Detail = "the user may not: " + output.List(texts, 6)
	c.Advice = "Use a context of a user with these rights, or grant them with a ClusterRole."
	if pre {
		c.Advice = "Install with a user who has these rights, such as an administrator."
	}
	first := denied[0]
	words := []string{"auth", "can-i", first.verb, strings.TrimSuffix(first.resource+"."+first.group, ".")}
	if resource, sub, ok := strings.Cut(first.resource, "/"); ok {
		words = []string{"auth", "can-i", first.verb, resource, "--subresource", sub}
	}
	if first.namespace != "" {
		words = append(words, "--namespace", first.namespace)
	}
	c.Advice += " To see one: " + output.Kubectl(f.context, words...)
	return c
}

// elsewhere reports whether a right is for a second CoreDNS in a namespace where it does not run.
func (f *facts) elsewhere(r right) bool {
	if r.resource != portForward || r.namespace == metav1.NamespaceSystem || f.second.err != nil {
		return false
	}
	return f.second.value == nil || f.second.value.Namespace != r.namespace
}

func (c Check) ok(detail string) Check {
	c.Result, c.Detail = OK, detail
	return c
}

func (c Check) unknown(err error) Check {
	c.Result, c.Detail = Unknown, err.Error()
	return c
}

// is sets the result, the detail and the commands that fix it.
func (c Check) is(r Result, detail string, fix ...string) Check {
	c.Result, c.Detail, c.Fix = r, detail, fix
	return c
}

func (c Check) advise(text string) Check {
	c.Advice = text
	return c
}
