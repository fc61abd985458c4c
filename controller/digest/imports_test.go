package digest

import (
	"testing"

	"github.com/clusterset-dns/multicluster/internal/walls"
)

func TestImports(t *testing.T) {
	walls.Pure(t, "controller/preference")
}
