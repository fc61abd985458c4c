package lenient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// thing is the item of the tests, with the fields that they need.
type thing struct {
	Base
	Spec struct {
		IPs   []string `json:"ips"`
		Ports []struct {
			Name string `json:"name"`
			Port int32  `json:"port"`
		} `json:"ports"`
	} `json:"spec"`
}

func (t *thing) DeepCopyObject() runtime.Object { c := *t; return &c }

// decoders returns the decoders that a client gets for JSON.
func decoders(t testing.TB, s runtime.NegotiatedSerializer) (whole, event runtime.Decoder, framer runtime.Framer) {
	t.Helper()
	negotiator := runtime.NewClientNegotiator(s, schema.GroupVersion{Group: "example.org", Version: "v1"})
	whole, err := negotiator.Decoder("application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, event, framer, err = negotiator.StreamDecoder("application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	return whole, event, framer
}

func decode(t testing.TB, text string) (runtime.Object, error) {
	t.Helper()
	d, _, _ := decoders(t, Serializer[thing]("Thing"))
	return runtime.Decode(d, []byte(text))
}

// summary returns the result of each item of a list.
func summary(list runtime.Object) (all []string) {
	for _, item := range list.(*List[thing, *thing]).Items {
		word := "ok"
		if item.Err != nil {
			word = "undecodable"
		}
		all = append(all, fmt.Sprintf("%s/%s %s %v", item.Namespace, item.Name, word, item.Spec.IPs))
	}
	return all
}

// An item that cannot be decoded affects no other item.
func TestAnUndecodableItemCostsOnlyItself(t *testing.T) {
	const ok = `{"metadata": {"namespace": "ns", "name": "ok"}, "spec": {"ips": ["10.0.0.1"]}}`
	for name, test := range map[string]struct{ item, want string }{
		"a time that is no RFC 3339 time, in a field that is not needed": {
			`{"metadata": {"namespace": "ns", "name": "bad"}, "status": {"conditions": [{"lastTransitionTime": "2020-01-01t00:00:00z"}]}}`, "ns/bad ok []"},
		"a field of another type": {
			`{"metadata": {"namespace": "ns", "name": "bad"}, "spec": {"ports": [{"port": "http"}], "ips": ["10.0.0.2"]}}`, "ns/bad undecodable [10.0.0.2]"},
		"a field of another type before the name": {
			`{"spec": {"ips": 5}, "metadata": {"namespace": "ns", "name": "bad"}}`, "ns/bad undecodable []"},
		"a number that is too large": {
			`{"metadata": {"namespace": "ns", "name": "bad"}, "spec": {"ports": [{"port": 99999999999}]}}`, "ns/bad undecodable []"},
		"metadata of another type":          {`{"metadata": "none", "spec": {}}`, "/ undecodable []"},
		"an item that is no object":         {`"odd"`, "/ undecodable []"},
		"an item that is a list":            {`[1, {"a": 2}]`, "/ undecodable []"},
		"an item that is null":              {`null`, "/ ok []"},
		"a deletion time that is no time":   {`{"metadata": {"namespace": "ns", "name": "bad", "deletionTimestamp": "soon"}}`, "ns/bad ok []"},
		"written at a time that is no time": {`{"metadata": {"namespace": "ns", "name": "bad", "managedFields": [{"time": "soon"}]}}`, "ns/bad ok []"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := decode(t, `{"apiVersion": "example.org/v1", "items": [`+ok+`,`+test.item+`,`+ok+`], "kind": "ThingList", "metadata": {"resourceVersion": "7"}}`)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"ns/ok ok [10.0.0.1]", test.want, "ns/ok ok [10.0.0.1]"}
			if got := summary(list); strings.Join(got, "; ") != strings.Join(want, "; ") {
				t.Errorf("got %q, want %q", got, want)
			}
			if m, err := meta.ListAccessor(list); err != nil || m.GetResourceVersion() != "7" {
				t.Errorf("the list's resource version: %v, %v", m, err)
			}
			if objects, err := meta.ExtractListWithAlloc(list); err != nil || len(objects) != 3 {
				t.Errorf("a reflector gets %d objects, %v", len(objects), err)
			}
		})
	}
}

