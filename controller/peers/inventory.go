package peers

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

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

// source is what a peer is connected with. Only the peer's run uses it.
type source struct {
	kubeconfig []byte // of connection or broken
	fault      string // why there is no kubeconfig
	address    address
	stale      error // why address cannot be found any more
	made       madeKubeconfig
}

// madeKubeconfig is the last kubeconfig that was made of an address and a token. A peer asks for it at
// each evaluation.
type madeKubeconfig struct {
	address
	token, text []byte
}

// sourceLocked returns the kubeconfig of a peer, or why there is none. If the Secret contains only a
// token, the address is that of the ClusterProfile, or the last one that was found: no fault of a
// profile ends a connection.
func (p *peer) sourceLocked() (kubeconfig []byte, err error) {
	from := &p.registry.inventory
	if len(p.secret.kubeconfig) > 0 || len(p.secret.token) == 0 {
		p.address, p.stale = address{}, nil
		return p.secret.kubeconfig, nil
	}
	if from.namespace == "" {
		return nil, fmt.Errorf("the Secret has the key %s and no key %s, which requires the flag --cluster-profiles", tokenKey, kubeconfigKey)
	}
	switch found, err := from.addressOf(p.id); {
	case err == nil:
		p.address, p.stale = found, nil
	case p.address == address{}:
		return nil, err
	default:
		p.stale = err
	}
	if p.made.text == nil || p.made.address != p.address || !bytes.Equal(p.made.token, p.secret.token) {
		text, err := p.address.kubeconfig(p.secret.token)
		if err != nil {
			return nil, err
		}
		p.made = madeKubeconfig{p.address, p.secret.token, text}
	}
	return p.made.text, nil
}

// isUsed reports whether the peer's connection is the one of a source.
func (p *peer) isUsed(kubeconfig []byte, err error) bool {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	return errors.Is(err, errUnread) || p.begun && fault == p.fault && bytes.Equal(kubeconfig, p.kubeconfig)
}

// connect prepares the connection of a source.
func (p *peer) connect(kubeconfig []byte, err error) (*connection, error) {
	p.begun, p.kubeconfig, p.fault = true, kubeconfig, ""
	if err != nil {
		p.fault = err.Error()
		return nil, err
	}
	return newConnection(p, kubeconfig)
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
