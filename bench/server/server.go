package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/bench/server/load"
	"github.com/clusterset-dns/multicluster/bench/server/proc"
	"github.com/clusterset-dns/multicluster/bench/server/table"
)

// plugins are what the Corefiles of the answerers differ in.
var plugins = map[table.Who]string{
	table.Ours:      "multicluster clusterset.local {\n kubeconfig %[1]s\n %[2]s\n }",
	table.InTree:    "kubernetes cluster.local clusterset.local {\n kubeconfig %[1]s\n multicluster clusterset.local\n %[2]s\n }",
	table.Whoami:    "whoami",
	table.ReadyMade: "readymade\n multicluster clusterset.local {\n kubeconfig %[1]s\n %[2]s\n }",
}

var answerers = []table.Who{table.Ours, table.InTree, table.Whoami, table.ReadyMade}

// server is a running CoreDNS.
type server struct {
	*controlplane.Beside
	who     table.Who
	address string
	pprof   string // its address
	pid     int
	took    time.Duration // from its start until it was ready
	used    time.Duration // its CPU until then
}

// startTimeout is far more than any start takes: only one that fails gets there.
const startTimeout = 5 * time.Minute

// start runs a setup until it is ready.
func (b *bench) start(ctx context.Context, w *world, of setup, ready func(address string) error) (*server, error) {
	port, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	debug, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	s := &server{who: of.who, address: loopback(port), pprof: loopback(debug)}
	folder := filepath.Dir(w.Kubeconfig)
	path, pidfile := filepath.Join(folder, fmt.Sprintf("Corefile-%d", port)), filepath.Join(folder, fmt.Sprintf("pid-%d", port))
	if err := os.WriteFile(path, []byte(of.corefile(port, s.pprof, w.Kubeconfig)), 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	begin := time.Now()
	check := func(context.Context) (err error) {
		if err = ready(s.address); err == nil {
			s.took = time.Since(begin)
			if s.pid, err = readPID(pidfile); err == nil { // may be written a little later
				s.used, err = s.cpu()
			}
		}
		return err
	}
	if s.Beside, err = w.Beside(ctx, check, b.program, "-conf", path, "-pidfile", pidfile); err != nil {
		return nil, fmt.Errorf("start %s: %w", of.who, err)
	}
	return s, nil
}

// corefile has pprof on a port of its own, which costs a query nothing.
func (s setup) corefile(port int, pprof, kubeconfig string) string {
	block := plugins[s.who]
	if strings.Contains(block, "%") {
		block = fmt.Sprintf(block, kubeconfig, s.option)
	}
	return fmt.Sprintf(".:%d {\n bind 127.0.0.1\n pprof %s\n %s %s\n}\n", port, pprof, s.plugins, block)
}

func readPID(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (s *server) cpu() (time.Duration, error) { return proc.CPU(s.pid) }

// answers is a condition: that a question has so many records for an answer. It asks over TCP, which any number fits in.
func answers(q load.Question, count int) func(address string) error {
	return func(address string) error {
		c := &dns.Client{Net: "tcp"}
		m, _, err := c.Exchange(new(dns.Msg).SetQuestion(q.Name, q.Type), address)
		if err == nil && len(m.Answer) < count {
			err = fmt.Errorf("%s has %d records of %d: %s", q.Name, len(m.Answer), count, dns.RcodeToString[m.Rcode])
		}
		return err
	}
}

// readiness is the condition for an answerer: any reply of the one that knows no names.
func readiness(who table.Who, ready func(address string) error) func(address string) error {
	if who == table.Whoami {
		return replies
	}
	return ready
}

// replies is a condition: there is any reply, except that the server is not ready.
func replies(address string) error {
	m, err := dns.Exchange(new(dns.Msg).SetQuestion("clusterset.local.", dns.TypeSOA), address)
	if err == nil && m.Rcode == dns.RcodeServerFailure {
		err = errors.New("SERVFAIL")
	}
	return err
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
