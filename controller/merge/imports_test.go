package merge

import (
	"testing"

	"github.com/clusterset-dns/multicluster/internal/walls"
)

func TestImports(t *testing.T) {
	walls.Stage(t, "controller/preference")
}
