package simulated

import (
	"context"
	"crypto/tls"
	"io"
	"iter"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/pki"
)

const host = "127.0.0.1"

// Certificates are the authority and the server certificate that all Servers of a process share.
type Certificates struct {
	authority []byte // in PEM
	server    tls.Certificate
}

// NewCertificates makes certificates for servers on loopback.
func NewCertificates() (*Certificates, error) {
	ca, err := pki.New("simulated")
	if err != nil {
		return nil, err
	}
	pair, err := ca.Server("kube-apiserver", host)
	if err != nil {
		return nil, err
	}
	server, err := tls.X509KeyPair(pair.Cert, pair.Key)
	return &Certificates{ca.PEM(), server}, err
}

// Server is the API server of one peer.
type Server struct {
	certificates *Certificates
	requests     atomic.Int64

	mu      sync.Mutex
	stores  []*store // by the place of the kind in kinds
	version uint64   // of the last change of any object, as etcd's revision

	port      int // 0 before Start
	http      *http.Server
	accepting sync.WaitGroup
}

// New returns a Server with objects, which Start lets listen. It changes the objects.
func New(certificates *Certificates, objects iter.Seq[client.Object]) (*Server, error) {
	s := &Server{certificates: certificates, version: 1}
	for _, k := range kinds {
		s.stores = append(s.stores, &store{kind: k, items: map[types.NamespacedName]*item{}, changed: make(chan struct{})})
	}
	for object := range objects {
		if err := s.Apply(object); err != nil {
			return nil, err
		}
	}
	s.Forget() // like a kube-apiserver that has just started
	return s, nil
}

// Start begins to listen on a free port of loopback.
func (s *Server) Start(ctx context.Context) (err error) {
	for range 5 { // another process can take the port
		if s.port, err = kube.FreePort(); err == nil {
			err = s.Resume(ctx)
		}
		if err == nil {
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
	server := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{s.certificates.server}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		// Connections that Refuse has closed are expected.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	s.http = server
	s.accepting.Go(func() { _ = server.ServeTLS(listener, "", "") }) // Refuse ends it
	return nil
}

// Refuse ends all requests and connections, and refuses new ones, as the outage of an API server does. The objects stay, and change if
// they are changed.
func (s *Server) Refuse() error {
	err := s.http.Close()
	s.accepting.Wait()
	return err
}

func (s *Server) address() string { return net.JoinHostPort(host, strconv.Itoa(s.port)) }

// Kubeconfig returns the text of a kubeconfig for the Server, which has been started. It has a token because real peers have one. It is
// not a JWT, so that no controller tries to renew it.
func (s *Server) Kubeconfig() ([]byte, error) {
	const name = "simulated"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: "https://" + s.address(), CertificateAuthorityData: s.certificates.authority}
	config.AuthInfos[name] = &api.AuthInfo{Token: name}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}

// Requests returns how many requests there were since New.
func (s *Server) Requests() int64 { return s.requests.Load() }
