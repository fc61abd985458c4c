// Package member is what the controller of a cluster announces to the other clusters: one Lease in its own namespace. It is shown by
//
//	kubectl -n multicluster-system get lease multicluster-member -o yaml
//
// Only users with permission to write Leases in that namespace can announce something. A peer's account reads this Lease, and needs no
// right for Namespaces.
package member

import (
	"regexp"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Name is the name of the Lease.
const Name = "multicluster-member"

// The annotations of the Lease.
const (
	annotationUID        = mcs.AnnotationClusterUID
	annotationVersion    = "clusterset-dns.io/controller-version"
	annotationProperties = "clusterset-dns.io/cluster-properties"
	annotationExports    = "clusterset-dns.io/export-namespaces"
)

// Limits of what is read, in bytes. What a peer announces reaches messages, metrics and memory.
const (
	maxUID        = 36 // the length of a UID in the API
	maxProperties = 16 << 10
	maxNamespaces = 128 << 10
)

// aVersion limits what can be announced as a version: the value is the label of a metric.
var aVersion = regexp.MustCompile(`^[0-9A-Za-z.+_-]{1,64}$`)

// Announcement is what a cluster announces. The zero value is that of a cluster without a controller.
type Announcement struct {
	// ID is the cluster ID, in spec.holderIdentity. A text that is longer than an ID can be (C34) is cut, and is no ID.
	ID string
	// UID is the UID of the namespace kube-system, which is unique for each cluster. Two clusters can announce one ID by mistake.
	UID string
	// Version is the version of the controller, or "".
	Version string
	// Properties are those of the cluster, in the form of a label selector: "region.topology.kubernetes.io=eu".
	Properties string
	// Limited means that the cluster exports only from the namespaces in Exports, which has commas. Otherwise it exports from all.
	Limited bool
	Exports string
	// Renewed is when the controller last showed that it runs, in spec.renewTime, by the clock of its node.
	Renewed time.Time
}

// Read returns what a Lease announces. What is malformed or too long is left out; a list of namespaces that is too long announces that
// nothing is exported, because a limit that cannot be read is not a permission.
func Read(l *coordinationv1.Lease) Announcement {
	var a Announcement
	if l.Spec.HolderIdentity != nil {
		a.ID = strings.Clone(*l.Spec.HolderIdentity)
	}
	if len(a.ID) > validation.LabelValueMaxLength {
		a.ID = a.ID[:validation.LabelValueMaxLength] + "..."
	}
	if l.Spec.RenewTime != nil {
		a.Renewed = l.Spec.RenewTime.Time
	}
	a.UID = upTo(maxUID, l.Annotations[annotationUID])
	a.Properties = upTo(maxProperties, l.Annotations[annotationProperties])
	if version := l.Annotations[annotationVersion]; aVersion.MatchString(version) {
		a.Version = strings.Clone(version)
	}
	a.Exports, a.Limited = l.Annotations[annotationExports]
	a.Exports = upTo(maxNamespaces, a.Exports)
	return a
}

// upTo returns a copy of a text that may have so many bytes, or "".
func upTo(most int, text string) string {
	if len(text) > most {
		return ""
	}
	return strings.Clone(text)
}

// Lease returns the Lease that announces this, and the annotations that it must not have. lasts is how long the
// announcement counts without a new one.
func (a Announcement) Lease(namespace string, lasts time.Duration) (l *coordinationv1.Lease, unset []string) {
	l = &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: Name, Labels: map[string]string{mcs.LabelManagedBy: mcs.ControllerName}, Annotations: map[string]string{},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(a.ID), LeaseDurationSeconds: new(int32(max(1, lasts/time.Second))), RenewTime: new(metav1.NewMicroTime(a.Renewed)),
		},
	}
	for _, of := range []struct {
		key, value string
		there      bool
	}{
		{annotationUID, a.UID, a.UID != ""},
		{annotationVersion, a.Version, aVersion.MatchString(a.Version)},
		{annotationProperties, a.Properties, a.Properties != ""},
		{annotationExports, a.Exports, a.Limited},
	} {
		if of.there {
			l.Annotations[of.key] = of.value
		} else {
			unset = append(unset, of.key)
		}
	}
	return l, unset
}

// Same reports whether two announcements differ at most in the time of their renewal.
func (a Announcement) Same(other Announcement) bool {
	a.Renewed = other.Renewed
	return a == other
}

// AllProperties returns the properties by their names, or nil if they are malformed.
func (a Announcement) AllProperties() map[string]string {
	if a.Properties == "" {
		return nil
	}
	all, err := labels.ConvertSelectorToLabelsMap(a.Properties)
	if err != nil {
		return nil
	}
	return all
}

// Namespaces returns the namespaces to export from, or nil for all.
func (a Announcement) Namespaces() map[string]bool {
	if !a.Limited {
		return nil
	}
	all := map[string]bool{}
	for name := range strings.SplitSeq(a.Exports, ",") {
		if name = strings.TrimSpace(name); name != "" {
			all[name] = true
		}
	}
	return all
}
