package peers

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// annotationRenew with the value "true" on a peer's Secret means that the controller renews the token
// of the kubeconfig before it expires.
const annotationRenew = "clusterset-dns.io/renew-token"

const (
	// longestRetry is the longest pause between two attempts to renew a token.
	longestRetry = time.Minute
	// rewriteAfter is the shortest pause between two writes to a Secret, whatever others write to it.
	rewriteAfter = time.Minute
	// restoredOften is how often another writer restores an older token until this is reported.
	restoredOften = 3
	// conflictsOften is how often a Secret is changed during a renewal until this is reported.
	conflictsOften = 5
)

// renewal is what is known of the token of a peer. The Registry's mu guards it.
type renewal struct {
	token    string // "" for none
	claims   claims // of the token
	fault    error  // why the token cannot be renewed at any time
	running  bool   // an attempt is running
	failures int    // since the last success
	trouble  string // of the last attempt, "" if it succeeded
	next     time.Time
	replaced string // the token that was replaced last
	restored int    // how often another writer has restored it since
}

// see notes the token in use.
func (r *renewal) see(token string) {
	if token == r.token && (token != "" || r.fault != nil) {
		return
	}
	if token != "" && token == r.replaced {
		r.restored++
	}
	r.token, r.failures, r.trouble = token, 0, ""
	if r.claims, r.fault = readClaims(token); r.fault == nil {
		r.fault = r.claims.renewable()
	}
}

// pause returns how long to wait for the next attempt, or false if no attempt follows.
func (r *renewal) pause(now time.Time) (time.Duration, bool) {
	if r.fault != nil || r.running || r.claims.expired(now) {
		return 0, false
	}
	retry := r.next.Sub(now)
	if retry > longestRetry { // the clock was set back
		retry = 0
	}
	return max(0, r.claims.due().Sub(now), retry), true
}

// attempted notes the result of an attempt to renew a token.
func (r *renewal) attempted(token string, err error, now time.Time) {
	r.running = false
	switch {
	case err == nil:
		r.failures, r.trouble, r.next = 0, "", now.Add(rewriteAfter)
		if token != r.replaced {
			r.replaced, r.restored = token, 0
		}
	case token == r.token: // otherwise somebody else has replaced it meanwhile
		r.failures++
		pause := min(retryAfter<<min(r.failures-1, 6), longestRetry)
		pause = min(wait.Jitter(pause*4/5, 0.25), r.claims.expires.Sub(now)/2)
		r.next = now.Add(max(pause, retryAfter))
		if !apierrors.IsConflict(err) || r.failures >= conflictsOften {
			r.trouble = err.Error()
		}
	}
}

