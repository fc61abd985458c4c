package rules

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
)

// tokenLife is the shortest life that an API server gives a token. tokenLeeway is how long an API server
// accepts one after its expiry.
const (
	tokenLife   = 10 * time.Minute
	tokenLeeway = 75 * time.Second
)

// peerOfHome is what a cluster has for a reader with the ID home whose token expires.
const peerOfHome = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: multicluster-peer-home, namespace: multicluster-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: multicluster-peer-home}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: multicluster-peer}
subjects: [{kind: ServiceAccount, name: multicluster-peer-home, namespace: multicluster-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: multicluster-peer-home, namespace: multicluster-system}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [multicluster-member], verbs: [list, watch]}
- {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [multicluster-peer-home], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: multicluster-peer-home, namespace: multicluster-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: multicluster-peer-home}
subjects: [{kind: ServiceAccount, name: multicluster-peer-home, namespace: multicluster-system}]
`

// tokens is a reader of east, home, whose token lives for ten minutes.
type tokens struct {
	*world.Namespace
	east, home *world.Cluster
	seen       []string // the tokens that the Secret had, the oldest first
	reads      int      // of the Lease and the import
}

// TestTokensRenewed renews tokens of ten minutes in real time, with the controller's program. It runs
// for the duration in TOKENS, of 8 to 40 minutes, and then for as long as the last token lives.
func TestTokensRenewed(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("TOKENS"))
	if os.Getenv("TOKENS") == "" {
		t.Skip("it runs for the duration in TOKENS, such as 30m: make test-tokens")
	}
	if err != nil || length < 8*time.Minute || length > 40*time.Minute { // the controllers' own tokens live for an hour
		t.Fatalf("TOKENS is %q, want a duration of 8m to 40m", os.Getenv("TOKENS"))
	}
	s := newTokens(t)
	controller, err := binaries.StartController(t.Context(), s.home.Cluster, "--cluster-id=home")
	s.Must(err)
	defer func() { controller.Stop() }()
	s.Until("connected", func() error { return s.connected() })
	began := time.Now()
	for time.Since(began) < length {
		s.look()
		<-time.After(200 * time.Millisecond) // between two reads of a measurement, not for an event
	}
	// The first renewal is due after two thirds of a life, and so is each further one.
	renewals, want := len(s.seen)-1, int((length-30*time.Second)/(tokenLife*2/3))
	if renewals < want {
		t.Errorf("%d renewals in %v, want %d", renewals, length, want)
	}
	t.Logf("%-60s %v", "time with a controller", length)
	t.Logf("%-60s %d, at least %d expected", "renewals of a token that lives for ten minutes", renewals, want)
	t.Logf("%-60s %d, each connected and with the endpoint", "reads of the peer's Lease and of the imported endpoints", s.reads)

	controller.Stop() // the reader sleeps
	last := s.seen[len(s.seen)-1]
	for _, token := range s.seen {
		refused := s.refused(token)
		t.Logf("%-60s %v after its expiry", "a token is refused", refused.Round(time.Second))
	}
	controller, err = binaries.StartController(t.Context(), s.home.Cluster, "--cluster-id=home")
	s.Must(err)
	const fix = "run `kubectl multicluster rotate home --from east`"
	expired := "expired at " + s.expiry(last).UTC().Format(time.RFC3339)
	s.Until("the expiry is reported", func() error {
		l := s.lease()
		for _, key := range []string{"clusterset-dns.io/message", "clusterset-dns.io/token-message"} {
			if text := l.Annotations[key]; !strings.Contains(text, expired) || !strings.Contains(text, fix) {
				return fmt.Errorf("%s is %q, %v", key, text, l.Labels)
			}
		}
		if l.Labels["clusterset-dns.io/reason"] != "Unauthorized" {
			return fmt.Errorf("the reason is %v", l.Labels)
		}
		return nil
	})
	t.Logf("%-60s %s", "a reader that slept past the expiry reports", s.lease().Annotations["clusterset-dns.io/token-message"])
}

// newTokens starts the clusters and the controller of east, and joins them.
func newTokens(t *testing.T) *tokens {
	t.Helper()
	s := &tokens{Namespace: world.Joined(t, "east", "home").Namespace()}
	s.east, s.home = s.Cluster("east"), s.Cluster("home")
	s.Must(s.east.Apply(t.Context(), "", peerOfHome))
	_, err := binaries.Kubectl(t.Context(), s.home.Cluster, "apply", "-k", "deploy/renew")
	s.Must(err)
	c, err := binaries.StartController(t.Context(), s.east.Cluster, "--cluster-id=east")
	t.Cleanup(c.Stop)
	s.Must(err)

	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLife / time.Second))}}
	answer, err := kubernetes.NewForConfigOrDie(s.east.Config).CoreV1().ServiceAccounts(world.SystemNamespace).
		CreateToken(s.Context(), "multicluster-peer-home", request, metav1.CreateOptions{})
	s.Must(err)
	text := strings.Replace(string(s.east.ReaderKubeconfig), s.east.Reader.BearerToken, answer.Status.Token, 1)
	world.Edit(s.System(), "home", new(corev1.Secret), "east", func(secret *corev1.Secret) {
		secret.Annotations = map[string]string{"clusterset-dns.io/renew-token": "true"}
		secret.Data["kubeconfig"] = []byte(text)
	})
	s.Export("east", world.Service("foo"), "10.9.0.1")
	return s
}

// lease is an empty one before the controller has made it.
func (s *tokens) lease() *coordinationv1.Lease {
	s.Helper()
	l := leaseOf("east")
	s.Must(client.IgnoreNotFound(s.home.Admin.Get(s.Context(), client.ObjectKeyFromObject(l), l)))
	return l
}

// connected checks the Lease and the imported endpoint.
func (s *tokens) connected() error {
	s.Helper()
	l := s.lease()
	if l.Labels["clusterset-dns.io/connected"] != "True" || l.Labels["clusterset-dns.io/reason"] != "Connected" || l.Annotations["clusterset-dns.io/token-message"] != "" {
		return fmt.Errorf("the Lease has %v, %v", l.Labels, l.Annotations)
	}
	all, err := s.home.Imported(s.Context(), s.Key("foo"))
	if err != nil {
		return err
	}
	if from := all["east"]; len(from) != 1 || len(from[0].Endpoints) != 1 || from[0].Endpoints[0].Addresses[0] != "10.9.0.1" {
		return fmt.Errorf("the imported slices are %v", from)
	}
	return nil
}

// look reads once, and notes a new token.
func (s *tokens) look() {
	s.Helper()
	s.Must(s.connected())
	s.reads++
	secret := world.Live(s.System(), "home", new(corev1.Secret), "east")
	token := string(secret.Data["token"]) // a renewed one
	if token == "" {
		_, after, _ := strings.Cut(string(secret.Data["kubeconfig"]), "token: ")
		token = strings.Fields(after)[0]
	}
	if len(s.seen) == 0 || s.seen[len(s.seen)-1] != token {
		s.seen = append(s.seen, token)
	}
}

// expiry returns when a token expires.
func (s *tokens) expiry(token string) time.Time {
	s.Helper()
	var claims jwt.RegisteredClaims
	_, _, err := jwt.NewParser().ParseUnverified(token, &claims)
	s.Must(err)
	return claims.ExpiresAt.Time
}

// refused waits until east refuses a token, and returns how long after its expiry this was.
func (s *tokens) refused(token string) time.Duration {
	s.Helper()
	config := rest.AnonymousClientConfig(s.east.Config)
	config.BearerToken = token
	slices := kubernetes.NewForConfigOrDie(config).DiscoveryV1().EndpointSlices("")
	expiry := s.expiry(token)
	for {
		_, err := slices.List(s.Context(), metav1.ListOptions{Limit: 1})
		since := time.Since(expiry)
		switch {
		case apierrors.IsUnauthorized(err) && since >= 0:
			return since
		case err != nil:
			s.Fatalf("a token, %v after its expiry: %v", since, err)
		case since > tokenLeeway:
			s.Fatalf("a token is accepted %v after its expiry", since)
		}
		<-time.After(max(time.Second, -since)) // until the expiry, which is what is tested
	}
}
