package plan

import (
	"github.com/clusterset-dns/multicluster/controller/conditions"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
)

// Plan returns the missing writes for one name.
func Plan(st observed.State) diff.Changes {
	known := observed.Recall(st)
	merged := merge.Merge(known.Members)
	want := desired.Build(st, known, merged)
	changes := diff.Compare(st, want)
	return conditions.Set(st, want, changes)
}
