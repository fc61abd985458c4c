package reconcile

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/diff"
)

// publicationEvery is the interval between two looks whether all exports are settled.
const publicationEvery = time.Second

// publication announces to the peers that the slices of this cluster describe its exported Services, as
// soon as they all do. After an upgrade from a release that wrote no descriptions, this takes one pass over
// all exports. Later exports are described from the beginning.
type publication struct {
	exports   client.Reader
	every     time.Duration
	published func() bool // by this controller, or an earlier version
	publish   func()

	done    atomic.Bool
	settled sync.Map // names without a missing write: types.NamespacedName -> true
}

// settle notes the result of a plan.
func (p *publication) settle(name types.NamespacedName, changes diff.Changes) {
	switch {
	case p.done.Load():
	case changes.Writes() == 0:
		p.settled.Store(name, true)
	default:
		p.settled.Delete(name)
	}
}

// NeedLeaderElection returns true: a replica that does not write describes nothing.
func (*publication) NeedLeaderElection() bool { return true }

// Start returns when the announcement is made, or when ctx ends.
func (p *publication) Start(ctx context.Context) error {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for !p.published() {
		complete, err := p.complete(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if complete {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	p.done.Store(true)
	p.settled.Clear()
	p.publish()
	return nil
}

// complete reports whether all exports are settled.
func (p *publication) complete(ctx context.Context) (bool, error) {
	var exports mcsv1beta1.ServiceExportList
	if err := p.exports.List(ctx, &exports, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list exports: %w", err)
	}
	for i := range exports.Items {
		if _, settled := p.settled.Load(client.ObjectKeyFromObject(&exports.Items[i])); !settled {
			return false, nil
		}
	}
	return true, nil
}
