package preference

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Entry is one entry of a list.
type Entry struct {
	text string
	// has reports whether a cluster belongs to the entry.
	has func(c, home Cluster) bool
}

// String returns the entry as it was written.
func (e Entry) String() string { return e.text }

// Cluster is what a choice depends on.
type Cluster struct {
	// ID is the cluster's ID. Home marks the importing cluster.
	ID   string
	Home bool
	// Ready is the number of ready endpoints.
	Ready int
	// Connected reports whether the cluster gets traffic at present.
	Connected bool
	// Properties are the ClusterProperties of the cluster, by their names. They are read-only.
	Properties map[string]string
}

// parseEntry returns the entry of a text, and whether the text has one of the accepted forms.
func parseEntry(text string) (Entry, bool) {
	e := Entry{text: text}
	key, value, equals := strings.Cut(text, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch {
	case text == "local":
		e.has = func(c, _ Cluster) bool { return c.Home }
	case text == "any":
		e.has = func(Cluster, Cluster) bool { return true }
	case key == "cluster" && equals:
		e.has = func(c, _ Cluster) bool { return c.ID == value }
		return e, mcs.ClusterIDFault(value) == ""
	default:
		property, ok := PropertyName(key)
		e.has = func(c, home Cluster) bool {
			have, wanted := c.Properties[property], value
			if !equals {
				wanted = home.Properties[property]
			}
			// A cluster without the property belongs to no value of it. The importing cluster is
			// always as near as itself.
			return have != "" && have == wanted || !equals && c.Home
		}
		return e, ok && strings.Contains(property, ".") && (!equals || value != "" && len(validation.IsValidLabelValue(value)) == 0)
	}
	return e, true
}

// PropertyName returns the name of the ClusterProperty that a key stands for, and whether the key is
// valid. The name of an object has no slash, so the property of the label
// topology.kubernetes.io/region is called region.topology.kubernetes.io, as KEP-2149 puts the domain
// at the end of a name. Both forms are accepted.
func PropertyName(key string) (name string, ok bool) {
	if domain, local, slash := strings.Cut(key, "/"); slash {
		key = local + "." + domain
	}
	return key, len(validation.IsDNS1123Subdomain(key)) == 0
}
