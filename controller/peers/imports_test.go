package peers

import (
	"testing"

	"github.com/clusterset-dns/multicluster/internal/walls"
)

func TestImports(t *testing.T) {
	walls.Own(t, "controller/datapath", "controller/merge", "controller/preference", "internal/brief", "internal/compact", "internal/lenient", "internal/mcs", "internal/member", "internal/ownership", "internal/reflector")
}
