package diff

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/observed"
)

// Written are the contestable fields that the changes set, each with its value.
func (c *Changes) Written() contested.Fields {
	written := contested.Fields{}
	if c.Import != nil {
		written.AddImport(c.Import.Old, c.Import.New)
	}
	if c.ImportStatus != nil {
		written.AddImportStatus(c.ImportStatus.Old, c.ImportStatus.New)
	}
	if c.ExportStatus != nil {
		written.AddExportStatus(c.ExportStatus.Old, c.ExportStatus.New)
	}
	if c.ServiceStatus != nil {
		written.AddServiceStatus(c.ServiceStatus.Old, c.ServiceStatus.New)
	}
	if c.Service != nil {
		written.AddService(c.Service.Old, c.Service.New)
	}
	return written
}

// Move is a slice whose content is not known here: it is copied under another name, with the label of another Service, and then deleted.
type Move struct {
	Slice         *discoveryv1.EndpointSlice
	Name, Service string
}

// Moved is the slice as it is to be created: live is the one that is there, with its content.
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

// Changes are the writes that are missing. The zero value is none. apply.Writer.Do has the order in which they are made.
type Changes struct {
	// CreateImport and DeleteImport are of an import of ours.
	CreateImport, DeleteImport *mcsv1beta1.ServiceImport
	// Create is the derived Service, to be made.
	Create *corev1.Service
	// Service and ServiceStatus are edits of the derived Service; never both in one plan.
	Service, ServiceStatus *Edit[*corev1.Service]
	// Evict are EndpointSlices of others, sorted by name, that belong to the derived Service of an import of ours: to be deleted. Nothing
	// waits for that, and no condition: what others make again and again, or the server keeps, would hold it up without end. Apply emits an event for
	// those that it has deleted.
	Evict []*discoveryv1.EndpointSlice
	// Heal are the leaks to be repaired, by an empty slice of the name that each had.
	Heal []observed.Leak
	// CreateSlices, UpdateSlices and DeleteSlices are of slices of ours, sorted by name. An update has the whole slice.
	// They come before the addresses, so that a name that can be resolved leads somewhere.
	CreateSlices, DeleteSlices []*discoveryv1.EndpointSlice
	UpdateSlices               []Edit[*discoveryv1.EndpointSlice]
	// MoveSlices are slices of ours, sorted by name, that get another name and Service.
	MoveSlices []Move
	// Import and ImportStatus are edits of the import; never both in one plan.
	Import, ImportStatus *Edit[*mcsv1beta1.ServiceImport]
	// Slices are edits of the labels of slices of ours, sorted by name.
	Slices []Edit[*discoveryv1.EndpointSlice]
	// Delete are Services of ours, sorted by name.
	Delete []*corev1.Service
	// ExportStatus is an edit of this cluster's ServiceExport.
	ExportStatus *Edit[*mcsv1beta1.ServiceExport]
	// Events are emitted for the import, ExportEvents for the export, after the writes have succeeded.
	Events, ExportEvents []desired.Event

	// Ready is the import's condition as it stands; the zero value while writes are still missing.
	Ready metav1.Condition
	// ExportConditions are those of the export, as they stand or are planned; none while writes are still missing.
	ExportConditions []metav1.Condition
	// Retry is true where the world may change without any object telling us (a quota, an address range).
	Retry bool
	// RetryAddress is true where the recorded addresses were refused and are to be asked for again.
	RetryAddress bool
	// Notes are on slices that cannot be had.
	Notes []string
}

// Edit is an object as it was read and as it should be; only the difference is written.
type Edit[T any] struct{ Old, New T }

// Writes counts the planned writes for which a condition waits, events left out.
func (c *Changes) Writes() int {
	n := len(c.MoveSlices) + len(c.Slices) + len(c.CreateSlices) + len(c.UpdateSlices) + len(c.DeleteSlices) + len(c.Delete)
	for _, planned := range []bool{
		c.CreateImport != nil, c.DeleteImport != nil, c.Create != nil, c.Service != nil, c.ServiceStatus != nil, c.Import != nil,
		c.ImportStatus != nil, c.ExportStatus != nil,
	} {
		if planned {
			n++
		}
	}
	return n
}

// Empty is true when nothing is to be written or told.
func (c *Changes) Empty() bool {
	return c.Writes() == 0 && len(c.Evict)+len(c.Heal)+len(c.Events)+len(c.ExportEvents) == 0
}
