package merge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/brief"
)

// Conflict describes where the exports of one name disagree. The zero value means that they agree.
// Each export has it in its condition (C10).
type Conflict struct {
	// Reasons are in a fixed order. The condition joins them with commas (C7).
	Reasons []string
	// Message contains the value in use, the reason for it, and how many clusters disagree (C9).
	Message string
}

// maxMessage limits the text from other clusters in the condition, which can have 32768 bytes.
const maxMessage = 4000

// These are reasons of this project: the annotations that choose between the clusters differ, or
// only some exports ask for the Service's own name.
const (
	reasonPreferenceConflict mcsv1beta1.ServiceExportConditionReason = "ClusterPreferenceConflict"
	reasonProbeConflict      mcsv1beta1.ServiceExportConditionReason = "ProbeConflict"
	reasonNativeNameConflict mcsv1beta1.ServiceExportConditionReason = "NativeNameConflict"
)

// comparison is one property in which the exports should agree.
type comparison struct {
	reason mcsv1beta1.ServiceExportConditionReason
	field  string
	// differs reports whether a member has another value than the one in use. oldest is the member
	// whose export won.
	differs func(used *Merged, oldest, other Member) bool
	// using returns the value in use and its source.
	using func(used *Merged, oldest string) string
	// details describes the members that disagree, oldest first.
	details func(used *Merged, disagree []Member) string
}

// comparisons are in the order of the reasons in the condition.
var comparisons = []comparison{
	{
		mcsv1beta1.ServiceExportReasonPortConflict, "ports",
		func(used *Merged, _, other Member) bool {
			return !maps.Equal(portSet(used.Ports), portSet(other.Service.Ports))
		},
		func(_ *Merged, oldest string) string {
			return fmt.Sprintf("the union of all, the older port where two clash, starting from oldest service export in %q", oldest)
		},
		portDetails,
	},
	oldestWins(mcsv1beta1.ServiceExportReasonTypeConflict, "type",
		func(used *Merged) string { return string(used.Type) },
		func(used *Merged, _, other Member) bool { return other.Service.Type != used.Type }),
	oldestWins(mcsv1beta1.ServiceExportReasonSessionAffinityConflict, "session affinity",
		func(used *Merged) string { return string(used.Affinity) },
		func(used *Merged, _, other Member) bool {
			return used.Type != mcsv1beta1.Headless && other.Service.Affinity != used.Affinity
		}),
	oldestWins(mcsv1beta1.ServiceExportReasonSessionAffinityConfigConflict, "session affinity config",
		func(used *Merged) string { return fmt.Sprintf("timeoutSeconds: %d", used.AffinityTimeout) },
		func(used *Merged, _, other Member) bool {
			return used.Type != mcsv1beta1.Headless && other.Service.Affinity == used.Affinity && other.Service.AffinityTimeout != used.AffinityTimeout
		}),
	oldestWins(mcsv1beta1.ServiceExportReasonLabelsConflict, "labels",
		func(used *Merged) string { return pairs(used.Labels) },
		func(_ *Merged, oldest, other Member) bool {
			return oldest.Export.AllLabels != other.Export.AllLabels
		}),
	oldestWins(mcsv1beta1.ServiceExportReasonAnnotationsConflict, "annotations",
		func(used *Merged) string { return pairs(used.Annotations) },
		func(_ *Merged, oldest, other Member) bool {
			return oldest.Export.AllAnnotations != other.Export.AllAnnotations
		}),
	oldestWins(mcsv1beta1.ServiceExportReasonInternalTrafficPolicyConflict, "internal traffic policy",
		func(used *Merged) string { return string(used.InternalPolicy) },
		func(used *Merged, _, other Member) bool { return other.Service.InternalPolicy != used.InternalPolicy }),
	oldestWins(mcsv1beta1.ServiceExportReasonTrafficDistributionConflict, "traffic distribution",
		func(used *Merged) string { return used.Distribution },
		func(used *Merged, _, other Member) bool { return other.Service.Distribution != used.Distribution }),
	oldestWins(reasonPreferenceConflict, "cluster preference",
		func(used *Merged) string { return used.Preference.String() },
		func(used *Merged, _, other Member) bool { return other.Export.Preference != used.Preference }),
	oldestWins(reasonNativeNameConflict, "native name",
		func(used *Merged) string { return strconv.FormatBool(used.NativeName) },
		func(used *Merged, _, other Member) bool { return other.Export.NativeName != used.NativeName }),
	oldestWins(reasonProbeConflict, "probe",
		func(used *Merged) string { return strconv.FormatBool(used.Probe) },
		func(used *Merged, _, other Member) bool { return other.Export.Probe != used.Probe }),
	oldestWins(mcsv1beta1.ServiceExportReasonIPFamilyConflict, "IP families",
		func(used *Merged) string { return familyList(used.Families) },
		// If the exporters have a common family, there is no conflict. Otherwise the families in
		// use do not reach some backends (C19).
		func(used *Merged, _, other Member) bool {
			return len(other.Service.Families) > 0 && slices.ContainsFunc(used.Families, func(f corev1.IPFamily) bool { return !slices.Contains(other.Service.Families, f) })
		}),
}

