package diff

import (
	"testing"

	"github.com/clusterset-dns/multicluster/internal/walls"
)

func TestImports(t *testing.T) {
	walls.Stage(t, "controller/contested", "controller/datapath", "controller/desired", "controller/digest", "controller/preference", "controller/observed")
}
