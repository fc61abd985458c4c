package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

// plugins are what the Corefiles of the answerers differ in.
var plugins = map[answerer]string{
	ours:      "multicluster clusterset.local {\n kubeconfig KUBECONFIG\n OPTION\n }",
	inTree:    "kubernetes cluster.local clusterset.local {\n kubeconfig KUBECONFIG\n multicluster clusterset.local\n OPTION\n }",
	whoami:    "whoami",
	readyMade: "readymade\n multicluster clusterset.local {\n kubeconfig KUBECONFIG\n OPTION\n }",
}

// setup is an answerer behind some plugins, with one more option of its own plugin if that is not empty.
type setup struct {
	who             answerer
	plugins, option string
	title           string // of its samples
	imports         int    // that it watches
	ready           func(address string) error
}

// alike are setups that differ in nothing but the answerer.
func alike(who []answerer, ready func(address string) error) (setups []setup) {
	for _, each := range who {
		setups = append(setups, setup{who: each, ready: ready})
	}
	return setups
}

// server is a running CoreDNS.
type server struct {
	*measure.CoreDNS
	setup
}

// start runs a setup until it is ready. The one that knows no names is ready with any reply.
func (b *bench) start(ctx context.Context, w *world, of setup) *server {
	if of.who == whoami {
		of.ready = replies
	}
	block := strings.NewReplacer("KUBECONFIG", w.Kubeconfig, "OPTION", of.option).Replace(plugins[of.who])
	return &server{measure.Must(measure.StartCoreDNS(ctx, w.Cluster, b.program, of.plugins+" "+block, of.ready)), of}
}

// serve starts servers, does something with them, and ends them.
func (b *bench) serve(ctx context.Context, w *world, setups []setup, do func([]*server)) {
	var servers []*server
	for _, each := range setups {
		s := b.start(ctx, w, each)
		defer s.Stop()
		servers = append(servers, s)
	}
	do(servers)
}

// answers is a condition: that a question has so many records for an answer. It asks over TCP, which any number fits in.
func answers(q dns.Question, count int) func(address string) error {
	return func(address string) error {
		c := &dns.Client{Net: "tcp"}
		m, _, err := c.Exchange(new(dns.Msg).SetQuestion(q.Name, q.Qtype), address)
		if err == nil && len(m.Answer) < count {
			err = fmt.Errorf("%s has %d records of %d: %s", q.Name, len(m.Answer), count, dns.RcodeToString[m.Rcode])
		}
		return err
	}
}

// replies is a condition: there is any reply, except that the server is not ready.
func replies(address string) error {
	m, err := dns.Exchange(new(dns.Msg).SetQuestion("clusterset.local.", dns.TypeSOA), address)
	if err == nil && m.Rcode == dns.RcodeServerFailure {
		err = errors.New("SERVFAIL")
	}
	return err
}
