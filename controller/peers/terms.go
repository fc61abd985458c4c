package peers

import (
	"context"
	"strings"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// A peer describes its exported Services on its slices, if its controller is new enough. Its Services
// are then not read: most of them are not exported, and the account needs no right for them. A peer can
// begin and end to describe them while it is connected, when its controller is replaced.

// publishes reports whether the cluster with an ID describes its exported Services. Only the version that
// counts has to say so: a controller that was replaced by an older one has left its annotation behind.
func (i *identity) publishes(id string) bool {
	of := i.seen[i.speaker(id)]
	return of.build != "" && of.terms == of.build
}

// turnLocked notes whether the peer describes its Services, and wakes followServices if that is new.
func (c *connection) turnLocked() {
	publishes := c.identity.publishes(c.peer.id)
	if c.decided && publishes == c.publishes {
		return
	}
	c.decided, c.publishes = true, publishes
	if publishes { // what was asked of its Services does not matter any more
		c.listing[ofServices], c.watching[ofServices], c.probing[ofServices] = nil, nil, nil
	}
	select {
	case c.turned <- struct{}{}:
	default: // a token is already waiting, and the next look reads the last decision
	}
}

// turnEvery is the shortest time between two changes of the source. Each costs a list of the Services, and a
// hostile peer can change its announcement all the time.
const turnEvery = time.Second

// followServices reads the peer's Services, or their descriptions, whichever the peer has announced,
// until ctx ends. Until the other source is complete, what the last one gave stays.
func (c *connection) followServices(ctx context.Context) {
	stop := func() {}
	for {
		select {
		case <-ctx.Done():
			stop()
			return
		case <-c.turned:
		}
		stop()
		if c.useDescriptions() {
			stop = func() {}
		} else {
			stop = c.readServices(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.peer.registry.turnEvery):
		}
	}
}

// useDescriptions uses the descriptions on the slices from now on, if the peer publishes them.
// Otherwise it returns false, and what is known of the Services stays until they are listed.
func (c *connection) useDescriptions() bool {
	s := c.peer.registry
	s.mu.Lock()
	c.contents.published = c.publishes
	if !c.publishes {
		s.mu.Unlock()
		return false
	}
	changed := c.contents.describeAll()
	c.contents.synced[ofServices] = true
	s.mu.Unlock()
	c.changed(changed)
	return true
}

// readServices follows the Services until stop is called, or until ctx ends. It asks for a list first: a
// user with permission to watch may have no permission to list.
func (c *connection) readServices(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		c.probeOne(ctx, ofServices)
		c.peer.notify()
		c.followers[ofServices].Run(ctx)
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// describeAll replaces what was read of Services by the descriptions on the slices. It returns the exported
// names whose Service has changed.
func (c *contents) describeAll() (changed []types.NamespacedName) {
	for name := range c.services.byName {
		if len(c.slices.byService[name]) == 0 {
			changed = c.services.drop(name, changed)
		}
	}
	for name := range c.slices.byService {
		changed = c.describe(name, changed)
	}
	return changed
}

// describe updates the Service of a name from its slices, and appends the name if an exported Service has
// changed. Of several descriptions, that on the first
// slice by name counts. If no slice has one, a user has removed it, and the last one stays.
func (c *contents) describe(name types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	all := c.slices.byService[name]
	if len(all) == 0 {
		return c.services.drop(name, changed)
	}
	for _, slice := range all {
		text := slice.Annotations[mcs.AnnotationTerms]
		if text == "" {
			continue
		}
		if was := c.services.byName[name]; was != nil && was.key == text {
			break
		}
		spec := &sharedSpec{key: text}
		if spec.ReadTerms(text) {
			return c.services.put(name, spec, changed)
		}
	}
	return changed
}

// maxShared is the length of the longest description that several slices share in memory.
const maxShared = 1 << 10

// keepTerms shares the description on a slice with equal ones, or removes it if it is too long.
func (r *Registry) keepTerms(slice *discoveryv1.EndpointSlice) {
	text, found := slice.Annotations[mcs.AnnotationTerms]
	switch {
	case !found:
	case len(text) > merge.MaxTerms:
		delete(slice.Annotations, mcs.AnnotationTerms)
	case len(text) <= maxShared:
		slice.Annotations[mcs.AnnotationTerms] = *r.strings.One(&text)
	default:
		slice.Annotations[mcs.AnnotationTerms] = strings.Clone(text)
	}
}

// Publish announces that this cluster describes its exported Services on its slices.
func (r *Registry) Publish() {
	r.mu.Lock()
	r.published = true
	r.mu.Unlock()
	r.identityChanged(nil)
}

// unannounced returns the annotations with this controller's version that are missing or wrong. What an
// earlier version has published, this one keeps up to date. So both change in one write.
func (r *Registry) unannounced() map[string]any {
	if !aVersion.MatchString(r.options.Version) {
		return nil
	}
	published := r.Published()
	r.mu.RLock()
	defer r.mu.RUnlock()
	own, missing := r.options.Namespace, map[string]any{}
	seen := r.identity.seen[own]
	if seen.build != r.options.Version {
		missing[mcs.AnnotationVersion] = r.options.Version
	}
	if (published || r.published) && seen.terms != r.options.Version {
		missing[mcs.AnnotationTerms] = r.options.Version
	}
	return missing
}

// Published reports whether this cluster has announced that it describes its exported Services.
func (r *Registry) Published() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	own := r.identity.seen[r.options.Namespace]
	return own.terms != "" && own.terms == own.build
}