func oldestWins(reason mcsv1beta1.ServiceExportConditionReason, field string, value func(*Merged) string,
	differs func(used *Merged, oldest, other Member) bool,
) comparison {
	return comparison{
		reason, field, differs,
		func(used *Merged, oldest string) string {
			return fmt.Sprintf("%q from oldest service export in %q", cmp.Or(brief.Clip(value(used)), "none"), oldest)
		},
		func(*Merged, []Member) string { return "" },
	}
}

// conflicts compares the exporters, oldest first, with the merge.
func conflicts(used *Merged, exporters []Member) Conflict {
	var c Conflict
	var messages []string
	oldest := exporters[0]
	for _, compared := range comparisons {
		disagree := slices.DeleteFunc(slices.Clone(exporters), func(m Member) bool { return !compared.differs(used, oldest, m) })
		if len(disagree) == 0 {
			continue
		}
		c.Reasons = append(c.Reasons, string(compared.reason))
		messages = append(messages, fmt.Sprintf("Conflicting %s. Using %s. %d/%d clusters disagree%s.",
			compared.field, compared.using(used, oldest.Cluster), len(disagree), len(exporters), compared.details(used, disagree)))
	}
	c.Message = strings.Join(messages, " ")
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage], "") + "..."
	}
	return c
}

// portKey is the part of a port that is compared.
type portKey struct {
	name        string
	protocol    corev1.Protocol
	port        int32
	appProtocol string
}

func keyOf(p mcsv1beta1.ServicePort) portKey {
	key := portKey{p.Name, p.Protocol, p.Port, ""}
	if p.AppProtocol != nil {
		key.appProtocol = *p.AppProtocol
	}
	return key
}

func (k portKey) String() string {
	text := fmt.Sprintf("%d/%s", k.port, brief.Clip(string(k.protocol)))
	if k.name != "" {
		text += fmt.Sprintf(" %q", brief.Clip(k.name))
	}
	if k.appProtocol != "" {
		text += fmt.Sprintf(" (%s)", brief.Clip(k.appProtocol))
	}
	return text
}

func portSet(ports []mcsv1beta1.ServicePort) map[portKey]bool {
	set := make(map[portKey]bool, len(ports))
	for _, p := range ports {
		set[keyOf(p)] = true
	}
	return set
}

// portDetails lists the ports that lost a clash, then the missing ports and the clusters without
// them.
func portDetails(used *Merged, disagree []Member) string {
	union := portSet(used.Ports)
	var details []string
	for _, m := range disagree {
		for _, p := range m.Service.Ports {
			if winner, clash := clashing(used.Ports, p); clash && !union[keyOf(p)] {
				details = append(details, fmt.Sprintf("%q has %s against %s", m.Cluster, keyOf(p), keyOf(winner)))
			}
		}
	}
	for _, p := range used.Ports {
		var without []string
		for _, m := range disagree {
			if _, has := clashing(m.Service.Ports, p); !has {
				without = append(without, fmt.Sprintf("%q", m.Cluster))
			}
		}
		if len(without) > 0 {
			details = append(details, fmt.Sprintf("%s is not in %s", keyOf(p), strings.Join(brief.List(without), ", ")))
		}
	}
	return ": " + strings.Join(brief.List(details), "; ")
}

func pairs(all map[string]string) string {
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, key+"="+all[key])
	}
	return strings.Join(texts, ",")
}

func familyList(families []corev1.IPFamily) string {
	var texts []string
	for _, f := range families {
		texts = append(texts, string(f))
	}
	return strings.Join(texts, ",")
}