func TestMetadataIsThatOfTheObject(t *testing.T) {
	got, err := decode(t, `{"kind": "Thing", "metadata": {"namespace": "ns", "name": "foo", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"},
"annotations": {"k8s.io/initial-events-end": "true"}, "creationTimestamp": "2023-11-14T22:13:20Z", "deletionTimestamp": "2023-11-14T22:14:20Z",
"managedFields": [{"time": "2023-11-14T22:13:20Z", "fieldsV1": {"f:spec": {}}}, {}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	m, err := meta.Accessor(got)
	if err != nil {
		t.Fatal(err)
	}
	created, deleted := time.Unix(1700000000, 0), time.Unix(1700000060, 0)
	if m.GetNamespace() != "ns" || m.GetName() != "foo" || m.GetUID() != "u" || m.GetResourceVersion() != "7" || m.GetLabels()["a"] != "b" ||
		m.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" ||
		!m.GetCreationTimestamp().Time.Equal(created) || !m.GetDeletionTimestamp().Time.Equal(deleted) ||
		len(m.GetManagedFields()) != 2 || !m.GetManagedFields()[0].Time.Time.Equal(created) || !m.GetManagedFields()[1].Time.IsZero() {
		t.Errorf("got %+v", m)
	}
}

// Absent is not empty: only a list of the kind is an empty list.
func TestAnswersOfAnotherFormAreErrors(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                       ``,
		"no JSON":                       `<html>`,
		"an object without content":     `{}`,
		"an array":                      `[]`,
		"a string":                      `"ThingList"`,
		"a list of another kind":        `{"kind": "SecretList", "items": []}`,
		"another kind after the items":  `{"items": [], "kind": "SecretList"}`,
		"an object of another kind":     `{"kind": "Secret"}`,
		"a list without items":          `{"kind": "ThingList", "metadata": {}}`,
		"a list without a kind":         `{"items": []}`,
		"items that are no list":        `{"items": {}, "kind": "ThingList"}`,
		"a kind that is no text":        `{"kind": 5}`,
		"a list that is cut":            `{"items": [{"metadata": {"name": "a"}}`,
		"a list that is cut in items":   `{"items": [{"metadata": {"name": "a"`,
		"a list that is cut at its end": `{"items": [], "kind": "ThingList"`,
		"a list with a slip":            `{"items": [{"metadata": {"name": a}}], "kind": "ThingList"}`,
		"an object that is cut":         `{"kind": "Thing", "metadata": {"name": "a"`,
		"an object as a server writes it, of another kind": `{"apiVersion":"v1","kind":"Secret","metadata":{}}`,
		"an object as a server writes it, that is cut":     `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := decode(t, text); err == nil {
				t.Errorf("got %+v, want an error", got)
			}
		})
	}
	for _, text := range []string{`{"items": [], "kind": "ThingList"}`, `{"kind": "ThingList", "items": null}`} {
		if list, err := decode(t, text); err != nil || len(summary(list)) != 0 {
			t.Errorf("%s: got %v, %v; want an empty list", text, list, err)
		}
	}
}

func TestAStatusIsAStatus(t *testing.T) {
	got, err := decode(t, `{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410}`)
	if err != nil {
		t.Fatal(err)
	}
	if !apierrors.IsResourceExpired(apierrors.FromObject(got)) {
		t.Errorf("got %+v, want an error that the resource version is too old", got)
	}
}

// A watch continues after an object that cannot be decoded, and its bookmarks have the type that a
// reflector expects.
func TestWatchContinuesAfterAnUndecodableObject(t *testing.T) {
	object, event, framer := decoders(t, Serializer[thing]("Thing"))
	stream := io.NopCloser(strings.NewReader(`{"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"ips": 5}}}
{"type": "BOOKMARK", "object": {"kind": "Thing", "metadata": {"resourceVersion": "8", "creationTimestamp": null}, "spec": {"ports": null}}}
{"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"}}
`))
	d := restwatch.NewDecoder(streaming.NewDecoder(framer.NewFrameReader(stream), event), object)
	for _, want := range []watch.EventType{watch.Added, watch.Bookmark} {
		typ, got, err := d.Decode()
		item, ok := got.(*thing)
		if err != nil || typ != want || !ok {
			t.Fatalf("got %s %T, %v; want %s of a thing", typ, got, err, want)
		}
		if bad := item.Err != nil; bad != (want == watch.Added) {
			t.Errorf("%s: %v", want, item.Err)
		}
	}
	if typ, got, err := d.Decode(); err != nil || typ != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(got)) {
		t.Errorf("got %s %v, %v; want the error", typ, got, err)
	}
	if _, _, err := d.Decode(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// firstEvent decodes a stream up to its first event.
func firstEvent(t *testing.T, stream string) (runtime.Object, watch.EventType, error) {
	t.Helper()
	object, event, framer := decoders(t, Serializer[thing]("Thing"))
	typ, got, err := restwatch.NewDecoder(streaming.NewDecoder(framer.NewFrameReader(io.NopCloser(strings.NewReader(stream))), event), object).Decode()
	return got, typ, err
}

// A frame means the same in the form in which an API server writes it, which is read faster, and in any
// other form.
func TestFramesOfAnyForm(t *testing.T) {
	const a = `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"},"spec":{"ips":["10.0.0.1"]}}`
	for name, frame := range map[string]string{
		"of an API server":         `{"type":"ADDED","object":` + a + "}",
		"with a line before":       "\n" + `{"type":"ADDED","object":` + a + "}",
		"with another end of line": `{"type":"ADDED","object":` + a + "}\r",
		"the keys the other way":   `{"object":` + a + `,"type":"ADDED"}`,
		"with spaces":              `{ "type": "ADDED", "object": ` + a + ` }`,
		"with spaces in between":   `{"type":"ADDED","object": ` + a + " \t}",
		"a key after the object":   `{"type":"ADDED","object":` + a + `,"more":{}}`,
		"a key before the object":  `{"type":"ADDED","more":{},"object":` + a + `}`,
		"a text before the object": `{"type":"ADDED","more":"text","object":` + a + `}`,
		"a text like the object":   `{"type":"ADDED","more":"\",\"object\":{}","object":` + a + `}`,
		"an escape in the type":    `{"type":"\u0041DDED","object":` + a + `}`,
		"an escape before the end": `{"type":"ADDED","object":` + a + `,"more":"\\"}`,
	} {
		t.Run(name, func(t *testing.T) {
			got, typ, err := firstEvent(t, frame+"\n")
			if err != nil || typ != watch.Added {
				t.Fatalf("got %s, %v", typ, err)
			}
			if item := got.(*thing); item.Name != "a" || item.Err != nil || len(item.Spec.IPs) != 1 {
				t.Errorf("got %+v", item)
			}
		})
	}
	got, _, err := firstEvent(t, `{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","code":410,"reason":"Expired"},"more":{}}`+"\n")
	if err != nil || !apierrors.IsResourceExpired(apierrors.FromObject(got)) {
		t.Errorf("a key after a Status: got %+v, %v", got, err)
	}
	for _, frame := range []string{"{", `{"type":"ADDED","object":`, `{"type":"ADDED","object":}`, `{"type":"ADDED","object":{}`, `{"type":"ADDED","object":` + a} {
		if got, _, err := firstEvent(t, frame+"\n"); err == nil {
			t.Errorf("%q is %+v, want an error", frame, got)
		}
	}
}

// A stream that ends after an event and one that ends within an event are different errors.
func TestTheEndOfAStream(t *testing.T) {
	const whole = `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Thing","metadata":{}}}`
	for stream, want := range map[string]error{"": io.EOF, " \n\n": io.EOF, whole: io.ErrUnexpectedEOF, whole[:20]: io.ErrUnexpectedEOF} {
		if _, _, err := firstEvent(t, stream); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", stream, err, want)
		}
	}
	timeout := iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(whole)))
	if _, err := (lines{}).NewFrameReader(io.NopCloser(timeout)).Read(make([]byte, 1024)); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("a reader that fails: %v", err)
	}
}

// An event can be as large as client-go's limit. It is read in parts, and the next one is whole.
func TestLargeEvents(t *testing.T) {
	const limit = 16 << 20
	frame := func(size int) string {
		begin, end := `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Thing","metadata":{"name":"`, `"}}}`
		return begin + strings.Repeat("a", size-len(begin)-len(end)) + end
	}
	for size, want := range map[int]error{1023: nil, 1024: nil, 1025: nil, 4096: nil, 1 << 20: nil, limit: nil, limit + 1: streaming.ErrObjectTooLarge} {
		_, events, framer := decoders(t, Serializer[thing]("Thing"))
		d := streaming.NewDecoder(framer.NewFrameReader(io.NopCloser(strings.NewReader(frame(size)+"\n"+frame(200)+"\n"))), events)
		var event metav1.WatchEvent
		if _, _, err := d.Decode(nil, &event); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
		if _, _, err := d.Decode(nil, &event); err != nil || len(event.Object.Raw) != 200-len(`{"type":"ADDED","object":}`) {
			t.Errorf("after %d bytes: %v, %s", size, err, event.Object.Raw)
		}
	}
}

// All events of a stream arrive, however its reader divides it, and none waits for the next one.
func TestEventsOfAnyReader(t *testing.T) {
	const a, b = `{"type":"ADDED","object":{"a":1}}`, `{"type":"ADDED","object":{"b":1}}`
	blank := strings.Repeat(" ", 5000)
	stream := "\n" + a + "\n\n \r\n" + blank + "\n" + b + blank + "\n"
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(stream), "with its end": iotest.DataErrReader(strings.NewReader(stream)),
		"by bytes": iotest.OneByteReader(strings.NewReader(stream)), "by halves": iotest.HalfReader(strings.NewReader(stream)),
	} {
		frames, into := (lines{}).NewFrameReader(io.NopCloser(r)), make([]byte, 1<<14)
		for _, want := range []string{a, b} {
			n, err := frames.Read(into)
			if got := strings.TrimSpace(string(into[:n])); err != nil || got != want {
				t.Errorf("%s: got %q, %v; want %q", name, got, err, want)
			}
		}
		if n, err := frames.Read(into); !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: got %q, %v; want the end", name, into[:n], err)
		}
	}
	out, in := io.Pipe()
	go func() { _, _ = in.Write([]byte("\n" + a + "\n")) }() // and nothing after it
	n, err := (lines{}).NewFrameReader(out).Read(make([]byte, 1<<14))
	if err != nil || n != len(a) {
		t.Errorf("an event after an empty line: %d bytes, %v", n, err)
	}
	_ = in.Close()
}

func TestItOnlyReads(t *testing.T) {
	e := Serializer[thing]("Thing").EncoderForVersion(Serializer[thing]("Thing").SupportedMediaTypes()[0].Serializer, nil)
	if err := e.Encode(&thing{}, &bytes.Buffer{}); err == nil {
		t.Error("it writes")
	}
}

// importText is a ServiceImport as Karmada and the controller leave it in a cluster: most of it is
// managedFields.
const importText = `{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceImport","metadata":{"annotations":{"clusterset-dns.io/cluster-ips":"10.96.120.31"},"creationTimestamp":"2026-05-07T09:20:31Z","generation":3,"labels":{"app.kubernetes.io/managed-by":"multicluster-controller"},"managedFields":[{"apiVersion":"multicluster.x-k8s.io/v1beta1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:clusterset-dns.io/cluster-ips":{}},"f:labels":{".":{},"f:app.kubernetes.io/managed-by":{}}},"f:spec":{".":{},"f:ipFamilies":{},"f:ips":{},"f:ports":{},"f:sessionAffinity":{},"f:type":{}}},"manager":"multicluster-controller","operation":"Update","time":"2026-05-07T09:20:31Z"},{"apiVersion":"multicluster.x-k8s.io/v1beta1","fieldsType":"FieldsV1","fieldsV1":{"f:status":{".":{},"f:clusters":{".":{},"k:{\"cluster\":\"member1\"}":{".":{},"f:cluster":{}},"k:{\"cluster\":\"member2\"}":{".":{},"f:cluster":{}}},"f:conditions":{".":{},"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},"f:observedGeneration":{},"f:reason":{},"f:status":{},"f:type":{}}}}},"manager":"multicluster-controller","operation":"Update","subresource":"status","time":"2026-05-07T09:20:32Z"}],"name":"foo","namespace":"default","resourceVersion":"1234567","uid":"6f6b1b6e-8b0e-4a0e-9d51-0d6f0d4e7c11"},"spec":{"ipFamilies":["IPv4"],"ips":["10.96.120.31"],"ports":[{"name":"http","port":80,"protocol":"TCP"},{"appProtocol":"https","name":"https","port":443,"protocol":"TCP"}],"sessionAffinity":"None","type":"ClusterSetIP"},"status":{"clusters":[{"cluster":"member1"},{"cluster":"member2"}],"conditions":[{"lastTransitionTime":"2026-05-07T09:20:32Z","message":"","observedGeneration":3,"reason":"Ready","status":"True","type":"Ready"}]}}`

// BenchmarkDecode compares the decoding of one import, in a list and as an event of a watch.
func BenchmarkDecode(b *testing.B) {
	scheme := runtime.NewScheme()
	gv := schema.GroupVersion{Group: mcsv1beta1.GroupName, Version: "v1beta1"}
	scheme.AddKnownTypes(gv, &mcsv1beta1.ServiceImport{}, &mcsv1beta1.ServiceImportList{})
	metav1.AddToGroupVersion(scheme, gv)
	const n = 100
	list := []byte(`{"apiVersion":"multicluster.x-k8s.io/v1beta1","items":[` + strings.TrimSuffix(strings.Repeat(importText+",", n), ",") + `],"kind":"ServiceImportList","metadata":{"resourceVersion":"1"}}`)
	event := `{"type":"ADDED","object":` + importText + "}\n"
	for name, s := range map[string]runtime.NegotiatedSerializer{
		"typed": serializer.NewCodecFactory(scheme).WithoutConversion(), "lenient": Serializer[thing]("ServiceImport"),
	} {
		object, frame, framer := decoders(b, s)
		b.Run("list/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := runtime.Decode(object, list); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/import")
		})
		b.Run("event/"+name, func(b *testing.B) {
			b.ReportAllocs()
			d := restwatch.NewDecoder(streaming.NewDecoder(framer.NewFrameReader(&endless{text: event}), frame), object)
			for b.Loop() {
				if _, _, err := d.Decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// endless is a text that is repeated.
type endless struct {
	text string
	rest string
}

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		e.rest = e.text
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (*endless) Close() error { return nil }

// A fault is the same wherever it stands: what tells of it compares texts.
func TestAFaultHasNoPosition(t *testing.T) {
	const bad = `{"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "bad"}, "spec": {"ports": [%s{"port": "http"}]}}`
	texts := map[string]bool{}
	for _, before := range []string{"", `{"port": 1}, `} {
		item := fmt.Sprintf(bad, before)
		alone, err := decode(t, item)
		if err != nil {
			t.Fatal(err)
		}
		texts[alone.(*thing).Err.Error()] = true
		for _, neighbours := range []string{"", item + ", " + item + ", "} {
			list, err := decode(t, `{"apiVersion": "v1", "items": [`+neighbours+item+`], "kind": "ThingList", "metadata": {}}`)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range list.(*List[thing, *thing]).Items {
				texts[item.Err.Error()] = true
			}
		}
	}
	if len(texts) != 1 || !texts["json: cannot unmarshal string into Go struct field thing.spec.ports.port of type int32"] {
		t.Errorf("one fault has the texts %q", slices.Collect(maps.Keys(texts)))
	}
}
