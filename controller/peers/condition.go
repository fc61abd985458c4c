package peers

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/internal/reflector"
)

// Reasons of a peer's condition. Connected means that the peer is connected; Stale and InvalidLimits can.
const (
	Connected         = "Connected"
	Syncing           = "Syncing"
	InvalidID         = "InvalidID"
	DuplicateID       = "DuplicateID"
	DuplicateCluster  = "DuplicateCluster"
	InvalidKubeconfig = "InvalidKubeconfig"
	InvalidLimits     = "InvalidLimits"
	SecretMissing     = "SecretMissing"
	Leaving           = "Leaving"
	Unauthorized      = "Unauthorized"
	Forbidden         = "Forbidden"
	NoCRD             = "NoCRD"
	NoController      = "NoController"
	ControllerSilent  = "ControllerSilent"
	WrongID           = "WrongID"
	TooLarge          = "TooLarge"
	Unreachable       = "Unreachable"
	Stale             = "Stale"
)

// distrusts reports whether a reason means that the cluster at the other end is perhaps another one, or must not be
// used. What it has is not used any longer, whatever its endpoints do.
func distrusts(reason string) bool {
	switch reason {
	case InvalidID, DuplicateID, DuplicateCluster, WrongID, NoController, InvalidKubeconfig, InvalidLimits, Leaving:
		return true
	}
	return false
}

// answered reports whether a reason was found in an answer of the API server.
func answered(reason string) bool {
	switch reason {
	case Connected, Stale, Unauthorized, Forbidden, NoCRD, NoController, ControllerSilent, WrongID, DuplicateID, DuplicateCluster, TooLarge:
		return true
	}
	return false
}

// unread reports whether a peer cannot be read, or is no longer up to date, although it is trusted: a credential, a
// right, a program in that cluster or the network has failed. Its endpoints stay while they are seen to answer.
func (c condition) unread() bool {
	return !c.connected && c.reason != Syncing && c.reason != "" && !distrusts(c.reason)
}

// refuse returns the reason and message why a peer cannot have this ID, or "" if it can.
func (r *Registry) refuse(id string) (reason, message string) {
	if id == r.options.Home {
		return DuplicateID, fmt.Sprintf("%s is the ID of this cluster: set a different --cluster-id in each cluster, and name the Secret after the ID of the peer", id)
	}
	if wrong := validation.IsDNS1123Subdomain(id); len(wrong) > 0 {
		return InvalidID, "name the Secret after the cluster ID of the peer: " + strings.Join(wrong, "; ")
	}
	if len(id) > validation.LabelValueMaxLength { // C34: the ID is the value of a label
		return InvalidID, fmt.Sprintf("a cluster ID has at most %d characters: set another --cluster-id in the peer, and name the Secret after it", validation.LabelValueMaxLength)
	}
	return "", ""
}

// conditionLocked returns the peer's condition. If there are several problems, it returns the most
// fundamental one.
func (p *peer) conditionLocked() (reason, message string) {
	c := p.connection
	switch {
	case p.refused != "":
		return p.refused, p.refusal
	case p.broken != nil:
		return InvalidKubeconfig, p.broken.Error()
	case c == nil:
		return Syncing, "connecting"
	}
	if err := c.troubleLocked(); err != nil {
		if at := p.renewal.claims; apierrors.IsUnauthorized(err) && at.expired(p.registry.options.Now()) {
			return Unauthorized, fmt.Sprintf("%s rejected the credentials: the token expired at %s: %s", c.host, rfc3339(at.expires), p.rotate())
		}
		return classify(c.host, err)
	}
	if !c.contents.complete() || p.registry.home.uid == "" {
		return Syncing, "reading from " + c.host
	}
	if reason, message = p.identityLocked(); reason != "" {
		return reason, message
	}
	if _, err := p.secret.limits.parse(); err != nil {
		return InvalidLimits, err.Error() + ". The limits before this change stay in effect. If the controller starts, nothing new of this peer is used"
	}
	if resource, since := c.refusedLocked(); since > staleAfter {
		return Stale, fmt.Sprintf("%s has refused each watch of %s for %v, because it has too many requests: what it exports is no longer up to date. Look at API Priority and Fairness in that cluster",
			c.host, resourceNames[resource], since.Truncate(time.Second))
	}
	return Connected, "reads from " + c.host + c.exposed
}

// troubleLocked returns why the peer cannot be read, or nil. What a request has met tells more than
// silence: a closed port, a name that does not exist.
func (c *connection) troubleLocked() error {
	failed := c.failedLocked()
	switch {
	case !c.silent:
		return failed
	case failed == nil:
		return errSilent
	default:
		return fmt.Errorf("%w. A request failed: %s", errSilent, withoutURL(failed))
	}
}

// staleAfter is how long a busy API server can refuse watches.
const staleAfter = time.Minute

