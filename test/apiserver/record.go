package apiserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Write is a request that writes, and what it was answered.
type Write struct {
	Method, Path, ContentType, UserAgent string // the path has the query, too
	Body                                 []byte
	Code                                 int
	Answer                               []byte // in JSON or protobuf
}

// Recorder is a Server that keeps the requests that write, in their order, but not those that Admit has refused. It makes one after the other. What
// Collect writes is kept as the requests with which Kubernetes' controllers do so.
type Recorder struct {
	*Server
	mu      sync.Mutex
	writes  []Write
	refused bool // by Admit, the write that is being made
}

// NewRecorder returns a Server that keeps what it is asked.
func NewRecorder(o Options) *Recorder {
	r := new(Recorder)
	admit, stored := o.Admit, o.Stored
	o.Admit = func(q *Request) error {
		if admit == nil {
			return nil
		}
		err := admit(q)
		if err != nil && !slices.Contains([]string{"get", "list", "watch"}, q.Verb) {
			r.refused = true
		}
		return err
	}
	o.Stored = func(q *Request) {
		if q.UserAgent == collector || q.UserAgent == terminator {
			r.writes = append(r.writes, written(q))
		}
		if stored != nil {
			stored(q)
		}
	}
	r.Server = New(o)
	return r
}

// ServeHTTP implements http.Handler.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.Method == http.MethodGet {
		r.Server.ServeHTTP(w, q)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = false
	body, err := io.ReadAll(q.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	answer := &reply{header: w.Header()}
	r.Server.ServeHTTP(answer, q)
	w.WriteHeader(answer.code)
	_, _ = w.Write(answer.text.Bytes()) // as a server does
	if !r.refused {
		r.writes = append(r.writes, Write{q.Method, q.URL.RequestURI(), q.Header.Get("Content-Type"), q.UserAgent(), body, answer.code, answer.text.Bytes()})
	}
}

// Collect is that of the Server.
func (r *Recorder) Collect() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Server.Collect()
}

// Writes are those up to now.
func (r *Recorder) Writes() []Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.writes)
}

// written is the request with which a controller of Kubernetes makes a change.
func written(q *Request) Write {
	k := kinds[slices.IndexFunc(kinds, func(k *kind) bool { return k.groupResource() == q.Resource })]
	w := Write{Path: k.path(q.NamespacedName), UserAgent: q.UserAgent, ContentType: "application/json", Code: http.StatusOK}
	var body any
	switch q.Verb {
	case "delete":
		how := metav1.DeletePropagationBackground
		if q.New != nil && slices.Contains(q.New.GetFinalizers(), metav1.FinalizerDeleteDependents) {
			how = metav1.DeletePropagationForeground
		} else if q.New != nil && slices.Contains(q.New.GetFinalizers(), metav1.FinalizerOrphanDependents) {
			how = metav1.DeletePropagationOrphan
		}
		w.Method, body = http.MethodDelete, metav1.DeleteOptions{PropagationPolicy: &how}
	case "patch":
		after := &metav1.ObjectMeta{}
		if q.New != nil {
			after.Finalizers, after.OwnerReferences = q.New.GetFinalizers(), q.New.GetOwnerReferences()
		}
		w.Method, w.ContentType = http.MethodPatch, string(types.MergePatchType)
		body = map[string]any{"metadata": map[string]any{"finalizers": after.Finalizers, "ownerReferences": after.OwnerReferences}}
	default:
		w.Method, w.Path = http.MethodPut, w.Path+"/finalize"
		body = map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{"name": q.Name}, "spec": map[string]any{}}
	}
	text, err := json.Marshal(body)
	must(err) // it consists of what Kubernetes sends
	w.Body = text
	if q.New != nil {
		w.Answer, err = k.encode(q.New, jsonMedia)
		must(err)
	}
	return w
}

// path is that of an object.
func (k *kind) path(of types.NamespacedName) string {
	parts := []string{groupPath(k.GroupVersion())}
	if !k.cluster {
		parts = append(parts, "namespaces", of.Namespace)
	}
	return path.Join(append(parts, k.resource, of.Name)...)
}
