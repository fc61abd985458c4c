package diff

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Move is a slice whose content is not known here. The slice is copied under another name, with the
// label of another Service, and then deleted.
type Move struct {
	Slice         *discoveryv1.EndpointSlice
	Name, Service string
}

// Moved returns the slice to create. live is the existing slice, with its content.
func (m Move) Moved(live *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	slice := live.DeepCopy()
	slice.ObjectMeta = metav1.ObjectMeta{
		Namespace: live.Namespace, Name: m.Name, Labels: slice.Labels, Annotations: slice.Annotations, OwnerReferences: slice.OwnerReferences,
	}
	delete(slice.Labels, discoveryv1.LabelServiceName)
	if m.Service != "" {
		slice.Labels[discoveryv1.LabelServiceName] = m.Service
	}
	return slice
}

// Keep is a slice that stays, and whose content is not known here. Its labels are corrected, and it is put on
// standby, or taken from it. Disconnect means that kube-proxy must not use its endpoints as before while it is
// on standby.
type Keep struct {
	Slice      *discoveryv1.EndpointSlice
	Labels     map[string]string
	Standby    preference.Standby
	Disconnect bool
}

// Kept returns the slice to write. live is the existing slice, with its content.
func (k Keep) Kept(live *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	slice := live.DeepCopy()
	slice.Labels = maps.Clone(k.Labels)
	if k.Standby == preference.StandbyOf(slice) {
		return slice
	}
	preference.Connect(slice)
	switch {
	case k.Standby == preference.Connected:
	case k.Disconnect:
		preference.Disconnect(slice, k.Standby)
	default:
		slice.Labels[mcs.LabelStandby] = string(k.Standby)
	}
	return slice
}

// Native are the writes of the Service with an import's own name. At most one is set.
type Native struct {
	// Apply is the Service of the controller to create or correct, with the fields that it sets. Have
	// is the existing Service, or nil.
	Apply, Have *corev1.Service
	// Delete is a Service of the controller.
	Delete *corev1.Service
	// Release is a Service that a user has taken over from the controller.
	Release *corev1.Service
}

// Changes are the missing writes. The zero value has none. apply.Writer.Do documents their order.
type Changes struct {
	// CreateImport and DeleteImport are imports of the controller.
	CreateImport, DeleteImport *mcsv1beta1.ServiceImport
	// Create is the derived Service to create.
	Create *corev1.Service
	// Service and ServiceStatus are edits of the derived Service. A plan never has both.
	Service, ServiceStatus *Edit[*corev1.Service]
	// Evict are EndpointSlices of others that belong to a Service of the controller, the derived one or that with the
	// import's own name, whose import the controller owns. They are deleted. No other write and no condition waits for this:
	// other users could create such slices again and again, or the API server could keep them, and
	// the wait would never end. Package apply emits an event for the deleted slices.
	Evict []*discoveryv1.EndpointSlice
	// Repair are the leaks to repair, each by an empty slice with the name of the lost slice.
	Repair []observed.Leak
	// CreateSlices, UpdateSlices and DeleteSlices are slices of the controller, sorted by name.
	// Updates that connect a slice are the first. An update contains the whole slice. These writes come before the addresses, so that a name that
	// resolves has endpoints.
	CreateSlices, DeleteSlices []*discoveryv1.EndpointSlice
	UpdateSlices               []Edit[*discoveryv1.EndpointSlice]
	// RefusedSlices are desired ones that the API server has refused. What they should contain stays where it is.
	RefusedSlices []*discoveryv1.EndpointSlice
	// MoveSlices are slices of the controller that get another name and Service, sorted by name.
	MoveSlices []Move
	// KeepSlices are slices of the controller with other labels, sorted by name.
	KeepSlices []Keep
	// Import and ImportStatus are edits of the import. A plan never has both.
	Import, ImportStatus *Edit[*mcsv1beta1.ServiceImport]
	// Delete are Services of the controller, sorted by name.
	Delete []*corev1.Service
	// Native are the writes of the Service with the import's own name.
	Native Native
	// ExportStatus is an edit of this cluster's ServiceExport.
	ExportStatus *Edit[*mcsv1beta1.ServiceExport]
	// Events are emitted for the import, and ExportEvents for the export, after the writes have
	// succeeded.
	Events, ExportEvents []desired.Event

	Report
	Next
}

// Report is what a plan reports besides the conditions that it writes.
type Report struct {
	// Ready is the import's current condition. It is the zero value while writes are missing.
	Ready metav1.Condition
	// ExportConditions are the current or planned conditions of the export. There are none while
	// writes are missing.
	ExportConditions []metav1.Condition
	// Notes describe slices that cannot be written.
	Notes []string
}

// Next is what a plan leaves for what follows it: its memory for the next plan, the time until the state can
// change by itself, 0 for never, and the endpoints of other clusters to connect to all the time, by cluster, and
// whether each of them fails.
type Next struct {
	observed.Memory
	Again time.Duration
	Check map[string]map[datapath.Target]bool
}

// Edit is an object as it was read and as it should be. Only the difference is written.
type Edit[T any] struct{ Old, New T }

// Writes returns the number of planned writes that conditions wait for, not counting events.
func (c *Changes) Writes() int {
	n := len(c.MoveSlices) + len(c.KeepSlices) + len(c.CreateSlices) + len(c.UpdateSlices) + len(c.DeleteSlices) + len(c.Delete)
	for _, planned := range []bool{
		c.CreateImport != nil, c.DeleteImport != nil, c.Create != nil, c.Service != nil, c.ServiceStatus != nil, c.Import != nil,
		c.ImportStatus != nil, c.ExportStatus != nil, c.Native != Native{},
	} {
		if planned {
			n++
		}
	}
	return n
}

// Empty reports whether there is nothing to write and no event to emit.
func (c *Changes) Empty() bool {
	return c.Writes() == 0 && len(c.Evict)+len(c.Repair)+len(c.Events)+len(c.ExportEvents) == 0
}