// message returns what is wrong with the token and the command that fixes it, or "". wanted means
// that the Secret asks for renewal. rotate is the command that gives the peer a new token.
func (r *renewal) message(wanted bool, rotate string, now time.Time) string {
	restores := "another writer restores an older token: let it ignore data.token of the Secret, or remove the annotation " + annotationRenew + " and " + rotate
	switch {
	case r.claims.expired(now) && r.restored > 0:
		return fmt.Sprintf("expired at %s: %s. Then %s", rfc3339(r.claims.expires), restores, rotate)
	case r.claims.expired(now):
		return fmt.Sprintf("expired at %s: %s", rfc3339(r.claims.expires), rotate)
	case !wanted:
		return ""
	case r.fault != nil:
		return fmt.Sprintf("%v, so it cannot be renewed: %s, or remove the annotation %s from the Secret", r.fault, rotate, annotationRenew)
	case r.restored >= restoredOften:
		return restores
	}
	return r.trouble
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// rotate returns the command that gives this cluster a new token for the peer.
func (p *peer) rotate() string {
	return fmt.Sprintf("run `kubectl multicluster rotate %s --from %s`, with the contexts of this cluster and the peer", p.registry.options.Home, p.id)
}

// describeTokenLocked adds what is known of the token to the condition, and sets the metric.
func (p *peer) describeTokenLocked() {
	expires := p.renewal.claims.expires
	if p.connection == nil || expires.IsZero() {
		peerTokenExpiry.DeleteLabelValues(p.id)
		peerTokenIssued.DeleteLabelValues(p.id)
	} else {
		peerTokenExpiry.WithLabelValues(p.id).Set(float64(expires.Unix()))
		peerTokenIssued.WithLabelValues(p.id).Set(float64(p.renewal.claims.issued.Unix()))
		p.condition.tokenExpiry = rfc3339(expires)
	}
	if p.connection != nil {
		p.condition.tokenMessage = harmless(p.renewal.message(p.secret.renew, p.rotate(), p.registry.options.Now()))
	}
}

// tendToken starts the renewal of the token in use, if it is time. It returns the pause until the next
// call.
func (p *peer) tendToken() time.Duration {
	s := p.registry
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.connection == nil || p.refused != "" {
		return idle
	}
	token := p.connection.transport.bearer()
	p.renewal.see(token)
	of := s.secrets[types.NamespacedName{Namespace: s.options.Namespace, Name: p.id}]
	if now, err := p.accessLocked(); !of.renew || of.leaving || err != nil || !now.equal(p.access) {
		return idle // or the next step connects with it
	}
	pause, follows := p.renewal.pause(s.options.Now())
	switch {
	case !follows:
		return idle
	case pause > 0:
		return pause
	}
	p.renewal.running = true
	p.connection.renewals <- order{of, token, p.renewal.claims}
	return idle
}

// order is the order to renew the token in a Secret.
type order struct {
	of     secret
	token  string
	claims claims
}

// renewTokens carries out orders, of which there is one at a time, until ctx ends.
func (c *connection) renewTokens(ctx context.Context) {
	s := c.peer.registry
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-c.renewals:
			err := c.renewToken(ctx, o)
			if ctx.Err() != nil {
				return
			}
			s.mu.Lock()
			c.peer.renewal.attempted(o.token, err, s.options.Now())
			s.mu.Unlock()
			c.peer.notify()
		}
	}
}

// renewToken replaces the token in a Secret by a new one. The connection gets it from the Secret, as
// after any other change.
func (c *connection) renewToken(ctx context.Context, o order) error {
	token, err := c.requestToken(ctx, o.claims)
	if err != nil {
		return fmt.Errorf("no new token for the account %s/%s from %s. If this lasts, %s: %w", o.claims.namespace, o.claims.account, c.host, c.peer.rotate(), err)
	}
	data := map[string][]byte{tokenKey: []byte(token)}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	options := c.peer.registry.options
	err = options.Writer.PutSecretData(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: options.Namespace, Name: c.peer.id, ResourceVersion: o.of.version},
		Data:       data,
	})
	err = redact(err, token, data)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("this controller has no right to write Secrets: run `kubectl apply -k '%s'` in this cluster, or set controller.renewTokens=true in the values of the chart: %w", mcs.Deploy("renew"), err)
	}
	return err
}

// requestToken returns a new token for the account of a token. The peer has accepted it.
func (c *connection) requestToken(ctx context.Context, old claims) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(old.renewedLife())}}
	answer, err := c.accounts.ServiceAccounts(old.namespace).CreateToken(ctx, old.account, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	token := answer.Status.Token
	fresh, err := readClaims(token)
	if err == nil {
		err = fresh.succeeds(old)
	}
	if err != nil {
		return "", fmt.Errorf("the new token cannot be used: %w", err)
	}
	// Of several API servers, one may not know yet the key that another one has signed it with.
	err = c.question().SetHeader("Authorization", "Bearer "+token).Do(ctx).Error()
	if apierrors.IsUnauthorized(err) {
		return "", fmt.Errorf("the new token is not accepted: %w", err)
	}
	return token, nil
}
