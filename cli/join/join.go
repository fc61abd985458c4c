package join

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// Options are those of Join.
type Options struct {
	// Wait is how long to wait for IDs, for tokens and for connections. 0 waits for tokens only, half a
	// minute.
	Wait time.Duration
	// Expiring is the life of tokens, at least ten minutes, or 0 for tokens that do not expire.
	Expiring time.Duration
	// Progress is called while links are awaited, or nil.
	Progress func(connected, all int)
}

// Join makes links. It returns an error before it writes anything if two of the clusters are one, or
// have one ID. What is wrong with one link is in the report.
func Join(ctx context.Context, links []*Link, o Options) (*Report, error) {
	if err := identify(ctx, members(links), o.Wait); err != nil {
		return nil, err
	}
	all := newWorks(links)
	each(ctx, all, func(ctx context.Context, w *work) { w.join(ctx, o) })
	await(ctx, all, o)
	return report(all), ctx.Err()
}

// work is a link with what became of it.
type work struct {
	*Link

	result          Outcome
	notes, warnings []string
	// leaseVersion is that of the Lease before the Secret was changed.
	leaseVersion string
	// manifest is the reading side, by Render.
	manifest *Manifest
}

func newWorks(links []*Link) []*work {
	all := make([]*work, len(links))
	for i, l := range links {
		all[i] = &work{Link: l, result: l.outcome()}
	}
	return all
}

func report(all []*work) *Report {
	r := &Report{Links: []Outcome{}}
	for _, w := range all {
		r.Links = append(r.Links, w.result)
		r.Notes = append(r.Notes, w.notes...)
		r.Warnings = append(r.Warnings, w.warnings...)
	}
	slices.Sort(r.Notes)
	slices.Sort(r.Warnings)
	r.Notes, r.Warnings = slices.Compact(r.Notes), slices.Compact(r.Warnings)
	return r
}

// fail notes that the link is not as it should be.
func (w *work) fail(err error) {
	w.result.Change = Failed
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			w.fail(one)
		}
		return
	}
	var known *fault
	if errors.As(err, &known) {
		w.result.Problems = append(w.result.Problems, known.Problem)
		return
	}
	w.result.Problems = append(w.result.Problems, output.Problem{
		ID:   "RequestFailed",
		What: fmt.Sprintf("%s cannot read %s: %s", w.To.called(), w.From.called(), output.Clean(err.Error())),
		Fix:  []string{w.command("join")},
	})
}

// command is the command of this program for the link.
func (l *Link) command(name string) string {
	return output.Command("kubectl", "multicluster", name, l.To.Context, "--from", l.From.Context)
}

// join makes the link: first the granting side, then the reading side.
func (w *work) join(ctx context.Context, o Options) {
	stored, err := w.ready(ctx)
	if err == nil {
		err = w.notForeign(stored)
	}
	if err == nil {
		err = w.connect(ctx, stored, o)
	}
	if err != nil {
		w.fail(err)
	}
}

// ready returns what is stored of a link, if both clusters answer and have an ID.
func (w *work) ready(ctx context.Context) (*peerSecret, error) {
	if err := errors.Join(w.From.fault, w.To.fault); err != nil {
		return nil, err
	}
	return w.stored(ctx)
}

func (w *work) connect(ctx context.Context, stored *peerSecret, o Options) error {
	p, err := w.place(stored)
	if err != nil {
		return err
	}
	w.notes, w.warnings, w.leaseVersion = p.notes, p.warnings, stored.leaseVersion()
	c, err := w.credential(ctx, stored, o)
	if err != nil {
		return err
	}
	if w.result.Change, err = w.store(ctx, stored, p.server, c); err != nil {
		return err
	}
	// The old kind of credential is of no use any longer.
	dropped, err := w.revoke(ctx, !c.renewed)
	if isOfHelm(err) { // whose values ask for it
		err = nil
	}
	if w.result.Change == Unchanged && (c.wrote || dropped) {
		w.result.Change = Updated
	}
	return err
}

func (w *work) credential(ctx context.Context, stored *peerSecret, o Options) (credential, error) {
	if o.Expiring > 0 {
		return w.expiring(ctx, o.Expiring, stored)
	}
	return w.static(ctx, o)
}

// revoke deletes the reader's expiring credential, or its static one.
func (l *Link) revoke(ctx context.Context, expiring bool) (bool, error) {
	if expiring {
		return l.revokeExpiring(ctx)
	}
	return l.revokeStatic(ctx)
}
