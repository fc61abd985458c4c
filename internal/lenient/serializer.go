package lenient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// List is a decoded list.
type List[T any, P Item[T]] struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []P
}

// DeepCopyObject implements runtime.Object. A list is never edited, so the copy shares its items.
func (l *List[T, P]) DeepCopyObject() runtime.Object {
	c := *l
	return &c
}

// Serializer returns the serializer of a client that lists and watches one kind.
func Serializer[T any, P Item[T]](kind string) runtime.NegotiatedSerializer {
	return runtime.NewSimpleNegotiatedSerializer(runtime.SerializerInfo{
		MediaType:        runtime.ContentTypeJSON,
		MediaTypeType:    "application",
		MediaTypeSubType: "json",
		EncodesAsText:    true,
		Serializer:       &answers[T, P]{kind: kind},
		StreamSerializer: &runtime.StreamSerializerInfo{EncodesAsText: true, Serializer: events{}, Framer: lines{}},
	})
}

// readOnly is the half of a serializer that a read-only client never uses.
type readOnly struct{}

var errReadOnly = errors.New("this client only reads")

// Encode implements runtime.Encoder.
func (readOnly) Encode(runtime.Object, io.Writer) error { return errReadOnly }

// Identifier implements runtime.Encoder.
func (readOnly) Identifier() runtime.Identifier { return "lenient" }

// events decodes the frames of a watch. Their objects are decoded by answers.
type events struct{ readOnly }

// Decode implements runtime.Decoder.
func (events) Decode(data []byte, _ *schema.GroupVersionKind, object runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	into, ok := object.(*metav1.WatchEvent)
	if !ok {
		return nil, nil, fmt.Errorf("the frame of a watch is no %T", object)
	}
	if split(data, into) {
		return into, nil, nil
	}
	var event struct {
		Type   string         `json:"type"`
		Object jsontext.Value `json:"object"`
	}
	if err := json.Unmarshal(data, &event, quick); err != nil {
		return nil, nil, err
	}
	into.Type, into.Object.Raw = event.Type, event.Object
	return into, nil, nil
}

