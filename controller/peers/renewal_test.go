package peers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// selfRenewal lets the account of a peer create tokens for itself, and for no other account.
const selfRenewal = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: renew}
rules:
- {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [reader], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: renew}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: renew}
subjects: [{kind: ServiceAccount, name: reader}]
`

// renewRole returns deploy/renew for the account and the namespace of a place.
func (p place) renewRole(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "renew", "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("multicluster-system", p.namespace, "multicluster-controller", "reader").Replace(string(text))
}

// shortLived returns a token of the cluster's reader for ten minutes.
func (c *cluster) shortLived() string {
	c.t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(minLife / time.Second))}}
	answer, err := kubernetesOf(c.Config).CoreV1().ServiceAccounts(c.namespace).CreateToken(c.t.Context(), "reader", request, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	of, err := readClaims(answer.Status.Token)
	if err != nil {
		c.t.Fatal(err)
	}
	kube.Eventually(c.t, "the next token expires later", func() error { // times in tokens are in seconds
		if time.Now().Unix() <= of.issued.Unix() {
			return errors.New("it is the same second")
		}
		return nil
	})
	return answer.Status.Token
}

// with returns a kubeconfig for the cluster with a token.
func (c *cluster) with(token string) []byte {
	config := rest.CopyConfig(c.config)
	config.BearerToken = token
	return kubeconfig(c.t, config)
}

// often makes the Registry write its Leases every two seconds.
var often = timeout(8 * time.Second)

// renewing creates a peer whose Secret asks for renewal.
func (r *reader) renewing(id string, kubeconfig []byte) *corev1.Secret {
	r.t.Helper()
	s, err := r.client.CoreV1().Secrets(r.namespace).Create(r.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: id, Labels: map[string]string{mcs.LabelPeer: "", "team": "a"}, Annotations: map[string]string{annotationRenew: "true", "note": "mine"},
		},
		Data: map[string][]byte{kubeconfigKey: kubeconfig, "other": []byte("value")},
	}, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *reader) secretOf(id string) *corev1.Secret {
	r.t.Helper()
	s, err := r.client.CoreV1().Secrets(r.namespace).Get(r.t.Context(), id, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// later sets the clock forward and has the peer evaluated.
func (r *reader) later(id string, d time.Duration) {
	r.clock.forward(d)
	r.Registry.mu.RLock()
	defer r.Registry.mu.RUnlock()
	if p := r.peers[id]; p != nil {
		p.notify()
	}
}

// renewed waits until the Secret contains another token than before, and returns the Secret.
func (r *reader) renewed(id, before string) *corev1.Secret {
	r.t.Helper()
	var s *corev1.Secret
	kube.Eventually(r.t, "the token is renewed", func() error {
		if s = r.secretOf(id); string(s.Data[tokenKey]) == "" || string(s.Data[tokenKey]) == before {
			l, err := r.leaseOf(id)
			return fmt.Errorf("it is the old one: %v, %w", l.Annotations, err)
		}
		return nil
	})
	return s
}

// tokenSays waits until the Lease has a message about the token that contains these words, or none
// without words.
func (r *reader) tokenSays(id string, words ...string) {
	r.t.Helper()
	kube.Eventually(r.t, fmt.Sprintf("the message about the token has %q", words), func() error {
		r.later(id, 0)
		l, err := r.leaseOf(id)
		if err != nil {
			return err
		}
		message, there := l.Annotations[annotationTrouble]
		if !there || (message == "") != (len(words) == 0) {
			return fmt.Errorf("it is %q, %v", message, there)
		}
		for _, word := range words {
			if !strings.Contains(message, word) {
				return fmt.Errorf("it is %q", message)
			}
		}
		return nil
	})
}

// tokenInUse waits until the connection of a peer uses a token, and returns the connection.
func (r *reader) tokenInUse(id, token string) *connection {
	r.t.Helper()
	var c *connection
	kube.Eventually(r.t, "the connection uses the token", func() error {
		r.Registry.mu.RLock()
		defer r.Registry.mu.RUnlock()
		if c = r.peers[id].connection; c == nil || c.transport.bearer() != token {
			return errors.New("it uses another one")
		}
		return nil
	})
	return c
}

// states records each state that the Lease of a peer has, from now until stop.
func (r *reader) states(id string) (stop func() []string) {
	r.t.Helper()
	w, err := r.client.CoordinationV1().Leases(r.namespace).Watch(r.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + id})
	if err != nil {
		r.t.Fatal(err)
	}
	seen := map[string]bool{}
	var reading sync.WaitGroup
	reading.Go(func() {
		for e := range w.ResultChan() {
			if l, ok := e.Object.(*coordinationv1.Lease); ok {
				seen[l.Labels[labelConnected]+" "+l.Labels[labelReason]] = true
			}
		}
	})
	return func() []string {
		w.Stop()
		reading.Wait()
		return slices.Sorted(maps.Keys(seen))
	}
}

// meddler changes a Secret before each of the first writes to it, as another writer does.
type meddler struct {
	Writer
	first func()
}

func (m *meddler) PutSecretData(ctx context.Context, s *corev1.Secret) error {
	m.first()
	return m.Writer.PutSecretData(ctx, s)
}

// TestTokenIsRenewed renews a token against real API servers. Nothing but the token changes, a change
// of another writer at the same moment is kept, and the connection stays.
func TestTokenIsRenewed(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	applyTo(t, there.Cluster, there.namespace, selfRenewal)
	place := newPlace(t)
	applyTo(t, home.Cluster(t), "", place.renewRole(t))
	old := there.shortLived()
	text, edited := there.with(old), append([]byte("# by hand\n"), there.with(old)...)
	var r *reader
	meddle := sync.OnceFunc(func() {
		s := r.secretOf(there.id)
		s.Annotations["note"], s.Data[kubeconfigKey] = "changed", edited
		if _, err := r.client.CoreV1().Secrets(r.namespace).Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	})
	r = place.read(t, often, func(o *Options) { o.Writer = &meddler{o.Writer, func() { meddle() }} })
	before := r.renewing(there.id, text)
	r.is(there.id, Connected)
	r.says(there.name("foo"), there.id)
	c := r.tokenInUse(there.id, old)
	of, err := readClaims(old)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := r.leaseOf(there.id); err != nil || l.Annotations[annotationExpiry] != of.expires.Format(time.RFC3339) || l.Annotations[annotationTrouble] != "" {
		t.Errorf("the token expires at %v, and the Lease has %v: %v", of.expires, l.Annotations, err)
	}
	if got := testutil.ToFloat64(peerTokenExpiry.WithLabelValues(there.id)); got != float64(of.expires.Unix()) {
		t.Errorf("the metric is %v, want %v", got, of.expires.Unix())
	}
	if got := testutil.ToFloat64(peerTokenIssued.WithLabelValues(there.id)); got != float64(of.issued.Unix()) {
		t.Errorf("the metric is %v, want %v", got, of.issued.Unix())
	}
	states, calls := r.states(there.id), r.calls(there.name("foo"))

	r.later(there.id, 7*time.Minute)
	after := r.renewed(there.id, old)
	fresh := string(after.Data[tokenKey])
	if now := r.tokenInUse(there.id, fresh); now != c {
		t.Error("there is a new connection")
	}
	if string(after.Data[kubeconfigKey]) != string(edited) || string(after.Data["other"]) != "value" || len(after.Data) != 3 {
		t.Errorf("the data are %q", after.Data)
	}
	if !maps.Equal(after.Labels, before.Labels) || len(after.Annotations) != 2 || after.Annotations[annotationRenew] != "true" || after.Annotations["note"] != "changed" {
		t.Errorf("the labels are %v, the annotations %v", after.Labels, after.Annotations)
	}
	got, err := readClaims(fresh)
	if err != nil || got.succeeds(of) != nil || got.life() != minLife {
		t.Errorf("the new token has %+v: %v", got, err)
	}
	r.later(there.id, 10*time.Second)
	kube.Eventually(t, "the Lease has the new expiry", func() error {
		l, err := r.leaseOf(there.id)
		if err == nil && l.Annotations[annotationExpiry] != got.expires.Format(time.RFC3339) {
			err = fmt.Errorf("it has %v", l.Annotations)
		}
		return err
	})
	r.tokenSays(there.id)
	there.export("v1beta1", "bar") // the watches continue
	r.says(there.name("bar"), there.id)
	if all := states(); !slices.Equal(all, []string{"True Connected"}) {
		t.Errorf("the peer was %q", all)
	}
	if n := r.calls(there.name("foo")); n != calls {
		t.Errorf("foo was called %d times", n-calls)
	}
	if told := r.told(there.id); !slices.Equal(told, []string{Connected}) {
		t.Errorf("the events are %q: %q", told, r.events)
	}
}

// TestRenewalFails takes away each right that a renewal needs. The Lease has the command that fixes it,
// and the renewal works again after it.
func TestRenewalFails(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	place := newPlace(t)
	r := place.read(t, often)
	token := there.shortLived()
	r.renewing(there.id, there.with(token))
	r.is(there.id, Connected)
	r.later(there.id, 7*time.Minute)
	r.tokenSays(there.id, "no new token for the account "+there.namespace+"/reader", "run `kubectl multicluster rotate "+r.namespace+" --from "+there.id+"`", "forbidden")
	applyTo(t, there.Cluster, there.namespace, selfRenewal)
	r.clock.forward(time.Minute)
	r.tokenSays(there.id, "kubectl apply -k '"+mcs.Deploy("renew")+"'")
	if told := r.told(there.id); !slices.Equal(told, []string{Connected, "TokenNotRenewed"}) {
		t.Errorf("the events are %q: %q", told, r.events)
	}
	applyTo(t, home.Cluster(t), "", place.renewRole(t))
	r.later(there.id, 50*time.Second)
	fresh := string(r.renewed(there.id, token).Data[tokenKey])
	r.tokenInUse(there.id, fresh)
	r.clock.forward(-9 * time.Minute)
	r.tokenSays(there.id)
	r.is(there.id, Connected)
	if told := r.told(there.id); !slices.Equal(told, []string{Connected, "TokenNotRenewed", "TokenRenewed"}) {
		t.Errorf("the events are %q: %q", told, r.events)
	}

	// The account goes, and the time of the token runs out.
	if err := kubernetesOf(there.Config).CoreV1().ServiceAccounts(there.namespace).Delete(t.Context(), "reader", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.clock.forward(7 * time.Minute)
	r.tokenSays(there.id, "no new token", "rotate")
	r.clock.forward(4 * time.Minute)
	r.tokenSays(there.id, "expired at ", "run `kubectl multicluster rotate "+r.namespace+" --from "+there.id+"`")
	r.Registry.mu.RLock()
	c := r.peers[there.id].connection
	r.Registry.mu.RUnlock()
	kube.Eventually(t, "the API server rejects the token", func() error { // its cache of tokens lasts some seconds
		c.useToken(c.target)
		l, err := r.leaseOf(there.id)
		if err == nil && l.Labels[labelReason] != Unauthorized {
			err = fmt.Errorf("it is %v", l.Labels)
		}
		return err
	})
	of, err := readClaims(fresh)
	if err != nil {
		t.Fatal(err)
	}
	r.is(there.id, Unauthorized, "the token expired at "+of.expires.Format(time.RFC3339), "run `kubectl multicluster rotate "+r.namespace+" --from "+there.id+"`")
}

// TestOtherTokensStay checks tokens that cannot be renewed, and those that nobody asks to renew.
func TestOtherTokensStay(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	applyTo(t, there.Cluster, there.namespace, selfRenewal)
	place := newPlace(t)
	applyTo(t, home.Cluster(t), "", place.renewRole(t))
	writes := 0
	r := place.read(t, often, func(o *Options) { o.Writer = &meddler{o.Writer, func() { writes++ }} })

	r.join(there.id, there.with(there.shortLived())) // without the annotation
	r.is(there.id, Connected)
	r.later(there.id, 7*time.Minute)
	r.tokenSays(there.id)
	r.clock.forward(4 * time.Minute)
	r.tokenSays(there.id, "expired at ")
	r.is(there.id, Connected) // its own clock is right
	r.leave(there.id)
	r.leaseGoes(there.id)

	for name, c := range map[string]struct{ token, fault string }{
		"garbage":         {"garbage", "not a JWT"},
		"a huge one":      {strings.Repeat("a", maxToken+1), "limit"},
		"one without exp": {forged(`{"iat":1,"sub":"system:serviceaccount:s:a"}`), "never expires"},
	} {
		r.renewing(there.id, there.with(c.token))
		r.tokenSays(there.id, c.fault, "rotate", annotationRenew)
		l, err := r.leaseOf(there.id)
		if _, expires := l.Annotations[annotationExpiry]; err != nil || expires || l.Labels[labelConnected] != conditionFalse {
			t.Errorf("%s: %v, %v: %v", name, l.Labels, l.Annotations, err)
		}
		r.leave(there.id)
		r.leaseGoes(there.id)
	}
	if writes > 0 {
		t.Errorf("%d writes", writes)
	}
}

// TestAnotherWriterRestoresTheToken lets a GitOps tool restore the old token each time. The controller
// uses it while it is valid, writes at most once a minute, and reports the other writer.
func TestAnotherWriterRestoresTheToken(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	applyTo(t, there.Cluster, there.namespace, selfRenewal)
	place := newPlace(t)
	applyTo(t, home.Cluster(t), "", place.renewRole(t))
	writes := make(chan struct{}, 100)
	r := place.read(t, often, func(o *Options) {
		o.Writer, o.Heartbeat = &meddler{o.Writer, func() { writes <- struct{}{} }}, time.Hour // nobody writes one there
	})
	old := there.shortLived()
	text := there.with(old)
	r.renewing(there.id, text)
	r.is(there.id, Connected)
	states := r.states(there.id)
	r.later(there.id, 405*time.Second)
	for n := range restoredOften {
		fresh := string(r.renewed(there.id, old).Data[tokenKey])
		r.tokenInUse(there.id, fresh)
		s := r.secretOf(there.id)
		delete(s.Data, tokenKey) // as a tool does that prunes what it has not written
		if _, err := r.client.CoreV1().Secrets(r.namespace).Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.tokenInUse(there.id, old)
		r.later(there.id, 20*time.Second)
		if n == restoredOften-1 {
			r.tokenSays(there.id, "another writer restores an older token: let it ignore data.token")
		} else {
			r.tokenSays(there.id)
		}
		if len(writes) != n+1 {
			t.Errorf("%d writes in round %d", len(writes), n)
		}
		r.later(there.id, 41*time.Second)
	}
	r.renewed(there.id, old)
	if all := states(); !slices.Equal(all, []string{"True Connected"}) {
		t.Errorf("the peer was %q", all)
	}
}

// An admission webhook may answer with the object that it refuses. More users read Leases and events than Secrets.
func TestErrorsContainNoToken(t *testing.T) {
	const token = "header.claims.signature"
	kubeconfig := []byte("users: [{user: {token: " + token + "}}]")
	refused := apierrors.NewForbidden(corev1.Resource("secrets"), "east", fmt.Errorf("the webhook refuses %s, %s and %s",
		token, base64.StdEncoding.EncodeToString([]byte(token)), base64.StdEncoding.EncodeToString(kubeconfig)))
	err := redact(refused, token, map[string][]byte{kubeconfigKey: kubeconfig})
	if want := "the webhook refuses (redacted), (redacted) and (redacted)"; !strings.Contains(err.Error(), want) || !apierrors.IsForbidden(err) {
		t.Errorf("the error is %v, want it to contain %q", err, want)
	}
	if redact(nil, token, nil) != nil {
		t.Error("no error has become one")
	}
}
