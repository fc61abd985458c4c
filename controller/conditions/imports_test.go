package conditions

import (
	"testing"

	"github.com/clusterset-dns/multicluster/internal/walls"
)

func TestImports(t *testing.T) {
	walls.Stage(t, "controller/contested", "controller/datapath", "controller/desired", "controller/diff", "controller/merge", "controller/observed", "controller/preference")
}
