package main

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/test/apiserver"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// peer is the API server of a simulated peer, on a loopback port of its own.
type peer struct {
	*apiserver.Server
	requests atomic.Int64 // since the start
	address  string
	socket   *httptest.Server // of the last listen
}

// startPeer starts the API server of a peer, with the objects that it has in a World.
func startPeer(ctx context.Context, w World, number int) (*peer, error) {
	p := &peer{Server: apiserver.New(apiserver.Options{Seed: uint64(number)})}
	for object := range w.Objects(number) {
		if err := p.Put(object); err != nil {
			return nil, err
		}
	}
	p.Forget() // like a kube-apiserver that has just started
	port, err := kube.FreePort()
	if err != nil {
		return nil, err
	}
	p.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return p, p.listen(ctx)
}

// ServeHTTP implements http.Handler.
func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.requests.Add(1)
	p.Server.ServeHTTP(w, r)
}

// listen begins to listen, always on the same port.
func (p *peer) listen(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", p.address)
	if err != nil {
		return err
	}
	quiet := log.New(io.Discard, "", 0) // connections that refuse has closed are expected
	p.socket = &httptest.Server{Listener: listener, EnableHTTP2: true, Config: &http.Server{Handler: p, ErrorLog: quiet, ReadHeaderTimeout: 10 * time.Second}}
	p.socket.StartTLS()
	return nil
}

// refuse ends all requests and connections, and refuses new ones, as the outage of an API server does. The objects stay.
func (p *peer) refuse() {
	_ = p.socket.Config.Close() // also connections with requests, for which Close would wait
	p.socket.Close()
}

// kubeconfig returns the text of a kubeconfig for the peer. It has a token because real peers have one. It is not a JWT, so that no
// controller tries to renew it.
func (p *peer) kubeconfig() ([]byte, error) {
	const name = "simulated"
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.socket.Certificate().Raw})
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: p.socket.URL, CertificateAuthorityData: authority}
	config.AuthInfos[name] = &api.AuthInfo{Token: name}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}
