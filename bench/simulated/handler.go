package simulated

import (
	"compress/gzip"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		s.counts.add(Request{Refused, ""})
		fail(w, jsonEncoding, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: r.URL.Path}, r.Method))
		return
	}
	if document := s.discovery(r.URL.Path); document != nil {
		s.counts.add(Request{Discovery, ""})
		answer(w, r, jsonEncoding, document)
		return
	}
	of, namespace := s.route(r.URL.Path)
	if of == nil {
		s.counts.add(Request{Refused, ""})
		http.NotFound(w, r) // as a kube-apiserver answers for a group or version that it does not have
		return
	}
	encoding, found := negotiate(r.Header.Get("Accept"), of.kind)
	if !found {
		s.counts.add(Request{Refused, of.kind.resource})
		fail(w, jsonEncoding, apierrors.NewGenericServerResponse(http.StatusNotAcceptable, r.Method, schema.GroupResource{}, "",
			"only the following media types are accepted: application/json, and application/vnd.kubernetes.protobuf for built-in kinds", 0, true))
		return
	}
	asked, err := read(r.URL.Query(), namespace)
	if err != nil {
		s.counts.add(Request{Refused, of.kind.resource})
		fail(w, encoding, err)
		return
	}
	s.counts.add(Request{asked.verb(), of.kind.resource})
	if asked.Watch {
		s.watch(w, r, of, encoding, asked)
		return
	}
	list, err := s.list(of, encoding, asked)
	if err != nil {
		fail(w, encoding, err)
		return
	}
	answer(w, r, encoding, list)
}

// route returns the store for a path, and the namespace in it.
func (s *Server) route(path string) (of *store, namespace string) {
	for _, of := range s.stores {
		root := groupPath(of.kind.GroupVersion)
		if path == root+"/"+of.kind.resource {
			return of, ""
		}
		rest, found := strings.CutPrefix(path, root+"/namespaces/")
		if namespace, resource, _ := strings.Cut(rest, "/"); found && of.kind.namespaced && resource == of.kind.resource {
			return of, namespace
		}
	}
	return nil, ""
}

// negotiate returns the first encoding that a client accepts and a kind has.
func negotiate(accept string, k *kind) (encoding runtime.SerializerInfo, found bool) {
	if accept == "" {
		return jsonEncoding, true
	}
	for part := range strings.SplitSeq(accept, ",") {
		media, parameters, err := mime.ParseMediaType(part)
		if err != nil || parameters["as"] != "" { // a table or the metadata alone, which clients ask for beside the object itself
			continue
		}
		switch {
		case media == runtime.ContentTypeProtobuf && !k.custom:
			return protobufEncoding, true
		case media == runtime.ContentTypeJSON, media == "application/*", media == "*/*":
			return jsonEncoding, true
		}
	}
	return runtime.SerializerInfo{}, false
}

// options are those of a request.
type options struct {
	internalversion.ListOptions
	selection
	version uint64 // 0 for none, and for any
}

// read parses and checks the options of a request as a kube-apiserver does.
func read(query url.Values, namespace string) (options, error) {
	var o options
	if err := internalscheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, &o.ListOptions); err != nil {
		return o, apierrors.NewBadRequest(err.Error())
	}
	internalversion.SetListOptionsDefaults(&o.ListOptions, true)
	if faults := validation.ValidateListOptions(&o.ListOptions, true); len(faults) > 0 {
		return o, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", faults)
	}
	o.selection = selection{namespace: namespace, labels: labels.Everything(), fields: fields.Everything()}
	if o.LabelSelector != nil {
		o.labels = o.LabelSelector
	}
	if o.FieldSelector != nil {
		o.fields = o.FieldSelector
	}
	for _, part := range o.fields.Requirements() {
		if part.Field != "metadata.name" && part.Field != "metadata.namespace" {
			return o, apierrors.NewBadRequest(fmt.Sprintf("%q is not a known field selector: only %q, %q", part.Field, "metadata.name", "metadata.namespace"))
		}
	}
	if o.ResourceVersion == "" {
		return o, nil
	}
	var err error
	if o.version, err = strconv.ParseUint(o.ResourceVersion, 10, 64); err != nil {
		return o, apierrors.NewBadRequest("Invalid value: resourceVersion: " + err.Error())
	}
	return o, nil
}

// streams reports whether a watch begins with all objects.
func (o options) streams() bool { return o.SendInitialEvents != nil && *o.SendInitialEvents }

func (o options) verb() Verb {
	switch {
	case !o.Watch:
		return List
	case o.streams():
		return Stream
	default:
		return Watch
	}
}

// compressAbove is the length from which a kube-apiserver compresses an answer, if the client accepts that.
const compressAbove = 128 << 10

// compressors are shared, because one needs a megabyte. The level is a kube-apiserver's.
var compressors = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is valid
	}
	return w
}}

func compressible(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// answer writes an object that has its apiVersion and kind.
func answer(w http.ResponseWriter, r *http.Request, encoding runtime.SerializerInfo, object runtime.Object) {
	text, err := encode(encoding, object)
	if err != nil {
		fail(w, encoding, err)
		return
	}
	w.Header().Set("Content-Type", encoding.MediaType)
	if len(text) <= compressAbove || !compressible(r) {
		_, _ = w.Write(text) // the client has gone
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	compressed := &gzipStream{to: w}
	_, _ = compressed.Write(text)
	_ = compressed.Close()
}

// fail answers with an error.
func fail(w http.ResponseWriter, encoding runtime.SerializerInfo, err error) {
	of := status(err)
	text, err := encode(encoding, of)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", encoding.MediaType)
	if of.Details != nil && of.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(of.Details.RetryAfterSeconds)))
	}
	w.WriteHeader(int(of.Code))
	_, _ = w.Write(text)
}

func status(err error) *metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	return typed(known.Status())
}

// gzipStream compresses what is written until the next Flush or Close on its own, as a kube-apiserver does: between two events, a watch
// then needs no compressor.
type gzipStream struct {
	to  http.ResponseWriter
	now *gzip.Writer // nil if nothing was written
}

// Write implements io.Writer.
func (g *gzipStream) Write(p []byte) (int, error) {
	if g.now == nil {
		g.now = compressors.Get().(*gzip.Writer)
		g.now.Reset(g.to)
	}
	return g.now.Write(p)
}

// Close ends what was written. The end follows the data in a part of its own: a reader that sees the end together with data waits for what
// comes next before it returns the data.
func (g *gzipStream) Close() error {
	if g.now == nil {
		return nil
	}
	err := errors.Join(g.now.Flush(), g.now.Close())
	g.now.Reset(nil)
	compressors.Put(g.now)
	g.now = nil
	return err
}
