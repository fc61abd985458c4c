package peers

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// inventory contains the ClusterProfiles of one namespace of this cluster. A profile gives the
// address of a peer whose Secret contains only a token. Guarded by the Registry's mu.
type inventory struct {
	namespace string // "" if no profiles are read
	profiles  profiles
	synced    bool  // a complete list was read
	trouble   error // of the last list or watch
}

// profiles is a table of ClusterProfiles.
type profiles map[types.NamespacedName]profile

func (p profiles) put(id types.NamespacedName, value profile, changed []types.NamespacedName) []types.NamespacedName {
	if was, known := p[id]; known && was == value {
		return changed
	}
	p[id] = value
	return append(changed, id)
}

func (p profiles) drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	if _, known := p[id]; !known {
		return changed
	}
	delete(p, id)
	return append(changed, id)
}

func (p profiles) ids() iter.Seq[types.NamespacedName] { return maps.Keys(p) }

// maxProfiles limits the profiles in which a peer is looked for.
const maxProfiles = 1000

// errUnread means that the profiles are being read for the first time.
var errUnread = errors.New("the ClusterProfiles have not been read yet")

// addressOf returns the address of a peer. While the profiles cannot be read, those that were read
// before count: absent is not empty.
func (i *inventory) addressOf(id string) (address, error) {
	if !i.synced && i.trouble == nil {
		return address{}, errUnread
	}
	found, err := i.find(id)
	if err != nil && i.trouble != nil {
		return address{}, i.trouble
	}
	return found, err
}

// find returns the address in the profile of a cluster: the one whose property contains the ID,
// otherwise the one whose name is the ID and that has no such property.
func (i *inventory) find(id string) (address, error) {
	if len(i.profiles) > maxProfiles {
		return address{}, fmt.Errorf("the namespace %s has more than %d ClusterProfiles, which is the limit: use another namespace for those of this clusterset", i.namespace, maxProfiles)
	}
	var names []string
	for name, one := range i.profiles {
		if one.id == id {
			names = append(names, name.Name)
		}
	}
	named := types.NamespacedName{Namespace: i.namespace, Name: id}
	switch one, exists := i.profiles[named]; {
	case len(names) > 1:
		slices.Sort(names)
		return address{}, fmt.Errorf("the ClusterProfiles %s in the namespace %s have the same property %s=%s: want one profile for each cluster", someOf(names), i.namespace, idProperty, id)
	case len(names) == 1:
		named.Name = names[0]
	case !exists:
		return address{}, fmt.Errorf("no ClusterProfile in the namespace %s has the property %s=%s or the name %s: create it, or put a kubeconfig into the Secret", i.namespace, idProperty, id, id)
	case one.id != "":
		return address{}, fmt.Errorf("the ClusterProfile %s has the property %s=%s: want %s, the name of the Secret", named, idProperty, one.id, id)
	}
	if fault := i.profiles[named].fault; fault != "" {
		return address{}, fmt.Errorf("the ClusterProfile %s %s", named, fault)
	}
	return i.profiles[named].address, nil
}

// maxListed is the number of names that a message lists. It leaves room in maxMessage for the advice after the list.
const maxListed = 10

func someOf(names []string) string {
	if more := len(names) - maxListed; more > 0 {
		names = append(slices.Clone(names[:maxListed]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, " and ")
}

// access is how a peer is reached: a kubeconfig, and the token beside it.
type access struct {
	kubeconfig []byte
	token      string // "" for none
}

func (a access) equal(other access) bool {
	return a.token == other.token && bytes.Equal(a.kubeconfig, other.kubeconfig)
}

// source is what a peer is connected with. Only the peer's run uses it.
type source struct {
	access         // of connection or broken
	fault   string // why there is no kubeconfig
	address address
	made    []byte // the kubeconfig with the address
	stale   error  // why address cannot be found any more
}

// accessLocked returns how a peer is reached, or why that is not known. If the Secret contains only a
// token, the address is that of the ClusterProfile, or the last one that was found: no fault of a
// profile ends a connection.
func (p *peer) accessLocked() (access, error) {
	from := &p.registry.inventory
	if len(p.secret.kubeconfig) > 0 || p.secret.token == "" {
		p.address, p.stale = address{}, nil
		return access{p.secret.kubeconfig, p.secret.token}, nil
	}
	if from.namespace == "" {
		return access{}, fmt.Errorf("the Secret has the key %s and no key %s, which requires the flag --cluster-profiles", tokenKey, kubeconfigKey)
	}
	switch found, err := from.addressOf(p.id); {
	case err == nil && found == p.address:
		p.stale = nil
	case err == nil:
		if p.made, err = found.kubeconfig(); err != nil {
			return access{}, err
		}
		p.address, p.stale = found, nil
	case p.address == address{}:
		return access{}, err
	default:
		p.stale = err
	}
	return access{p.made, p.secret.token}, nil
}

// isUsed reports whether the peer's connection is the one of a source.
func (p *peer) isUsed(of access, err error) bool {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	return errors.Is(err, errUnread) || p.begun && fault == p.fault && of.equal(p.access)
}

// connect prepares the connection of a source. It continues the old one if no request has failed there and only the token
// differs: a new connection would have to read everything again.
func (p *peer) connect(of access, fault error, old *connection) (*connection, error) {
	p.begun, p.access, p.fault = true, of, ""
	if fault != nil {
		p.fault = fault.Error()
		return nil, fault
	}
	to, err := readTarget(of.kubeconfig, of.token)
	if err != nil {
		return nil, err
	}
	p.registry.mu.RLock()
	works := old != nil && old.troubleLocked() == nil
	p.registry.mu.RUnlock()
	if works && to.swapped(old.target, p.registry.options.Now()) {
		old.useToken(to)
		return old, nil
	}
	return newConnection(p, to)
}

// orStale returns the condition of a peer whose address cannot be found any more. The peer stays
// connected with the last one.
func (p *peer) orStale(c condition) condition {
	if p.stale != nil && c.reason == Connected {
		c.reason = InvalidKubeconfig
		c.message = harmless(p.stale.Error() + ". The last address stays in use until the controller restarts: " + p.address.server)
	}
	return c
}
