package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/miekg/dns"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/bench/soak/oracle"
)

// server is the CoreDNS under test. It has only our plugin and those that report its state.
type server struct {
	*controlplane.Beside
	address, debug, metrics string
	pid                     int
}

const corefile = `.:%s {
	bind 127.0.0.1
	errors
	pprof %s
	prometheus %s
	multicluster clusterset.local {
		kubeconfig %s
	}
}
`

// startServer starts CoreDNS, which reaches the API server at the address given, and returns when it answers.
func startServer(ctx context.Context, c *controlplane.Cluster, program, apiserver string) (*server, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := kubeconfigBy(c, apiserver)
	if err != nil {
		return nil, err
	}
	s := &server{}
	for _, address := range []*string{&s.address, &s.debug, &s.metrics} {
		if *address, err = freeAddress(); err != nil {
			return nil, err
		}
	}
	_, port, _ := net.SplitHostPort(s.address)
	folder := filepath.Dir(c.Kubeconfig)
	conf, pidfile := filepath.Join(folder, "Corefile"), filepath.Join(folder, "coredns.pid")
	if err := os.WriteFile(conf, fmt.Appendf(nil, corefile, port, s.debug, s.metrics, kubeconfig), 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ready := func(context.Context) (err error) {
		if err = s.answers(); err == nil {
			s.pid, err = readPID(pidfile) // may be written a little later
		}
		return err
	}
	s.Beside, err = c.Beside(ctx, ready, program, "-conf", conf, "-pidfile", pidfile)
	return s, err
}

func (s *server) answers() error {
	m, err := dns.Exchange(new(dns.Msg).SetQuestion(oracle.Zone, dns.TypeSOA), s.address)
	if err == nil && len(m.Answer) == 0 {
		err = fmt.Errorf("%s has no SOA record: %s", oracle.Zone, dns.RcodeToString[m.Rcode])
	}
	return err
}

// kubeconfigBy is a copy of the administrator's, with another way to the API server.
func kubeconfigBy(c *controlplane.Cluster, address string) (path string, err error) {
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		return "", err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + address
	}
	path = filepath.Join(filepath.Dir(c.Kubeconfig), "proxied.kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// freeAddress returns an unused address of loopback, over UDP and TCP.
func freeAddress() (string, error) {
	for {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		address := tcp.Addr().String()
		udp, err := net.ListenPacket("udp", address)
		_ = tcp.Close()
		if err == nil {
			return address, udp.Close()
		}
	}
}

func readPID(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
