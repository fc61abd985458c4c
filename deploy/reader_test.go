package deploy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/deploy/peer"
	"github.com/clusterset-dns/multicluster/deploy/renew"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// applied applies objects as a Go program does, with strict validation.
func applied(t *testing.T, c *kube.Cluster, all ...*unstructured.Unstructured) {
	t.Helper()
	to, err := client.New(c.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	to = client.WithFieldValidation(to, client.FieldValidation(metav1.FieldValidationStrict))
	for _, object := range all {
		if err := to.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			t.Fatalf("apply %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// readerObjects returns the account of one reader.
func readerObjects(t *testing.T, id string) []*unstructured.Unstructured {
	t.Helper()
	all, err := peer.Reader(id)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPackagesHaveTheObjectsOfTheirBases: a Go program and kubectl install the same.
func TestPackagesHaveTheObjectsOfTheirBases(t *testing.T) {
	for base, objects := range map[string][]*unstructured.Unstructured{peerBase: peer.Objects(), "deploy/renew": renew.Objects()} {
		want, got := map[string]string{}, map[string]string{}
		for _, object := range render(t, shared.Cluster(t), base) {
			want[object.GetKind()] = fmt.Sprint(object.Object)
		}
		for _, object := range objects {
			got[object.GetKind()] = fmt.Sprint(object.Object)
		}
		if len(want) < 2 || !maps.Equal(got, want) {
			t.Errorf("%s: the package has %v\nthe base has %v", base, got, want)
		}
	}
}

// TestReaderRenewsItsOwnTokenOnly: an account of one reader has the rights of the shared account, and in addition creates tokens of itself.
func TestReaderRenewsItsOwnTokenOnly(t *testing.T) {
	c := kube.New(t, kube.Options{})
	kubectl(t, c, "apply", "-k", "deploy/crd")
	kubectl(t, c, "wait", "--for=condition=Established", "--all", "customresourcedefinitions")
	kubectl(t, c, "apply", "-k", "deploy/controller")
	applied(t, c, peer.Objects()...)
	applied(t, c, append(readerObjects(t, "member2"), readerObjects(t, "member3")...)...)

	accounts := kubernetes.NewForConfigOrDie(c.Config).CoreV1().ServiceAccounts(system)
	token := newToken(t, accounts.CreateToken, peer.ReaderName("member2"))
	reader := rest.AnonymousClientConfig(c.Config)
	reader.BearerToken = token
	nobody, _, err := c.ServiceAccount(t.Context(), system, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	want := readerRights(t, nobody)
	want["create serviceaccounts/token. "+peer.ReaderName("member2")] = true
	kube.Eventually(t, "the reader has its rights and no more", func() error {
		if got := rights(t, reader); !maps.Equal(got, want) {
			return fmt.Errorf("it may %q\nwant %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		return nil
	})
	reads(t, reader)
	isRefused(t, reader)

	own := kubernetes.NewForConfigOrDie(reader).CoreV1()
	renewed := rest.CopyConfig(reader)
	renewed.BearerToken = newToken(t, own.ServiceAccounts(system).CreateToken, peer.ReaderName("member2"))
	if renewed.BearerToken == token {
		t.Error("the new token is the old one")
	}
	reads(t, renewed)
	for _, of := range []struct{ namespace, name string }{
		{system, peer.ReaderName("member3")}, {system, peer.Account}, {system, "multicluster-controller"}, {system, "nobody"}, {"kube-system", "default"},
	} {
		if _, err := own.ServiceAccounts(of.namespace).CreateToken(t.Context(), of.name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("create a token of %s/%s: %v; want forbidden", of.namespace, of.name, err)
		}
	}
	if _, err := own.ServiceAccounts(system).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("create an account: %v; want forbidden", err)
	}
	kubectl(t, c, "delete", "serviceaccounts,roles,rolebindings,clusterrolebindings", "-n", system, "-l", peer.LabelReader+"=member2")
	kube.Eventually(t, "the access is revoked", func() error {
		_, err := kubernetes.NewForConfigOrDie(reader).DiscoveryV1().EndpointSlices("").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("list EndpointSlices: %w; want unauthorized", err)
		}
		return nil
	})
}

// create is the method CreateToken of a client of ServiceAccounts.
type create func(context.Context, string, *authenticationv1.TokenRequest, metav1.CreateOptions) (*authenticationv1.TokenRequest, error)

// newToken returns a new token of an account of the controller's namespace.
func newToken(t *testing.T, request create, of string) string {
	t.Helper()
	made, err := request(t.Context(), of, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a token of %s: %v", of, err)
	}
	return made.Status.Token
}
