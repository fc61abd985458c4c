package multicluster

import (
	"slices"
	"testing"

	"github.com/coredns/coredns/plugin/pkg/fall"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

func TestCacheBypassZones(t *testing.T) {
	all := []string{"clusterset.local.", "other.example."}
	for name, test := range map[string]struct {
		fall fall.F
		want []string
	}{
		"nothing falls through":                       {fall.Zero, all},
		"everything can fall through":                 {fall.Root, nil},
		"all names of a zone can":                     {fall.F{Zones: []string{"clusterset.local."}}, all[1:]},
		"some names of a zone can":                    {fall.F{Zones: []string{"a.clusterset.local."}}, all[1:]},
		"the zone is below one whose names can":       {fall.F{Zones: []string{"local."}}, all[1:]},
		"names of another zone can":                   {fall.F{Zones: []string{"example.org."}}, all},
		"only the end of the zone's name is the same": {fall.F{Zones: []string{"xclusterset.local.", "set.local."}}, all},
	} {
		m := &Multicluster{fall: test.fall}
		for _, zone := range []string{"clusterset.local.", "cluster.local.", "other.example."} {
			m.zones = append(m.zones, index.Zone{Name: zone, Alias: zone == "cluster.local."})
		}
		if got := m.CacheBypassZones(); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// CoreDNS finds the method by its type alone: without this, another signature would go unnoticed.
var _ interface{ CacheBypassZones() []string } = (*Multicluster)(nil)
