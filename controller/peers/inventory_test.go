package peers

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
)

var (
	profileResource = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
	crdResource     = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// fleet is an inventory in the home cluster.
type fleet struct {
	t         *testing.T
	client    dynamic.Interface
	namespace string
}

// installProfiles installs the CRD, and waits until its versions are served.
func (f fleet) installProfiles() {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "clusterprofiles.yaml"))
	if err != nil {
		f.t.Fatal(err)
	}
	applyTo(f.t, home.Cluster(f.t), "", string(text))
	f.t.Cleanup(func() {
		if err := home.Cluster(f.t).Delete(context.WithoutCancel(f.t.Context()), "", string(text)); err != nil {
			f.t.Error(err)
		}
	})
	kube.Eventually(f.t, "ClusterProfiles are served", func() error {
		_, err := f.client.Resource(profileResource).Namespace(f.namespace).List(f.t.Context(), metav1.ListOptions{})
		return err
	})
}

// permit binds the Role of deploy/cluster-profiles to the account of a Registry.
func (f fleet) permit() {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "cluster-profiles", "role.yaml"))
	if err != nil {
		f.t.Fatal(err)
	}
	first, _, _ := bytes.Cut(text, []byte("\n---\n"))
	var role rbacv1.Role
	if err := yaml.UnmarshalStrict(first, &role); err != nil {
		f.t.Fatal(err)
	}
	role.Namespace = ""
	if text, err = yaml.Marshal(role); err != nil {
		f.t.Fatal(err)
	}
	applyTo(f.t, home.Cluster(f.t), f.namespace, string(text)+fmt.Sprintf(`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: profiles}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %s}
subjects: [{kind: ServiceAccount, name: reader, namespace: %s}]
`, role.Name, f.namespace))
}

