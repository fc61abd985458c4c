package faultproxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Proxy listens on a port of loopback, and passes TCP connections on to one address. What they carry it does not look at: TLS goes
// through from end to end, with a client's certificate.
type Proxy struct {
	target, address string
	running         sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	flows    chan struct{} // closed while data may flow
	latency  time.Duration // of each read
	pairs    map[*pair]struct{}
	ended    bool
}

// pair is a connection with the one that it is passed on by.
type pair struct {
	ends     [2]net.Conn
	closed   chan struct{}
	close    func()
	stranded bool // nothing that is sent arrives any more
}

// Listen starts a Proxy.
func Listen(target string) (*Proxy, error) {
	p := &Proxy{target: target, address: "127.0.0.1:0", flows: make(chan struct{}), pairs: map[*pair]struct{}{}}
	close(p.flows)
	return p, p.listen()
}

func (p *Proxy) listen() error {
	listener, err := net.Listen("tcp", p.Address())
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.address, p.listener = listener.Addr().String(), listener
	p.running.Go(func() { p.accept(listener) })
	return nil
}

// Address is where it listens.
func (p *Proxy) Address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address
}

// Config is the same identity with the same rights, through the proxy. The target's certificate has to be one for loopback.
func (p *Proxy) Config(of *rest.Config) *rest.Config {
	c := rest.CopyConfig(of)
	c.Host = "https://" + p.Address()
	return c
}

// Kubeconfig is Config as a file, with everything in it.
func (p *Proxy) Kubeconfig(of *rest.Config) ([]byte, error) { return kubeconfig(p.Config(of)) }

func kubeconfig(of *rest.Config) ([]byte, error) {
	if err := rest.LoadTLSFiles(of); err != nil {
		return nil, err
	}
	const here = "fault"
	file := api.NewConfig()
	file.Clusters[here] = &api.Cluster{Server: of.Host, CertificateAuthorityData: of.CAData, TLSServerName: of.ServerName}
	file.AuthInfos[here] = &api.AuthInfo{Token: of.BearerToken, ClientCertificateData: of.CertData, ClientKeyData: of.KeyData}
	file.Contexts[here] = &api.Context{Cluster: here, AuthInfo: here}
	file.CurrentContext = here
	return clientcmd.Write(*file)
}

// Close ends everything, and returns when it has ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.ended = true // also for a connection that is just being passed on
	err := p.listener.Close()
	p.mu.Unlock()
	p.Cut()
	p.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil // by Refuse
	}
	return err
}

// Refuse closes all connections and refuses new ones, as a machine with a closed port does, until
// it is resumed. If only the target is away, new connections end at once, which a client treats
// differently.
func (p *Proxy) Refuse() (resume func() error, err error) {
	p.mu.Lock()
	at := p.listener.Addr().(*net.TCPAddr)
	err = p.listener.Close()
	held, holdErr := hold(at)
	err = errors.Join(err, holdErr)
	p.mu.Unlock()
	p.Cut()
	return func() error { return errors.Join(p.listen(), held.Close()) }, err
}

// hold keeps a port from other programs, without listening on it: they would take it in the meantime. Linux lets two sockets with
// SO_REUSEADDR have a port while at most one of them listens.
func hold(at *net.TCPAddr) (*os.File, error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, err
	}
	to := &syscall.SockaddrInet4{Port: at.Port}
	copy(to.Addr[:], at.IP.To4())
	err = errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1), syscall.Bind(fd, to))
	return os.NewFile(uintptr(fd), "port"), err
}

// Cut closes all connections, and gives their number. New ones are welcome.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pair := range p.pairs {
		pair.close()
	}
	return len(p.pairs)
}

// Stall keeps all data back until it is resumed. Connections stay open and silent, and so do new
// ones, which are accepted. No data is lost: clients that wait long enough continue. The connection of a
// client that gives up meanwhile ends, so that clients which try again and again use up no files.
func (p *Proxy) Stall() (resume func()) {
	held := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flows = held
	return func() { close(held) }
}

// Slow delays all data from both sides until it is resumed. A read has at most 32 KiB, so large
// data takes several delays.
func (p *Proxy) Slow(latency time.Duration) (resume func()) {
	set := func(latency time.Duration) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.latency = latency
	}
	set(latency)
	return func() { set(0) }
}

// Strand leaves all connections open, but nothing arrives on them any more, as when a firewall has forgotten them. It gives their
// number. New ones work.
func (p *Proxy) Strand() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pair := range p.pairs {
		pair.stranded = true
	}
	return len(p.pairs)
}

// acceptPause is between two attempts to accept a connection.
const acceptPause = 10 * time.Millisecond

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-time.After(acceptPause) // files are used up, perhaps; the next one may do better
			continue
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve ends when both directions have ended: each of them ends the other.
func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close() // as good as refused
		return
	}
	both := newPair(client, server)
	p.mu.Lock()
	p.pairs[both] = struct{}{}
	if p.ended {
		both.close()
	}
	p.mu.Unlock()
	var directions sync.WaitGroup
	gone := make(chan struct{})
	directions.Go(func() { p.pass(both, client, server, gone, func() { close(gone) }) })
	directions.Go(func() { p.pass(both, server, client, gone, func() {}) })
	directions.Wait()
	p.mu.Lock()
	delete(p.pairs, both)
	p.mu.Unlock()
}

func newPair(client, server net.Conn) *pair {
	both := &pair{ends: [2]net.Conn{client, server}, closed: make(chan struct{})}
	both.close = sync.OnceFunc(func() {
		close(both.closed)
		_, _ = client.Close(), server.Close()
	})
	return both
}

// pass copies from one end to the other. It reads ahead, one chunk, to see that from has ended, and calls ended then. gone is closed when
// the client has ended.
func (p *Proxy) pass(both *pair, from io.Reader, to io.Writer, gone <-chan struct{}, ended func()) {
	defer both.close()
	chunks := make(chan []byte)
	p.running.Go(func() {
		defer close(chunks)
		defer ended()
		read(from, chunks, both.closed)
	})
	for chunk := range chunks {
		if !p.mayPass(both, gone) {
			continue
		}
		if _, err := to.Write(chunk); err != nil {
			return
		}
	}
}

// read sends what it reads. A chunk is valid until the next one is taken.
func read(from io.Reader, chunks chan<- []byte, closed <-chan struct{}) {
	var buffers [2][32 << 10]byte
	for i := 0; ; i = 1 - i {
		n, err := from.Read(buffers[i][:])
		if n > 0 {
			select {
			case chunks <- buffers[i][:n]:
			case <-closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// mayPass waits while data is held up, and says whether it is to arrive.
func (p *Proxy) mayPass(both *pair, gone <-chan struct{}) bool {
	p.mu.Lock()
	flows, latency := p.flows, p.latency
	p.mu.Unlock()
	if latency > 0 {
		timer := time.NewTimer(latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-both.closed:
			return false
		}
	}
	select {
	case <-flows:
	default:
		select {
		case <-flows:
		case <-gone:
			both.close()
			return false
		case <-both.closed:
			return false
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !both.stranded
}