// refusedLocked returns the resource whose watches a busy API server has refused for the longest time.
func (c *connection) refusedLocked() (resource int, longest time.Duration) {
	for i, since := range c.busy {
		if refused := c.peer.registry.options.Now().Sub(since); !since.IsZero() && refused > longest {
			resource, longest = i, refused
		}
	}
	return resource, longest
}

// withoutURL returns the text of an error without the request: the next one is often for another URL,
// and the message would change with it.
func withoutURL(err error) string {
	if request := new(url.Error); errors.As(err, &request) {
		err = request.Err
	}
	return err.Error()
}

// failedLocked returns the first error of a request, or nil.
func (c *connection) failedLocked() error {
	for _, errs := range [][resources]error{c.watching, c.listing} {
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
	}
	return c.probing
}

// classify returns the reason for a failed request, and a message with what to do.
func classify(host string, err error) (reason, message string) {
	var tooLarge tooLargeError
	switch {
	case errors.Is(err, reflector.ErrAbsent), apierrors.IsNotFound(err): // also of a server whose discovery has them
		return NoCRD, host + " does not serve ServiceExports: install the CRDs of the Multi-Cluster Services API in that cluster"
	case apierrors.IsUnauthorized(err):
		return Unauthorized, host + " rejected the credentials, which can have expired: join the peer again"
	case apierrors.IsForbidden(err):
		return Forbidden, fmt.Sprintf("the account needs the role of deploy/peer: run `kubectl apply -k '%s'` in the cluster at %s: %v", mcs.Deploy("peer"), host, err)
	case errors.As(err, &tooLarge):
		return TooLarge, host + ": " + tooLarge.Error()
	case errors.Is(err, reflector.ErrPaged):
		return TooLarge, host + ": " + reflector.ErrPaged.Error()
	case errors.Is(err, errTooHeavy):
		return TooLarge, host + ": " + errTooHeavy.Error()
	default:
		return Unreachable, fmt.Sprintf("%s: %v", host, err)
	}
}

// identityLocked returns what is wrong with the identity of the cluster that the kubeconfig points
// to, or "" if the identity is correct (C51, C53).
func (p *peer) identityLocked() (reason, message string) {
	s, found := p.registry, p.connection.member
	switch first := p.firstLocked(); {
	case found.UID == s.home.uid:
		return DuplicateCluster, fmt.Sprintf("the kubeconfig contains the address of this cluster itself, %s: use the kubeconfig of another cluster", s.options.Home)
	case first != nil:
		return DuplicateCluster, fmt.Sprintf("the kubeconfig contains the address of the cluster of peer %s: delete one of the two Secrets", first.id)
	case found.ID == "":
		return NoController, fmt.Sprintf("that cluster has no Lease %s/%s, which announces its ID: start the controller there. If it runs in another namespace, set the namespace of the context in the kubeconfig",
			p.connection.namespace, member.Name)
	case found.ID == p.id:
		return "", ""
	case found.ID == s.options.Home:
		return DuplicateID, fmt.Sprintf("peer %s announces the ID %s, which is the ID of this cluster: set another --cluster-id for the controller in one of the two clusters", p.id, s.options.Home)
	default:
		return WrongID, fmt.Sprintf("that cluster announces the ID %s: rename the Secret to it, or set --cluster-id=%s in that cluster", found.ID, p.id)
	}
}

// detachLocked keeps a copy of what was read while the peer's identity was correct, once the
// identity is wrong. A cluster under another ID renames its slices, and the renaming would look
// like their deletion.
func (p *peer) detachLocked() {
	if p.connection == nil || p.contents != p.connection.contents || p.registry.home.uid == "" {
		return
	}
	if reason, _ := p.identityLocked(); reason != "" {
		p.contents = p.contents.snapshot()
	}
}

// firstLocked returns the other peer that wins when two Secrets point to the same cluster: the peer
// whose name equals the announced cluster ID. It returns nil if this peer wins. If each of two
// clusters announces its own name, both are peers: one of them may be restored from a copy of the
// other, or may imitate the other so that the other is refused.
func (p *peer) firstLocked() *peer {
	found := p.connection.member
	if found.ID == p.id || found.UID == "" {
		return nil
	}
	for _, other := range p.registry.peers {
		if other == p || other.refused != "" || other.connection == nil {
			continue
		}
		if announced := other.connection.member; announced.UID == found.UID && announced.ID == other.id {
			return other
		}
	}
	return nil
}

// condition is the condition of a peer, with the reason and message that its Lease shows.
type condition struct {
	reason, message string
	connected       bool // can be true with the reason SecretMissing
	// path is what is known of the way to its endpoints, and pathMessage describes it. tested means
	// that it has endpoints to connect to.
	path        datapath.Verdict
	pathMessage string
	tested      bool
	beat        string // the last heartbeat of its controller
	uid         string // of its namespace kube-system, while it is connected
	// tokenExpiry is when the token expires, "" for never. tokenMessage is what is wrong with it, or "".
	tokenExpiry, tokenMessage string
}
