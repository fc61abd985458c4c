// Package lenient decodes lists and watches of one kind of custom resource, item by item.
//
// The decoders of client-go fail a whole list or watch at the first item that they cannot decode. A
// CRD's schema accepts more than the Go types do: `format: date-time` accepts 2020-01-01t00:00:00z,
// metav1.Time does not. With client-go's decoders, one user with permission to write one object
// hides all objects of that kind from a program, also after a restart. This package decodes only
// the fields of a type that the program defines. An item that cannot be decoded becomes an item
// with Err set, and does not affect the other items.
//
// To use it, define a type with the fields that are needed, embed Base, and add DeepCopyObject:
//
//	type export struct {
//		lenient.Base
//		Spec struct {
//			Annotations map[string]string `json:"annotations"`
//		} `json:"spec"`
//	}
//
//	func (e *export) DeepCopyObject() runtime.Object { c := *e; return &c }
//
// Create a REST client with its own rest.Config (rest.CopyConfig copies one), and set the
// serializer:
//
//	config.NegotiatedSerializer = lenient.Serializer[export]("ServiceExport")
//
// A reflector of that client needs the expected type &export{}. Its store gets *export: metadata is
// in the fields of metav1.ObjectMeta, and Err is nil unless a field has the wrong type. Namespace
// and name are known in nearly all cases, because decoding continues after a field of the wrong
// type.
//
// Do not use types with an UnmarshalJSON method that can fail, such as metav1.Time: fields after it can
// then be missing. Use strings, and ParseTime.
//
// An API server writes each event of a watch on one line. This package expects that: an event on
// several lines is an error, and one without an end of line was cut. So an event in the usual form is
// parsed once; client-go's decoders parse it several times.
//
// Answers that are not a list, object or Status of the given kind are errors: absent is not empty.
package lenient
