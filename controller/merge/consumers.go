package merge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// maxConsumers limits the annotation with the clusters that import a name, in bytes.
const maxConsumers = 4096

// Consumers are the clusters that import a name, besides the one that exports it. nil means all.
// The list never changes.
type Consumers []string

// readConsumers reads the annotation of a ServiceExport. An entry that is not a cluster ID stays in
// the list and has no effect, so that a mistake never exports a name to more clusters.
func readConsumers(annotations map[string]string) Consumers {
	text, found := annotations[mcs.AnnotationToClusters]
	if !found {
		return nil
	}
	if len(text) > maxConsumers { // The last entry can be cut, and would then name another cluster.
		text = text[:max(0, strings.LastIndex(text[:maxConsumers], ","))]
	}
	all := Consumers{}
	for one := range strings.SplitSeq(text, ",") {
		all = append(all, strings.Clone(strings.TrimSpace(one)))
	}
	return all
}

// Have reports whether a cluster imports the name.
func (c Consumers) Have(cluster string) bool { return c == nil || slices.Contains(c, cluster) }

// String returns the list for a message.
func (c Consumers) String() string { return strings.Join(brief.List(c), ", ") }

// Faults describes the entries without an effect.
func (c Consumers) Faults() (faults []string) {
	for _, one := range c {
		if fault := mcs.ClusterIDFault(one); fault != "" {
			faults = append(faults, fmt.Sprintf("%q in the annotation %s %s", brief.Clip(one), mcs.AnnotationToClusters, fault))
		}
	}
	return brief.List(faults)
}
