package join

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/cli/output"
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
	if err == nil {
		err = w.notAnother(stored)
	}
	if err == nil {
		err = w.writable(ctx, stored)
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

// writable returns an error if the reader's Secret cannot be written. It is tried without an effect, so that
// rights and admission are known before a token is revoked.
func (w *work) writable(ctx context.Context, stored *peerSecret) error {
	want, data := w.secret(stored.renews()), map[string]any{}
	for key, value := range stored.object.Data {
		data[key] = base64.StdEncoding.EncodeToString(value)
	}
	want.Object["data"] = data
	options := metav1.ApplyOptions{FieldManager: manager, Force: true, DryRun: []string{metav1.DryRunAll}}
	if _, err := client(w.To.Cluster, want).Apply(ctx, want.GetName(), want, options); err != nil {
		return fmt.Errorf("nothing is revoked, because the new token cannot be stored: apply %s in %s: %s", describe(want), output.Clean(w.To.Context), without(err, stored.token))
	}
	return nil
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
