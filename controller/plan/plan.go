package plan

import (
	"github.com/clusterset-dns/multicluster/controller/conditions"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
)

// Plan plans what is missing for one name: the import that the clusterset gives, then everything that belongs to an import.
func Plan(st observed.State) diff.Changes {
	d := desired.Build(st)
	c := diff.Compare(st, d)
	return conditions.Set(st, d, c)
}
