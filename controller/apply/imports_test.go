package apply

import (
	"testing"

	"github.com/clusterset-dns/multicluster/internal/walls"
)

func TestImports(t *testing.T) {
	walls.Own(t, "controller/contested", "controller/desired", "controller/diff", "controller/observed", "controller/preference", "internal/brief", "internal/mcs", "internal/ownership")
}
