package reconcile

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
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
	settled   func(types.NamespacedName) bool // nothing is missing of the export
}

// NeedLeaderElection returns true: a replica that does not write describes nothing.
func (*publication) NeedLeaderElection() bool { return true }

// Start returns when the announcement is made, or when ctx ends.
func (p *publication) Start(ctx context.Context) error {
	err := poll(ctx, p.every, true, func(ctx context.Context) (bool, error) {
		if p.published() {
			return true, nil
		}
		return p.complete(ctx)
	})
	if err == nil && ctx.Err() == nil {
		p.publish()
	}
	return err
}

// complete reports whether all exports are settled.
func (p *publication) complete(ctx context.Context) (bool, error) {
	var exports mcsv1beta1.ServiceExportList
	if err := p.exports.List(ctx, &exports, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list exports: %w", err)
	}
	for i := range exports.Items {
		if !p.settled(client.ObjectKeyFromObject(&exports.Items[i])) {
			return false, nil
		}
	}
	return true, nil
}
