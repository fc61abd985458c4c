package faultproxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/test/kube/pki"
)

// API stands before an API server as if it were one.
type API struct {
	*Proxy // before it: what becomes of connections

	ca       []byte
	server   *http.Server
	upstream *http.Transport
	forward  *httputil.ReverseProxy
	running  sync.WaitGroup // the server and the requests

	mu      sync.Mutex
	answers []*answer // the newest first
	streams map[*stream]struct{}
	age     int            // how often watches have expired
	listed  map[string]int // the age at which something was listed last
	closing bool
	replies int // requests that were answered in the API server's place
}

// answer is what some requests get in the API server's place.
type answer struct {
	to  func(*http.Request) bool
	say http.HandlerFunc
}

// Before starts an API before the API server of a config, of which only the address and the authority are used: each client's own
// token passes.
func Before(server *rest.Config) (*API, error) {
	target, err := url.Parse(server.Host)
	if err != nil {
		return nil, err
	}
	secure, err := rest.TLSConfigFor(&rest.Config{Host: server.Host, TLSClientConfig: rest.TLSClientConfig{
		CAData: server.CAData, CAFile: server.CAFile, ServerName: server.ServerName,
	}})
	if err != nil {
		return nil, err
	}
	// Each API has an authority of its own, so that none is taken for another that had its port before.
	authority, err := pki.New("fault")
	if err != nil {
		return nil, err
	}
	pair, err := authority.Server("fault", "127.0.0.1")
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, err
	}
	// HTTP/1.1 on this side: a request that ends takes its connection along. Replies go on as they came, compressed ones too.
	a := &API{ca: authority.PEM(), upstream: &http.Transport{TLSClientConfig: secure, DisableCompression: true}}
	a.streams, a.listed = map[*stream]struct{}{}, map[string]int{}
	silent := log.New(io.Discard, "", 0) // connections that break are what it is for
	a.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if isWatch(r.In) { // whose events are read here; Kubernetes 1.37 compresses the first of them
				r.Out.Header.Del("Accept-Encoding")
			}
		},
		Transport:      a.upstream,
		FlushInterval:  -1,
		ModifyResponse: a.pass,
		ErrorLog:       silent,
	}
	a.server = &http.Server{
		Handler:   http.HandlerFunc(a.serve),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
		ErrorLog:  silent,
	}
	if err := a.listen(); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *API) listen() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if a.Proxy, err = Listen(listener.Addr().String()); err != nil {
		return errors.Join(err, listener.Close())
	}
	a.running.Go(func() { _ = a.server.ServeTLS(listener, "", "") }) // it ends with Close
	return nil
}

// Close ends everything, and returns when it has ended.
func (a *API) Close() error {
	a.mu.Lock()
	a.closing = true
	a.mu.Unlock()
	err := errors.Join(a.Proxy.Close(), a.server.Close())
	a.running.Wait()
	a.upstream.CloseIdleConnections()
	return err
}

// Config returns a client configuration with the same identity, through the proxy. The identity
// must have a token: a client certificate does not pass.
func (a *API) Config(of *rest.Config) *rest.Config {
	c := a.Proxy.Config(of)
	c.TLSClientConfig = rest.TLSClientConfig{CAData: a.ca}
	return c
}

// Kubeconfig is Config as a file, with everything in it.
func (a *API) Kubeconfig(of *rest.Config) ([]byte, error) { return kubeconfig(a.Config(of)) }

// Answer returns errors to requests until it is resumed: to requests for the named resources
// ("services"), or to all if none is named. An error with RetryAfterSeconds also has the header.
// Requests in progress, such as watches, continue, as with an API server whose client's token
// expires: Cut ends them.
func (a *API) Answer(with *apierrors.StatusError, resources ...string) (resume func()) {
	status := with.Status()
	text := encode(&status)
	return a.Instead(about(resources), func(w http.ResponseWriter, _ *http.Request) {
		if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(int(status.Code))
		_, _ = w.Write(text)
	})
}

// Hollow answers lists with {} and ends watches at once, both with status 200, until it is resumed:
// as a proxy that is not an API server. The answer differs from an empty list, which has a kind and
// a resourceVersion.
func (a *API) Hollow(resources ...string) (resume func()) {
	return a.Instead(about(resources), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		if !isWatch(r) {
			_, _ = io.WriteString(w, "{}")
		}
	})
}

// Instead lets a handler answer some requests in the API server's place, until it is resumed.
func (a *API) Instead(to func(*http.Request) bool, say http.HandlerFunc) (resume func()) {
	one := &answer{to, say}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers = slices.Insert(a.answers, 0, one)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.answers = slices.DeleteFunc(a.answers, func(other *answer) bool { return other == one })
	}
}

// Replies returns how many requests were answered in the API server's place so far.
func (a *API) Replies() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.replies
}

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	if !a.begin() {
		panic(http.ErrAbortHandler) // without a reply
	}
	defer a.running.Done()
	if say := a.instead(r); say != nil {
		say(w, r)
		return
	}
	a.forward.ServeHTTP(w, r)
}

// begin counts a request, unless Close waits for the last one already.
func (a *API) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closing {
		a.running.Add(1)
	}
	return !a.closing
}

// instead is what a request gets in the API server's place, or nil.
func (a *API) instead(r *http.Request) http.HandlerFunc {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.answers {
		if one.to(r) {
			a.replies++
			return one.say
		}
	}
	return nil
}

// about matches requests for the resources, or all requests if there are none.
func about(resources []string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return len(resources) == 0 || slices.Contains(resources, resource(r.URL.Path))
	}
}

// resource is the resource that a path is about, as in /apis/discovery.k8s.io/v1/namespaces/default/endpointslices; empty for others.
func resource(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	prefix := 2 // api/v1
	if parts[0] == "apis" {
		prefix = 3
	}
	if len(parts) <= prefix {
		return ""
	}
	parts = parts[prefix:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		return parts[2]
	}
	return parts[0]
}

// encode is an object of the API itself in JSON.
func encode(object runtime.Object) []byte {
	var text bytes.Buffer
	if err := scheme.Codecs.LegacyCodec(metav1.Unversioned).Encode(object, &text); err != nil {
		panic(err) // a Status can always be encoded
	}
	return text.Bytes()
}
