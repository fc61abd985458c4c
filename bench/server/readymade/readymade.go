// Package readymade is a CoreDNS plugin for measurements only. It passes each question to the next
// plugin once, keeps the reply, and writes that same message from then on: no plugin that answers
// with the same bytes can cost a server less. It never forgets, so an answer is as old as the first
// question for it.
package readymade

import (
	"context"
	"slices"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

const name = "readymade"

func init() { plugin.Register(name, setup) }

func setup(c *caddy.Controller) error {
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		return &Readymade{next: next, kept: map[dns.Question]*dns.Msg{}}
	})
	return nil
}

// Readymade answers what it has heard the next plugin say.
type Readymade struct {
	next plugin.Handler

	mu   sync.RWMutex
	kept map[dns.Question]*dns.Msg // read only, once here
}

// Name implements plugin.Handler.
func (*Readymade) Name() string { return name }

// ServeDNS implements plugin.Handler.
func (h *Readymade) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	kept := h.lookup(r.Question[0])
	if kept == nil {
		return plugin.NextOrFailure(name, h.next, ctx, &recorder{w, h}, r)
	}
	reply := *kept
	reply.Id = r.Id
	return reply.Rcode, w.WriteMsg(&reply)
}

func (h *Readymade) lookup(q dns.Question) *dns.Msg {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.kept[q]
}

func (h *Readymade) keep(m *dns.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept[m.Question[0]] = m
}

// recorder keeps the message before the server shortens it for one client, or adds the OPT record of one.
type recorder struct {
	dns.ResponseWriter
	of *Readymade
}

// WriteMsg implements dns.ResponseWriter.
func (w *recorder) WriteMsg(m *dns.Msg) error {
	kept := *m
	kept.Answer, kept.Ns, kept.Extra = slices.Clip(m.Answer), slices.Clip(m.Ns), slices.Clip(m.Extra)
	w.of.keep(&kept)
	return w.ResponseWriter.WriteMsg(m)
}
