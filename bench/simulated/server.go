package simulated

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/test/kube"
)

const host = "127.0.0.1"

// Options of a Server. The zero value is a current Kubernetes.
type Options struct {
	// History is how many changes of each kind are kept for watches that begin at an earlier version, 1000 unless given.
	History int
	// BookmarkEvery is the time between two bookmarks of a watch: a minute, as in a kube-apiserver, unless given.
	BookmarkEvery time.Duration
}

func (o Options) withDefaults() Options {
	o.History = cmp.Or(o.History, 1000)
	o.BookmarkEvery = cmp.Or(o.BookmarkEvery, time.Minute)
	return o
}

// Server is the API server of one peer.
type Server struct {
	options      Options
	certificates *Certificates
	counts       counts

	mu      sync.Mutex
	stores  []*store
	version uint64 // of the last change of any object, as etcd's revision

	port      int // 0 before Start
	http      *http.Server
	accepting sync.WaitGroup
}

// New returns a Server with objects, which Start lets listen. It changes the objects.
func New(certificates *Certificates, options Options, objects iter.Seq[client.Object]) (*Server, error) {
	s := &Server{options: options.withDefaults(), certificates: certificates, version: 1}
	for _, k := range kinds() {
		s.stores = append(s.stores, newStore(k))
	}
	for object := range objects {
		if err := s.load(object); err != nil {
			return nil, err
		}
	}
	s.Forget() // like a kube-apiserver that has just started
	return s, nil
}

// load adds an object that has always been there. The objects of one kind come in any order.
func (s *Server) load(object client.Object) error {
	of, err := s.of(object)
	if err != nil {
		return err
	}
	s.version++
	loaded, err := newItem(of.kind, complete(object, s.version), s.version)
	if err != nil {
		return err
	}
	at, found := of.find(loaded)
	if found {
		return fmt.Errorf("%s %s/%s is given twice", of.kind.name, loaded.namespace, loaded.name)
	}
	of.items = slices.Insert(of.items, at, loaded)
	of.forgotten = s.version
	return nil
}

// of returns the store of an object.
func (s *Server) of(object client.Object) (*store, error) {
	for _, of := range s.stores {
		if of.kind.is(object) {
			return of, nil
		}
	}
	return nil, fmt.Errorf("no peer is asked for a %T", object)
}

// Start begins to listen on a free port of loopback.
func (s *Server) Start(ctx context.Context) error {
	const attempts = 5 // another process can take the port
	var err error
	for range attempts {
		if s.port, err = kube.FreePort(); err != nil {
			return err
		}
		if err = s.Resume(ctx); err == nil {
			return nil
		}
	}
	return err
}

// Resume begins to listen again, on the same port, with what the Server has now.
func (s *Server) Resume(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.address())
	if err != nil {
		return err
	}
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{s.certificates.server}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		// Connections that Refuse has closed are expected.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server := s.http
	s.accepting.Go(func() { _ = server.ServeTLS(listener, "", "") }) // Refuse ends it
	return nil
}

// Refuse ends all requests and connections, and refuses new ones, as the outage of an API server does. The objects stay, and change if
// they are changed.
func (s *Server) Refuse() error {
	if s.http == nil {
		return nil
	}
	err := s.http.Close()
	s.accepting.Wait()
	return err
}

// Stop ends the Server.
func (s *Server) Stop() error { return s.Refuse() }

func (s *Server) address() string { return net.JoinHostPort(host, strconv.Itoa(s.port)) }

// Kubeconfig returns the text of a kubeconfig for the Server, which has been started.
func (s *Server) Kubeconfig() ([]byte, error) {
	if s.port == 0 {
		return nil, errors.New("the server has no port before its start")
	}
	return s.certificates.kubeconfig(s.address())
}

// Requests returns how many requests there were since New.
func (s *Server) Requests() map[Request]int { return s.counts.get() }
