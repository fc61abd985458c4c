package reconcile

import (
	"testing"

	"github.com/clusterset-dns/multicluster/internal/walls"
)

func TestImports(t *testing.T) {
	walls.Own(t, "controller/apply", "controller/autoexport", "controller/contested", "controller/desired", "controller/diff", "controller/digest", "controller/merge", "controller/observed", "controller/peers", "controller/plan", "controller/preference", "internal/compact", "internal/lenient", "internal/mcs", "internal/member", "internal/ownership", "internal/reflector")
}
