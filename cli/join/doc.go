// Package join lets clusters read each other, and takes that back: the work of `kubectl multicluster
// join`, `leave` and `rotate`.
//
// A [Link] is one direction: the cluster To reads the cluster From. It consists of two parts, both in
// the namespace of the controller:
//
//   - In From, the granting side (package deploy/peer): an account, and a token of it for this reader.
//   - In To, the reading side: a Secret with the ID of From as its name, and a kubeconfig with the token.
//
// Everything is read before it is written, and written only if it differs. One cluster that does not
// answer does not stop the links of the others. Tokens are only in the Secrets: never in an error, a
// report or an annotation.
package join

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// manager is the field manager of all writes.
const manager = "kubectl-multicluster"

// limit bounds how many links or clusters are worked on at a time.
const limit = 32

// Change is what a command did to a link.
type Change string

// The changes.
const (
	Created   Change = "created"
	Updated   Change = "updated"
	Deleted   Change = "deleted"
	Unchanged Change = "unchanged"
	// NotJoined is the change of a link that does not exist, by Rotate.
	NotJoined Change = "not joined"
	// Failed means that the link, or one side of it, is not as it should be. The outcome has a problem.
	Failed Change = "failed"
)

// Outcome is what became of one link. From and To are contexts.
type Outcome struct {
	From   string `json:"from"`
	To     string `json:"to"`
	FromID string `json:"fromID,omitempty"`
	ToID   string `json:"toID,omitempty"`
	Change Change `json:"change"`
	// State is the reason of the peer's Lease in To: Connected, or why it is not. It is empty if nobody
	// waited for it.
	State    string           `json:"state,omitempty"`
	Problems []output.Problem `json:"problems,omitempty"`
}

// Report is what became of all links.
type Report struct {
	Links []Outcome `json:"links"`
	// Others are problems that no link has.
	Others []output.Problem `json:"others,omitempty"`
	// Notes are sentences about decisions that a user may not expect.
	Notes []string `json:"notes,omitempty"`
	// Warnings are sentences about what probably does not work.
	Warnings []string `json:"warnings,omitempty"`
}

// Wrong reports whether something has to be repaired.
func (r *Report) Wrong() bool { return len(r.Problems()) > 0 }

// Problems returns the different problems, those of links in their order.
func (r *Report) Problems() []output.Problem {
	var all []output.Problem
	seen := map[string]bool{}
	add := func(problems []output.Problem) {
		for _, p := range problems {
			if !seen[p.ID+p.What] {
				seen[p.ID+p.What] = true
				all = append(all, p)
			}
		}
	}
	for i := range r.Links {
		add(r.Links[i].Problems)
	}
	add(r.Others)
	return all
}

// fault is a problem as an error.
type fault struct{ output.Problem }

func (f *fault) Error() string { return f.What }

// each runs a function for each item, several at a time, and waits for all.
func each[T any](ctx context.Context, all []T, do func(context.Context, T)) {
	var group errgroup.Group
	group.SetLimit(limit)
	for _, one := range all {
		group.Go(func() error {
			do(ctx, one)
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
}
