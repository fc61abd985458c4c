package desired

import (
	"testing"

	"github.com/clusterset-dns/multicluster/internal/walls"
)

func TestImports(t *testing.T) {
	walls.Stage(t, "controller/contested", "controller/datapath", "controller/digest", "controller/merge", "controller/observed", "controller/preference")
}
