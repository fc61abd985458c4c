package peers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/reflector"
)

// Reasons of a peer's condition. Only the first is a connected peer.
const (
	Connected         = "Connected"
	Syncing           = "Syncing"
	InvalidID         = "InvalidID"
	DuplicateID       = "DuplicateID"
	DuplicateCluster  = "DuplicateCluster"
	InvalidKubeconfig = "InvalidKubeconfig"
	SecretMissing     = "SecretMissing"
	Leaving           = "Leaving"
	Unauthorized      = "Unauthorized"
	Forbidden         = "Forbidden"
	NoCRD             = "NoCRD"
	NoController      = "NoController"
	WrongID           = "WrongID"
	TooLarge          = "TooLarge"
	Unreachable       = "Unreachable"
)

// refuse returns why no peer can have an id; "" if one can.
func (r *Registry) refuse(id string) (reason, message string) {
	if id == r.options.Home {
		return DuplicateID, fmt.Sprintf("%s is the id of this cluster: give each cluster its own --cluster-id, and name the Secret after that of the peer", id)
	}
	if wrong := validation.IsDNS1123Subdomain(id); len(wrong) > 0 {
		return InvalidID, "name the Secret after the peer's cluster id: " + strings.Join(wrong, "; ")
	}
	if len(id) > validation.LabelValueMaxLength { // C34: it is the value of a label
		return InvalidID, fmt.Sprintf("a cluster id has at most %d characters: give the peer another --cluster-id, and name the Secret after it", validation.LabelValueMaxLength)
	}
	return "", ""
}

// conditionLocked returns the peer's condition: the most fundamental problem first.
func (p *peer) conditionLocked() (reason, message string) {
	c := p.connection
	switch {
	case p.refused != "":
		return p.refused, p.refusal
	case p.broken != nil:
		return InvalidKubeconfig, p.broken.Error()
	case c == nil:
		return Syncing, "about to connect"
	}
	if err := c.troubleLocked(); err != nil {
		return classify(c.host, err)
	}
	if !c.probed || !c.contents.complete() || p.registry.identity.uid == "" {
		return Syncing, "reading from " + c.host
	}
	if reason, message = p.identityLocked(); reason != "" {
		return reason, message
	}
	return Connected, "reads from " + c.host
}

// classify returns what a failed request means, and what to do.
func classify(host string, err error) (reason, message string) {
	switch {
	case errors.Is(err, reflector.ErrAbsent):
		return NoCRD, host + " does not serve ServiceExports: install the CRDs of the Multi-Cluster Services API there"
	case apierrors.IsUnauthorized(err):
		return Unauthorized, host + " does not accept the credentials, which may have expired: join the peer again"
	case apierrors.IsForbidden(err):
		return Forbidden, fmt.Sprintf("give the account the role of deploy/peer on %s: %v", host, err)
	case errors.Is(err, errTooLarge):
		return TooLarge, host + ": " + errTooLarge.Error() + ", which is the limit for one list"
	case errors.Is(err, reflector.ErrPaged):
		return TooLarge, host + ": " + reflector.ErrPaged.Error()
	case errors.Is(err, errTooHeavy):
		return TooLarge, host + ": " + errTooHeavy.Error()
	default:
		return Unreachable, fmt.Sprintf("%s: %v", host, err)
	}
}

// identityLocked returns what is wrong with the identity of the cluster at the other end; "" for nothing (C51, C53).
func (p *peer) identityLocked() (reason, message string) {
	s, found := p.registry, &p.connection.identity
	announced := found.announced()
	switch first := p.firstLocked(); {
	case found.uid == s.identity.uid:
		return DuplicateCluster, fmt.Sprintf("the kubeconfig leads to this cluster itself, %s: a peer is another cluster", s.options.Home)
	case first != nil:
		return DuplicateCluster, fmt.Sprintf("the kubeconfig leads to the cluster of the peer %s: delete one of the two Secrets", first.id)
	case len(announced) == 0:
		return NoController, "no namespace there has the annotation " + mcs.AnnotationClusterID + ": start the controller in that cluster"
	case found.announces(p.id):
		return "", ""
	case found.announces(s.options.Home):
		return DuplicateID, fmt.Sprintf("that cluster says that it is %s, as this one does: give one of them another --cluster-id", s.options.Home)
	default:
		return WrongID, fmt.Sprintf("that cluster says that it is %s: name the Secret after it, or give it the --cluster-id %s", someOf(announced), p.id)
	}
}

// maxListed is how many ids a message lists: so many fit, with the advice after them (maxMessage). Whoever may annotate namespaces of a peer can
// announce any number.
const maxListed = 10

func someOf(ids []string) string {
	if more := len(ids) - maxListed; more > 0 {
		ids = append(slices.Clone(ids[:maxListed]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(ids, " and ")
}

// detachLocked keeps what a peer reported while its identity was right, once it is wrong: a cluster under another id renames its slices,
// which would read as their end.
func (p *peer) detachLocked() {
	if p.connection == nil || p.contents != p.connection.contents || p.registry.identity.uid == "" {
		return
	}
	if reason, _ := p.identityLocked(); reason != "" {
		p.contents = p.contents.snapshot()
	}
}

// firstLocked returns the other peer that wins when two Secrets point to the same cluster: the one whose name equals the announced cluster
// ID; nil if this peer wins. Where each of two clusters announces its own name, both are peers: one of them may have been restored from a copy
// of the other, or pretend to be the other to have it refused.
func (p *peer) firstLocked() *peer {
	if p.connection.identity.announces(p.id) {
		return nil
	}
	for _, other := range p.registry.peers {
		if other == p || other.refused != "" || other.connection == nil || other.connection.identity.uid != p.connection.identity.uid {
			continue
		}
		if other.connection.identity.announces(other.id) {
			return other
		}
	}
	return nil
}

// changesLocked returns the names that a new state, or other contents, change.
func changesLocked(before, after PeerState, was, is *contents) []types.NamespacedName {
	switch {
	case before == after && was == is:
		return nil
	case before == after && was != nil:
		return sortedNames(differences(was, is))
	case is != nil:
		return sortedNames(is.allNames())
	}
	return nil
}

// condition is a peer's: reason and message, as on its Lease.
type condition struct {
	reason, message string
	connected       bool // also where the reason is about something else
}
