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
	// Expiring is the life of tokens, at least ten minutes. With 0, an existing link keeps its kind of
	// token, and a new one gets a token that does not expire.
	Expiring time.Duration
	// Static gives all links tokens that do not expire.
	Static bool
	// Progress is called while links are awaited, or nil.
	Progress func(connected, all int)
}

// Join makes links. It returns an error before it writes anything if two of the clusters are one, or
// have one ID. What is wrong with one link is in the report.
func Join(ctx context.Context, links []*Link, o Options) (*Report, error) {
	all, notes, err := identify(ctx, links, o.Wait)
	if err != nil {
		return nil, err
	}
	each(ctx, all, func(ctx context.Context, w *work) {
		w.kind = o.kind()
		w.again = w.command("join", w.kind...)
		w.join(ctx, o)
	})
	await(ctx, all, o)
	return report(all, notes), ctx.Err()
}

// work is a link with what became of it.
type work struct {
	*Link

	result Outcome
	// again is the command that does the same once more. kind are its flags for the kind of token.
	again string
	kind  []string

	notes, warnings []string
	// leaseVersion is that of the Lease just before the Secret was changed.
	leaseVersion string
	// manifest is the reading side, by Render, and life that of its tokens, or 0 if they do not expire.
	manifest *Manifest
	life     time.Duration
}

func newWorks(links []*Link) []*work {
	all := make([]*work, len(links))
	for i, l := range links {
		all[i] = &work{Link: l, result: l.outcome()}
	}
	return all
}

func report(all []*work, notes []string) *Report {
	r := &Report{Links: []Outcome{}, Notes: notes}
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
		Fix:  []string{w.again},
	})
}

// command is the command of this program for the link, with what the user gave for it.
func (l *Link) command(name string, flags ...string) string {
	words := append([]string{"kubectl", "multicluster", name, l.To.Context, "--from", output.CSV(l.From.Context)}, flags...)
	for _, m := range []*Member{l.To, l.From} {
		if m.GivenID != "" {
			words = append(words, "--id", m.Context+"="+m.GivenID)
		}
	}
	if name == "join" && l.Server != "" {
		words = append(words, "--server", l.From.Context+"="+l.Server)
	}
	if name == "join" && l.CAFile != "" {
		words = append(words, "--ca", l.From.Context+"="+l.CAFile)
	}
	return output.Command(words...)
}

// kind returns the flags of join that decide about the kind of token.
func (o Options) kind() []string {
	switch {
	case o.Expiring > 0:
		return []string{"--expiring", o.Expiring.String()}
	case o.Static:
		return []string{"--static"}
	}
	return nil
}

// join makes the link: first the granting side, then the reading side.
func (w *work) join(ctx context.Context, o Options) {
	stored, err := w.ready(ctx)
	if err == nil {
		err = w.notForeign(stored)
	}
	if err == nil {
		err = w.notAnother(stored)
	}
	if err == nil {
		err = w.connect(ctx, stored, o.life(stored, w.To.id), o.Wait)
	}
	if err != nil {
		w.fail(err)
	}
}

// life returns the life of the tokens of a link, or 0 if they do not expire.
func (o Options) life(stored *peerSecret, reader string) time.Duration {
	if o.Expiring > 0 || o.Static {
		return o.Expiring
	}
	return stored.life(reader)
}

// ready returns what is stored of a link, if both clusters answer and have an ID.
func (w *work) ready(ctx context.Context) (*peerSecret, error) {
	if err := errors.Join(w.From.fault, w.To.fault); err != nil {
		return nil, err
	}
	return w.stored(ctx)
}

// connect makes both sides of the link. The life is that of the token, or 0 if it does not expire.
func (w *work) connect(ctx context.Context, stored *peerSecret, life, patience time.Duration) error {
	p, err := w.place(stored)
	if err != nil {
		return err
	}
	w.notes, w.warnings = p.notes, p.warnings
	if (life > 0) != (stored.life(w.To.id) > 0) { // which would replace the account, too
		if err := w.notOfHelm(stored); err != nil {
			return err
		}
	}
	c, err := w.credential(ctx, stored, life, patience)
	if err != nil {
		return err
	}
	w.result.Change, err = w.store(ctx, stored, p.server, c)
	w.leaseVersion = stored.leaseVersion()
	if err != nil {
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

func (w *work) credential(ctx context.Context, stored *peerSecret, life, patience time.Duration) (credential, error) {
	if life > 0 {
		return w.expiring(ctx, life, stored)
	}
	return w.static(ctx, patience)
}

// revoke deletes the reader's expiring credential, or its static one.
func (l *Link) revoke(ctx context.Context, expiring bool) (bool, error) {
	if expiring {
		return l.revokeExpiring(ctx)
	}
	return l.revokeStatic(ctx)
}
