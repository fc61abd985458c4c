package lenient

import (
	"bytes"
	gojson "encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/json"
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
func (events) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if event, ok := into.(*metav1.WatchEvent); ok && split(data, event) {
		return into, nil, nil
	}
	return into, nil, json.UnmarshalCaseSensitivePreserveInts(data, into)
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
		err = unmarshal(data, object)
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
	err = fields(data, func(key string, d json.Decoder) error {
		switch key {
		case "items":
			kind = a.kind + "List"
		case "kind":
			if err := d.Decode(&kind); err != nil {
				return err
			}
		default:
			return skip(d)
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

// item decodes one object. Only invalid JSON is an error.
func (a *answers[T, P]) item(data []byte) (runtime.Object, error) {
	item := P(new(T))
	err := unmarshal(data, item)
	if isBroken(err) {
		return nil, err
	}
	item.Complete(err)
	return item, nil
}

// unmarshal decodes an object, and ignores what follows it: other keys of its frame.
func unmarshal(data []byte, into any) error {
	err := json.UnmarshalCaseSensitivePreserveInts(data, into)
	if isBroken(err) {
		return json.NewDecoderCaseSensitivePreserveInts(bytes.NewReader(data)).Decode(into)
	}
	return err
}

// list decodes a list. Only invalid JSON, or an answer that is not a list, is an error.
func (a *answers[T, P]) list(data []byte) (runtime.Object, error) {
	list := &List[T, P]{}
	complete := false
	err := fields(data, func(key string, d json.Decoder) (err error) {
		switch key {
		case "kind":
			err = d.Decode(&list.Kind)
		case "metadata":
			err = d.Decode(&list.ListMeta)
		case "items":
			complete = true
			list.Items, err = items[T, P](d)
		default:
			err = skip(d)
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
func items[T any, P Item[T]](d json.Decoder) (all []P, err error) {
	if begin, err := d.Token(); err != nil || begin == nil {
		return nil, err
	} else if begin != gojson.Delim('[') {
		return nil, fmt.Errorf("the items begin with %v", begin)
	}
	for d.More() {
		item := P(new(T))
		err := d.Decode(item)
		if isBroken(err) {
			return nil, err
		}
		item.Complete(err)
		all = append(all, item)
	}
	_, err = d.Token()
	return all, err
}

// fields calls f with each key of a JSON object, and with a decoder positioned before the key's
// value.
func fields(data []byte, f func(key string, d json.Decoder) error) error {
	d := json.NewDecoderCaseSensitivePreserveInts(bytes.NewReader(data))
	if begin, err := d.Token(); err != nil {
		return err
	} else if begin != gojson.Delim('{') {
		return fmt.Errorf("the answer begins with %v", begin)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if err := f(fmt.Sprint(key), d); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func skip(d json.Decoder) error {
	var value gojson.RawMessage
	return d.Decode(&value)
}

// isBroken reports whether the JSON itself is invalid, so that nothing more can be read. Other
// errors mean that a value does not fit its field.
func isBroken(err error) bool {
	syntax, _ := json.SyntaxErrorOffset(err)
	return syntax || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
