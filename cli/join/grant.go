package join

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/deploy/peer"
	"github.com/clusterset-dns/multicluster/deploy/renew"
)

// tokenPatience is how long a token is awaited if the user does not want to wait for connections. A
// link cannot be made without it.
const tokenPatience = 30 * time.Second

// share makes the account that all readers share, once for each cluster.
func (m *Member) share(ctx context.Context) accountState {
	m.once.Do(func() { m.account = m.makeAccount(ctx) })
	return m.account
}

func (m *Member) makeAccount(ctx context.Context) (state accountState) {
	for i, want := range peer.Objects() {
		existing, err := find(ctx, m.Cluster, want)
		if err != nil {
			state.err = fmt.Errorf("cannot read the account %s in the cluster of context %s: %w", peer.Account, output.Clean(m.Context), err)
			return state
		}
		got, wrote, err := apply(ctx, m.Cluster, want, existing)
		if err != nil {
			state.err = err
			return state
		}
		if i == 0 { // the ServiceAccount
			state.uid = got.GetUID()
		}
		state.changed = state.changed || wrote
	}
	return state
}

// mayRenew lets the controller of a reader store renewed tokens, once for each cluster.
func (m *Member) mayRenew(ctx context.Context) renewState {
	m.renewal.Do(func() {
		m.renews.changed, m.renews.err = applyAll(ctx, m.Cluster, renew.Objects())
	})
	return m.renews
}

// credential is a token for a reader.
type credential struct {
	token string
	// renewed is true if the token expires, and the controller of the reader renews it.
	renewed bool
	// wrote is true if an account or a right was changed.
	wrote bool
}

// static returns the token of the shared account for the reader, which does not expire. It makes the
// token Secret if necessary, and waits for the token.
func (l *Link) static(ctx context.Context, patience time.Duration) (credential, error) {
	shared := l.From.share(ctx)
	if shared.err != nil {
		return credential{}, shared.err
	}
	want, err := peer.TokenSecret(l.To.id)
	if err != nil {
		return credential{}, err
	}
	existing, err := find(ctx, l.From.Cluster, want)
	if err != nil {
		return credential{}, err
	}
	if existing, err = l.dropStale(ctx, existing, shared.uid); err != nil {
		return credential{}, err
	}
	got, wrote, err := apply(ctx, l.From.Cluster, want, existing)
	if err != nil {
		return credential{}, err
	}
	token, err := l.awaitToken(ctx, got, patience)
	return credential{token: token, wrote: wrote || shared.changed}, err
}

// dropStale deletes a token of an earlier account with the same name: it is no longer valid. It returns
// the Secret if it stays.
func (l *Link) dropStale(ctx context.Context, secret *unstructured.Unstructured, account types.UID) (*unstructured.Unstructured, error) {
	if secret == nil {
		return nil, nil
	}
	if kind, _, _ := unstructured.NestedString(secret.Object, "type"); kind != string(corev1.SecretTypeServiceAccountToken) ||
		secret.GetAnnotations()[corev1.ServiceAccountNameKey] != peer.Account {
		return nil, &fault{output.Problem{
			ID:   "ForeignSecret",
			What: fmt.Sprintf("%s has a %s that is not a token of the account %s", l.From.called(), describe(secret), peer.Account),
			Fix:  []string{output.Kubectl(l.From.Context, "delete", "secret", "-n", peer.Namespace, secret.GetName())},
		}}
	}
	if of := secret.GetAnnotations()[corev1.ServiceAccountUIDKey]; of == "" || of == string(account) {
		return secret, nil
	}
	_, err := remove(ctx, l.From.Cluster, secret)
	return nil, err
}

// awaitToken waits until kube-controller-manager has filled the Secret.
func (l *Link) awaitToken(ctx context.Context, secret *unstructured.Unstructured, patience time.Duration) (string, error) {
	if patience <= 0 {
		patience = tokenPatience
	}
	token := tokenOf(secret)
	if token != "" {
		return token, nil
	}
	err := wait.PollUntilContextTimeout(ctx, pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		if got, err := find(ctx, l.From.Cluster, secret); err == nil && got != nil {
			token = tokenOf(got)
		}
		return token != "", nil
	})
	if err == nil {
		return token, nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return "", &fault{output.Problem{
		ID:     "NoToken",
		What:   fmt.Sprintf("the %s in %s has no token after %v", describe(secret), output.Clean(l.From.Context), patience),
		Advice: "The serviceaccount-token-controller of kube-controller-manager fills it: check that it runs in that cluster. Then join again.",
		Fix:    []string{output.Kubectl(l.From.Context, "get", "secret", "-n", peer.Namespace, secret.GetName())},
	}}
}

func tokenOf(secret *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(secret.Object, "data", corev1.ServiceAccountTokenKey)
	token, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	return string(token)
}

// expiring returns a token of the reader's own account. A stored token with that life stays until two
// thirds of it are over.
func (l *Link) expiring(ctx context.Context, life time.Duration, stored *peerSecret) (credential, error) {
	shared := l.From.share(ctx) // for the ClusterRole
	if shared.err != nil {
		return credential{}, shared.err
	}
	objects, err := peer.Reader(l.To.id)
	if err != nil {
		return credential{}, err
	}
	renews := l.To.mayRenew(ctx)
	if renews.err != nil {
		return credential{}, renews.err
	}
	wrote, err := applyAll(ctx, l.From.Cluster, objects)
	if err != nil {
		return credential{}, err
	}
	account, err := find(ctx, l.From.Cluster, objects[0])
	if err == nil && account == nil {
		err = errors.New("the account of the reader has disappeared: join again")
	}
	if err != nil {
		return credential{}, err
	}
	c := credential{renewed: true, wrote: wrote || shared.changed || renews.changed}
	old := claimsOf(stored.token)
	fresh := old.fresh(l.To.id, account.GetUID(), time.Now())
	if fresh && sameLife(old.life(), life) {
		c.token = stored.token
		return c, nil
	}
	c.token, err = l.requestToken(ctx, account, life)
	// A server can shorten the life. The new token is then like the stored one, again and again.
	if err == nil && fresh && sameLife(old.life(), claimsOf(c.token).life()) {
		c.token = stored.token
	}
	return c, err
}

// sameLife reports whether two lives are equal but for rounding: the times in a token are seconds.
func sameLife(a, b time.Duration) bool { return (a - b).Abs() <= time.Second }

func (l *Link) requestToken(ctx context.Context, account *unstructured.Unstructured, life time.Duration) (string, error) {
	seconds := int64(life / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	accounts := l.From.Cluster.Kube.CoreV1().ServiceAccounts(account.GetNamespace())
	answer, err := accounts.CreateToken(ctx, account.GetName(), request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request a token of the %s: %w", describe(account), err)
	}
	return answer.Status.Token, nil
}

// revokeExpiring deletes the reader's own account, which revokes all its tokens.
func (l *Link) revokeExpiring(ctx context.Context) (bool, error) {
	objects, err := peer.Reader(l.To.id)
	if err != nil {
		return false, err
	}
	return removeAll(ctx, l.From.Cluster, objects)
}

// revokeStatic deletes the reader's token of the shared account.
func (l *Link) revokeStatic(ctx context.Context) (bool, error) {
	secret, err := peer.TokenSecret(l.To.id)
	if err != nil {
		return false, err
	}
	return remove(ctx, l.From.Cluster, secret)
}