// put creates or changes a profile. The status is that of profileOf, in addition to the property with an ID, if there is one.
func (f fleet) put(name, id, status string) {
	f.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal(fmt.Appendf(nil, "spec: {clusterManager: {name: test}}\nstatus: %s", status), &object.Object); err != nil {
		f.t.Fatal(err)
	}
	object.SetAPIVersion("multicluster.x-k8s.io/v1alpha1")
	object.SetKind("ClusterProfile")
	object.SetName(name)
	if id != "" {
		properties := []any{map[string]any{"name": "region", "value": "eu"}, map[string]any{"name": idProperty, "value": id}}
		if err := unstructured.SetNestedSlice(object.Object, properties, "status", "properties"); err != nil {
			f.t.Fatal(err)
		}
	}
	all := f.client.Resource(profileResource).Namespace(f.namespace)
	given := object.DeepCopy()
	made, err := all.Create(f.t.Context(), object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = all.Get(f.t.Context(), name, metav1.GetOptions{})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	given.SetResourceVersion(made.GetResourceVersion())
	if _, err := all.UpdateStatus(f.t.Context(), given, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

func (f fleet) drop(name string) {
	f.t.Helper()
	if err := f.client.Resource(profileResource).Namespace(f.namespace).Delete(f.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// joinByToken creates or changes a peer's Secret with nothing but a token.
func (r *reader) joinByToken(id, token string) {
	r.t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: id, Labels: map[string]string{mcs.LabelPeer: ""}},
		Data:       map[string][]byte{tokenKey: []byte(token + "\n")},
	}
	secrets := r.client.CoreV1().Secrets(r.namespace)
	_, err := secrets.Create(r.t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(r.t.Context(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// keeps waits until a peer is connected although its address cannot be found any more.
func (r *reader) keeps(id string, words ...string) {
	r.t.Helper()
	kube.Eventually(r.t, id+" keeps its last address", func() error {
		l, err := r.leaseOf(id)
		if err != nil {
			return err
		}
		message := l.Annotations[annotationMessage]
		if l.Labels[labelReason] != InvalidKubeconfig || l.Labels[labelConnected] != conditionTrue {
			return fmt.Errorf("%v, %q", l.Labels, message)
		}
		for _, word := range append(words, "The last address stays in use") {
			if !strings.Contains(message, word) {
				return fmt.Errorf("the message %q does not have %q", message, word)
			}
		}
		return nil
	})
}

// renewsByToken has the token of a Secret without a kubeconfig renewed.
func (r *reader) renewsByToken(p place, there *cluster) {
	r.t.Helper()
	applyTo(r.t, there.Cluster, there.namespace, selfRenewal)
	applyTo(r.t, home.Cluster(r.t), "", p.renewRole(r.t))
	old := there.shortLived()
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: "true"}}, "data": {"token": %q}}`, annotationRenew, base64.StdEncoding.EncodeToString([]byte(old)))
	if _, err := r.client.CoreV1().Secrets(r.namespace).Patch(r.t.Context(), there.id, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.tokenInUse(there.id, old)
	r.later(there.id, 7*time.Minute)
	var fresh string
	kube.Eventually(r.t, "the token is renewed", func() error {
		s := r.secretOf(there.id)
		if fresh = string(s.Data[tokenKey]); fresh == old || len(s.Data) != 1 {
			return fmt.Errorf("the keys are %v, and the token is not renewed", len(s.Data))
		}
		return nil
	})
	r.tokenInUse(there.id, fresh)
	r.is(there.id, Connected, "https://localhost:")
}

// TestAddressesFromClusterProfiles goes through the life of one inventory, in an order in which each step
// needs those before it. No other test needs the CRD.
func TestAddressesFromClusterProfiles(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	u, err := url.Parse(there.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	ca := fmt.Sprintf(`, "certificate-authority-data": %q`, base64.StdEncoding.EncodeToString(there.config.CAData))
	at := func(host string) string { return providers(provider("a", "https://"+host+":"+u.Port(), ca)) }
	f := fleet{t, dynamic.NewForConfigOrDie(home.Cluster(t).Config), p.namespace}

	without := p.read(t)
	without.joinByToken(there.id, there.config.BearerToken)
	without.is(there.id, InvalidKubeconfig, "no key kubeconfig", "--cluster-profiles")
	without.stop()

	withProfiles := func(o *Options) { o.Profiles, o.Config = p.namespace, p.config }
	r := p.read(t, withProfiles)
	r.is(there.id, InvalidKubeconfig, "cannot read the ClusterProfiles", "deploy/cluster-profiles")
	f.permit()
	r.is(there.id, InvalidKubeconfig, "does not serve ClusterProfiles", "install the CRD")
	f.installProfiles()
	r.is(there.id, InvalidKubeconfig, "no ClusterProfile in the namespace "+p.namespace, idProperty+"="+there.id)

	for says, status := range map[string]string{ // TestFaultsOfAProfile has all
		"server is an https:// URL": providers(provider("a", "http://127.0.0.1:1")),
		"not a certificate in PEM":  providers(provider("a", there.config.Host, `, "certificate-authority-data": "Y2E="`)),
	} {
		f.put("cluster-1", there.id, status)
		r.is(there.id, InvalidKubeconfig, "the ClusterProfile "+p.namespace+"/cluster-1", says)
	}
	f.put("cluster-1", there.id, providers(provider("a", "https://127.0.0.1:1", ca)))
	r.is(there.id, Unreachable, "https://127.0.0.1:1")
	f.put("cluster-1", there.id, at("127.0.0.1"))
	r.is(there.id, Connected, there.config.Host)
	r.says(foo, there.id)

	// The API server moves. The contents stay all the time.
	f.put("cluster-1", there.id, at("localhost"))
	r.is(there.id, Connected, "https://localhost:")
	r.says(foo, there.id)
	f.put("cluster-1", there.id, providers(provider("a", there.config.Host, ca, `, "tls-server-name": "kubernetes.default.svc"`)))
	r.is(there.id, Connected, there.config.Host)

	// No fault of an inventory ends a connection. New tokens are used with the last address.
	f.put("cluster-2", there.id, at("127.0.0.1"))
	r.keeps(there.id, "the ClusterProfiles cluster-1 and cluster-2")
	f.drop("cluster-2")
	r.is(there.id, Connected)
	f.put("cluster-1", there.id, `{}`)
	r.keeps(there.id, "has no access provider")
	f.drop("cluster-1")
	r.keeps(there.id, "no ClusterProfile")
	r.joinByToken(there.id, "expired")
	r.is(there.id, Unauthorized)
	r.joinByToken(there.id, there.config.BearerToken)
	r.keeps(there.id, "no ClusterProfile")
	r.says(foo, there.id)

	// A profile with the name of the peer, in the only version that is left.
	f.put(there.id, "", at("localhost"))
	r.is(there.id, Connected, "https://localhost:")
	r.renewsByToken(p, there)
	patch := `[{"op": "replace", "path": "/spec/versions/0/served", "value": false}]`
	if _, err := f.client.Resource(crdResource).Patch(t.Context(), "clusterprofiles.multicluster.x-k8s.io", types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "v1alpha1 is gone", func() error {
		if _, err := f.client.Resource(profileResource).Namespace(f.namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			return errors.New("it is served")
		}
		return nil
	})
	r.stop()
	again := p.read(t, withProfiles)
	again.is(there.id, Connected, "https://localhost:")
	again.says(foo, there.id)

	// A kubeconfig in the Secret comes first.
	again.join(there.id, kubeconfig(t, there.config))
	again.is(there.id, Connected, there.config.Host)
}
