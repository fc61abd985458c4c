package reconcile

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// wire is a proxy between a controller and the API server. It records the requests.
type wire struct {
	mu        sync.Mutex
	requests  map[access]int
	forbidden []string
	// old simulates a server before Kubernetes 1.34, which cannot stream a list through a watch.
	old bool
	// busy is the number of creations of a Service that are refused because the address is taken,
	// as happens just after the deletion of the former Service.
	busy int
}

// access is a verb on a resource, as in a role.
type access struct{ group, resource, verb string }

func newWire() *wire {
	return &wire{requests: map[access]int{}}
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
	a, ok := parse(request)
	if !ok { // discovery
		return next.RoundTrip(request)
	}
	if w.old && request.URL.Query().Has("sendInitialEvents") {
		return invalid(request, "", "sendInitialEvents is forbidden"), nil
	}
	if a == (access{"", "services", "create"}) && w.isBusy() {
		return invalid(request, "spec.clusterIPs", "provided IP is already allocated"), nil
	}
	w.mu.Lock()
	w.requests[a]++
	w.mu.Unlock()
	response, err := next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusForbidden {
		w.forbid(a.verb+" "+request.URL.Path, response)
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

// parse parses /api/v1/... and /apis/<group>/<version>/..., with or without a namespace.
func parse(request *http.Request) (a access, ok bool) {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		a.group, parts = parts[1], parts[3:]
	default:
		return a, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
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
	return a, true
}
