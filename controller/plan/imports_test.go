package plan

import (
	"testing"

	"github.com/clusterset-dns/multicluster/internal/walls"
)

func TestImports(t *testing.T) {
	walls.Stage(t, "controller/conditions", "controller/desired", "controller/diff", "controller/merge", "controller/observed")
}
