package lenient

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Item is the pointer to a type that embeds Base.
type Item[T any] interface {
	*T
	runtime.Object
	metav1.Object
	// Complete is called once, after decoding. err is nil for an item that was decoded completely.
	Complete(err error)
}

// Base is the part that all items have.
type Base struct {
	// ObjectMeta has the fields of Metadata, with times parsed.
	metav1.ObjectMeta `json:"-"`
	// Metadata is the metadata as decoded. Complete clears it.
	Metadata Metadata `json:"metadata"`
	// Err is the first error of decoding. Fields that caused no error have their values.
	Err error `json:"-"`
}

// Metadata are the decoded fields of an object's metadata. Others are empty in ObjectMeta.
type Metadata struct {
	Namespace         string            `json:"namespace"`
	Name              string            `json:"name"`
	UID               types.UID         `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	CreationTimestamp string            `json:"creationTimestamp"`
	DeletionTimestamp string            `json:"deletionTimestamp"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	ManagedFields     []Written         `json:"managedFields"`
}

// Written is an entry of managedFields without the list of fields, which is most of an object's
// bytes.
type Written struct {
	Time string `json:"time"`
}

// GetObjectKind implements runtime.Object. The client knows the kind.
func (b *Base) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// Complete implements Item.
func (b *Base) Complete(err error) {
	m := b.Metadata
	b.Err, b.Metadata = err, Metadata{}
	b.ObjectMeta = metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: metav1.NewTime(ParseTime(m.CreationTimestamp)),
		Labels:            m.Labels, Annotations: m.Annotations,
	}
	if m.DeletionTimestamp != "" {
		b.DeletionTimestamp = &metav1.Time{Time: ParseTime(m.DeletionTimestamp)}
	}
	if len(m.ManagedFields) == 0 {
		return
	}
	b.ManagedFields = make([]metav1.ManagedFieldsEntry, len(m.ManagedFields))
	for i, written := range m.ManagedFields {
		b.ManagedFields[i].Time = &metav1.Time{Time: ParseTime(written.Time)}
	}
}

// ParseTime returns the time in a text, or the zero time if the text is not an RFC 3339 time.
func ParseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}
