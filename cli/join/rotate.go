package join

import (
	"context"
	"time"

	"github.com/clusterset-dns/multicluster/deploy/peer"
)

// defaultLife is the life of a token whose predecessor has none that can be read.
const defaultLife = 24 * time.Hour

// Rotate gives the readers of links new credentials. It revokes the former ones first: until the new
// one is stored, a moment later, the reader can be refused. Links that do not exist stay so.
func Rotate(ctx context.Context, links []*Link, o Options) (*Report, error) {
	all, notes, err := identify(ctx, links, o.Wait)
	if err != nil {
		return nil, err
	}
	each(ctx, all, func(ctx context.Context, w *work) {
		w.again = w.command("rotate")
		w.rotate(ctx, o.Wait)
	})
	await(ctx, all, o)
	return report(all, notes), ctx.Err()
}

func (w *work) rotate(ctx context.Context, patience time.Duration) {
	stored, err := w.ready(ctx)
	if err != nil {
		w.fail(err)
		return
	}
	if stored.object == nil || stored.foreign() {
		w.result.Change = NotJoined
		return
	}
	// What can fail without a change comes before the revocation.
	if _, err = w.place(stored); err == nil {
		err = w.notOfHelm(stored)
	}
	if err != nil {
		w.fail(err)
		return
	}
	life := stored.life(w.To.id)
	if life > 0 {
		err = w.revokeAccount(ctx)
	} else {
		_, err = w.revokeStatic(ctx)
	}
	if err == nil {
		err = w.connect(ctx, stored, life, patience)
	}
	if err != nil {
		w.fail(err)
	}
}

// revokeAccount deletes the reader's account only, which revokes its tokens. Its rights, by name, stay
// for the next account.
func (w *work) revokeAccount(ctx context.Context) error {
	objects, err := peer.Reader(w.To.id)
	if err != nil {
		return err
	}
	_, err = remove(ctx, w.From.Cluster, objects[0])
	return err
}
