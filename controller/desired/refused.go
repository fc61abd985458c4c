package desired

import (
	"fmt"
	"slices"
	"strings"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/brief"
)

// drop leaves out what the API server refused, if a Service can exist without it.
func (w *desiredService) drop(r observed.Refusal) {
	switch i, isPort := refusedPort(r); {
	case isPort && i < len(w.ports):
		w.note("port %s was refused: %s", describe(w.ports[i]), brief.Clip(r.Message))
		w.ports = slices.Delete(w.ports, i, i+1)
	case r.Field == fieldDistribution && w.distribution != nil:
		w.note("trafficDistribution %q was refused: this API server does not know it", brief.Clip(*w.distribution))
		w.distribution = nil
	}
}

const (
	fieldDistribution = "spec.trafficDistribution"
	fieldClusterIPs   = "spec.clusterIP" // and spec.clusterIPs[0]
	fieldFamilies     = "spec.ipFamil"   // spec.ipFamilies[0], spec.ipFamilyPolicy
)

func refusedPort(r observed.Refusal) (index int, ok bool) {
	n, err := fmt.Sscanf(r.Field, "spec.ports[%d]", &index)
	return index, n == 1 && err == nil
}

func refusedAddress(r observed.Refusal) bool {
	return strings.HasPrefix(r.Field, fieldClusterIPs) || strings.HasPrefix(r.Field, fieldFamilies)
}

// refusedWhole returns a refusal that leaving out a field cannot fix: a name, a quota, a webhook.
func refusedWhole(refused []observed.Refusal) (observed.Refusal, bool) {
	for _, r := range refused {
		if _, isPort := refusedPort(r); !isPort && !refusedAddress(r) && r.Field != fieldDistribution {
			return r, true
		}
	}
	return observed.Refusal{}, false
}

func refusedAny(refused []observed.Refusal) bool { return slices.ContainsFunc(refused, refusedAddress) }
