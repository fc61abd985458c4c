package reconcile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// wire is a proxy between a controller and the API server. It records the requests. It can block a
// namespace from its n-th write on, as if the process had stopped there.
type wire struct {
	mu        sync.Mutex
	requests  map[access]int
	forbidden []string
	writes    map[string]int // by namespace, without events and Leases
	accepted  int            // number of writes that the server accepted
	faults    map[string]death
	dead      map[string]bool
	// old simulates a server before Kubernetes 1.34, which cannot stream a list through a watch.
	old bool
	// busy is the number of creations of a Service that are refused because the address is taken,
	// as happens just after the deletion of the former Service.
	busy int
}

// access is a verb on a resource, as in a role.
type access struct{ group, resource, verb string }

// death stops the process at the n-th write of a namespace. The server executes that write if made
// is true.
type death struct {
	n    int
	made bool
}

var errDead = errors.New("the process has died")

func newWire() *wire {
	return &wire{requests: map[access]int{}, writes: map[string]int{}, faults: map[string]death{}, dead: map[string]bool{}}
}

func (w *wire) config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) { return w.roundTrip(next, request) })
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (w *wire) roundTrip(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	a, namespace, ok := parse(request)
	if !ok { // discovery
		return next.RoundTrip(request)
	}
	if w.old && request.URL.Query().Has("sendInitialEvents") {
		return invalid(request, "", "sendInitialEvents is forbidden"), nil
	}
	if a == (access{"", "services", "create"}) && w.isBusy() {
		return invalid(request, "spec.clusterIPs", "provided IP is already allocated"), nil
	}
	before, after := w.note(a, namespace)
	if before {
		return nil, errDead
	}
	response, err := next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusForbidden {
		w.forbid(a.verb+" "+request.URL.Path, response)
	}
	if err == nil && response.StatusCode < http.StatusMultipleChoices && isWrite(a) {
		w.mu.Lock()
		w.accepted++
		w.mu.Unlock()
	}
	if after {
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, errDead
	}
	return response, err
}

// forbid records a missing permission: the server answers that the user cannot do something to a
// resource. Admission also returns Forbidden, for example for new objects in a namespace that is
// being deleted.
func (w *wire) forbid(what string, response *http.Response) {
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(text))
	if !bytes.Contains(text, []byte(" cannot ")) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forbidden = append(w.forbidden, what+": "+string(text))
}

func (w *wire) isBusy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy--
	return w.busy >= 0
}

// invalid returns the answer of an API server that refuses an object.
func invalid(request *http.Request, field, message string) *http.Response {
	status := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":%q,
		"details":{"causes":[{"reason":"FieldValueInvalid","field":%q,"message":%q}]}}`, message, field, message)
	return &http.Response{
		StatusCode: http.StatusUnprocessableEntity, Request: request, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status)),
	}
}

// note counts the request and returns whether the process stops before or after it.
func (w *wire) note(a access, namespace string) (before, after bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests[a]++
	if !isWrite(a) {
		return false, false
	}
	if w.dead[namespace] {
		return true, false
	}
	w.writes[namespace]++
	if f, armed := w.faults[namespace]; armed && w.writes[namespace] == f.n {
		w.dead[namespace] = true
		return !f.made, f.made
	}
	return false, false
}

// arm counts the writes in a namespace from now on, and sets its death.
func (w *wire) arm(namespace string, f death) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes[namespace] = 0
	w.faults[namespace] = f
}

func (w *wire) isDead(namespace string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead[namespace]
}

func (w *wire) allWrites() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accepted
}

func (w *wire) count(a access) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests[a]
}

// isWrite reports whether a request is a write, except events and the Leases of the leader
// election.
func isWrite(a access) bool {
	switch a.verb {
	case "get", "list", "watch":
		return false
	}
	return a.resource != "events" && a.resource != "leases"
}

// parse parses /api/v1/... and /apis/<group>/<version>/..., with or without a namespace.
func parse(request *http.Request) (a access, namespace string, ok bool) {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		a.group, parts = parts[1], parts[3:]
	default:
		return a, "", false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	a.resource = parts[0]
	if len(parts) > 2 {
		a.resource += "/" + parts[2]
	}
	a.verb = map[string]string{
		http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete", http.MethodGet: "get",
	}[request.Method]
	switch {
	case a.verb == "get" && request.URL.Query().Get("watch") != "":
		a.verb = "watch"
	case a.verb == "get" && len(parts) == 1:
		a.verb = "list"
	}
	return a, namespace, true
}
