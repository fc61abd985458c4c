package observed

import (
	"testing"

	"github.com/clusterset-dns/multicluster/internal/walls"
)

func TestImports(t *testing.T) {
	walls.Stage(t, "controller/contested", "controller/digest", "controller/merge", "controller/preference")
}