// split takes a frame apart that has the form in which an API server writes it,
// {"type":"ADDED","object":{…}}, and reports whether it has. The object is not copied: client-go decodes
// it before it reads the next frame. It is not parsed either: what follows it in the frame,
// such as other keys, is ignored by answers.
func split(frame []byte, into *metav1.WatchEvent) bool {
	kind, object, found := bytes.Cut(frame, []byte(`","object":`))
	kind, begins := bytes.CutPrefix(kind, []byte(`{"type":"`))
	object, ends := bytes.CutSuffix(object, []byte{'}'})
	if !found || !begins || !ends || bytes.ContainsAny(kind, `"\`) {
		return false
	}
	into.Type, into.Object.Raw = string(kind), object
	return true
}

// answers decodes the server's answer to a list, and the objects of a watch's events.
type answers[T any, P Item[T]] struct {
	readOnly
	kind string
}

// Decode implements runtime.Decoder.
func (a *answers[T, P]) Decode(data []byte, _ *schema.GroupVersionKind, _ runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	kind, err := a.kindOf(data)
	if err != nil {
		return nil, nil, fmt.Errorf("decode %s: %w", a.kind, err)
	}
	var object runtime.Object
	switch kind {
	case a.kind + "List":
		object, err = a.list(data)
	case a.kind:
		object, err = a.item(data)
	case "Status":
		object = &metav1.Status{}
		err = json.UnmarshalDecode(jsontext.NewDecoder(bytes.NewBuffer(data), jsonv1.DefaultOptionsV1()), object)
	default:
		err = fmt.Errorf("got the kind %q", kind)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("decode %s: %w", a.kind, err)
	}
	return object, &schema.GroupVersionKind{Kind: kind}, nil
}

// kindOf returns the kind of an answer. It reads no more than necessary: an API server writes the
// kind before everything long, except in a list, where the items come first.
func (a *answers[T, P]) kindOf(data []byte) (kind string, err error) {
	// An API server sorts the keys of a custom resource. This is how nearly all answers begin.
	if rest, found := bytes.CutPrefix(data, []byte(`{"apiVersion":"`)); found {
		_, rest, _ = bytes.Cut(rest, []byte{'"'})
		if bytes.HasPrefix(rest, []byte(`,"kind":"`+a.kind+`",`)) {
			return a.kind, nil
		}
	}
	found := errors.New("found")
	err = fields(data, func(key string, d *jsontext.Decoder) error {
		switch key {
		case "items":
			kind = a.kind + "List"
		case "kind":
			if err := json.UnmarshalDecode(d, &kind); err != nil {
				return err
			}
		default:
			return d.SkipValue()
		}
		return found
	})
	if errors.Is(err, found) {
		return kind, nil
	}
	if err == nil {
		err = errors.New("the answer has no kind")
	}
	return "", err
}

// An API server has written what is decoded: its names are not repeated, and comparing them would cost time.
var (
	// quick stops at the first value that does not fit its field.
	quick = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	// patient continues after such a value, and parses everything twice.
	patient = json.JoinOptions(quick, jsonv1.ReportErrorsWithLegacySemantics(true))
)

// item decodes one object, and ignores what follows it: other keys of its frame. Only invalid JSON is an error.
func (a *answers[T, P]) item(data []byte) (runtime.Object, error) {
	item := P(new(T))
	if err := json.Unmarshal(data, item, quick); err != nil {
		value, err := jsontext.NewDecoder(bytes.NewBuffer(data), quick).ReadValue()
		if err != nil {
			return nil, err
		}
		return itemOf[T, P](value), nil
	}
	item.Complete(nil)
	return item, nil
}

// itemOf decodes an object that is valid JSON.
func itemOf[T any, P Item[T]](value jsontext.Value) P {
	item := P(new(T))
	err := json.Unmarshal(value, item, quick)
	if err != nil {
		item = P(new(T))
		err = json.Unmarshal(value, item, patient)
	}
	if misfit, ok := errors.AsType[*jsonv1.UnmarshalTypeError](err); ok {
		misfit.Field = withoutPositions(misfit.Field)
	}
	item.Complete(err)
	return item
}

// withoutPositions returns the path of a field without the positions in lists: an object whose fault moves has the same fault.
func withoutPositions(path string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(path, "."), func(part string) bool {
		_, err := strconv.Atoi(part)
		return err == nil
	}), ".")
}

// list decodes a list. Only invalid JSON, or an answer that is not a list, is an error.
func (a *answers[T, P]) list(data []byte) (runtime.Object, error) {
	list := &List[T, P]{}
	complete := false
	err := fields(data, func(key string, d *jsontext.Decoder) (err error) {
		switch key {
		case "kind":
			err = json.UnmarshalDecode(d, &list.Kind)
		case "metadata":
			err = json.UnmarshalDecode(d, &list.ListMeta)
		case "items":
			complete = true
			list.Items, err = items[T, P](d)
		default:
			err = d.SkipValue()
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case list.Kind != a.kind+"List":
		return nil, fmt.Errorf("got a list of the kind %q", list.Kind)
	case !complete:
		return nil, errors.New("got a list without items")
	}
	return list, nil
}

// items decodes the items of a list, which can be null.
func items[T any, P Item[T]](d *jsontext.Decoder) (all []P, err error) {
	begin, err := d.ReadToken()
	if err != nil || begin.Kind() == jsontext.KindNull {
		return nil, err
	}
	if begin.Kind() != jsontext.KindBeginArray {
		return nil, fmt.Errorf("the items begin with %v", begin)
	}
	for d.PeekKind() != jsontext.KindEndArray {
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		all = append(all, itemOf[T, P](value))
	}
	_, err = d.ReadToken()
	return all, err
}

// fields calls f with each key of a JSON object, and with a decoder positioned before the key's
// value.
func fields(data []byte, f func(key string, d *jsontext.Decoder) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(data), quick)
	if begin, err := d.ReadToken(); err != nil {
		return err
	} else if begin.Kind() != jsontext.KindBeginObject {
		return fmt.Errorf("the answer begins with %v", begin)
	}
	for d.PeekKind() != jsontext.KindEndObject {
		key, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := f(key.String(), d); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}
