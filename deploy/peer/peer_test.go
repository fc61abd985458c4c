package peer

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/internal/walls"
)

func TestImports(t *testing.T) {
	walls.Pure(t, "embed", "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured", "sigs.k8s.io/yaml")
}

// names lists objects as kind namespace/name.
func names(all []*unstructured.Unstructured) string {
	var text []string
	for _, object := range all {
		text = append(text, fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName()))
	}
	return strings.Join(text, ", ")
}

// typed fills a typed object. A field that the type does not have fails the test.
func typed(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
}

func TestObjectsAreInTheOrderToApply(t *testing.T) {
	const want = "ServiceAccount " + Namespace + "/" + Account + ", ClusterRole /" + Account + ", ClusterRoleBinding /" + Account +
		", Role " + Namespace + "/" + Account + ", RoleBinding " + Namespace + "/" + Account
	if got := names(Objects()); got != want {
		t.Errorf("the objects are %s, want %s", got, want)
	}
}

// TestReaderHasItsOwnAccount: every name in the objects is that of the reader, except the ClusterRole. A number is an ID like any other.
func TestReaderHasItsOwnAccount(t *testing.T) {
	for _, id := range []string{"member2", "eu.prod.example", "12", "0x1f", "true", strings.Repeat("a", 63)} {
		all, err := Reader(id)
		if err != nil {
			t.Fatal(err)
		}
		name := Account + "-" + id
		if got, want := names(all), fmt.Sprintf("ServiceAccount %[1]s/%[2]s, ClusterRoleBinding /%[2]s, Role %[1]s/%[2]s, RoleBinding %[1]s/%[2]s", Namespace, name); got != want {
			t.Errorf("the objects are %s, want %s", got, want)
		}
		var (
			account corev1.ServiceAccount
			reads   rbacv1.ClusterRoleBinding
			role    rbacv1.Role
			renews  rbacv1.RoleBinding
		)
		for i, into := range []any{&account, &reads, &role, &renews} {
			typed(t, all[i], into)
			if got := all[i].GetLabels()[LabelReader]; got != id {
				t.Errorf("%s has the label %q, want %q", all[i].GetKind(), got, id)
			}
		}
		if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
			t.Error("a pod with the account gets its token")
		}
		subject := fmt.Sprint([]rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: Namespace}})
		if got := fmt.Sprint(reads.Subjects); got != subject || reads.RoleRef.Kind != "ClusterRole" || reads.RoleRef.Name != Account {
			t.Errorf("%v is bound to %v", got, reads.RoleRef)
		}
		if got := fmt.Sprint(renews.Subjects); got != subject || renews.RoleRef.Kind != "Role" || renews.RoleRef.Name != name {
			t.Errorf("%v is bound to %v", got, renews.RoleRef)
		}
		want := []rbacv1.PolicyRule{
			{Verbs: []string{"list", "watch"}, APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{member.Name}},
			{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{name}},
		}
		if got := fmt.Sprint(role.Rules); got != fmt.Sprint(want) {
			t.Errorf("the rules are %v, want %v", got, want)
		}
	}
}

func TestTokenSecret(t *testing.T) {
	object, err := TokenSecret("12")
	if err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	typed(t, object, &secret)
	if secret.Type != corev1.SecretTypeServiceAccountToken || secret.Namespace != Namespace || secret.Name != ReaderName("12") {
		t.Errorf("Secret %s/%s of type %s", secret.Namespace, secret.Name, secret.Type)
	}
	if secret.Annotations[corev1.ServiceAccountNameKey] != Account || secret.Labels[LabelReader] != "12" {
		t.Errorf("annotations %v, labels %v", secret.Annotations, secret.Labels)
	}
}

// TestInvalidIDsAreRefused: nothing of an ID can become YAML.
func TestInvalidIDsAreRefused(t *testing.T) {
	for _, id := range []string{"", "READER", "Member2", "a_b", "-a", "a.", "a..b", "a\n---\nkind: Secret", "a: b", `a"`, "a #", strings.Repeat("a", 64)} {
		if all, err := Reader(id); err == nil || len(all) > 0 {
			t.Errorf("Reader(%q) gives %s", id, names(all))
		}
		if secret, err := TokenSecret(id); err == nil || secret != nil {
			t.Errorf("TokenSecret(%q) gives an object", id)
		} else if !strings.HasPrefix(err.Error(), fmt.Sprintf("grant access to reader %q: the cluster ID is", id)) {
			t.Error(err)
		}
	}
}
