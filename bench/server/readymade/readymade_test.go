package readymade

import (
	"context"
	"testing"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"
)

func TestNextPluginGetsEachQuestionOnce(t *testing.T) {
	asked := 0
	h := &Readymade{kept: map[dns.Question]*dns.Msg{}, next: plugin.HandlerFunc(
		func(_ context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
			asked++
			m := new(dns.Msg).SetReply(r)
			m.Answer = []dns.RR{test.A(r.Question[0].Name + " 5 IN A 10.0.0.1")}
			return m.Rcode, w.WriteMsg(m)
		})}
	for step, question := range []struct {
		name  string
		asked int // after it
	}{{"a.example.", 1}, {"a.example.", 1}, {"b.example.", 2}, {"a.example.", 2}} {
		r := new(dns.Msg).SetQuestion(question.name, dns.TypeA)
		w := dnstest.NewRecorder(&test.ResponseWriter{})
		if _, err := h.ServeDNS(t.Context(), w, r); err != nil {
			t.Fatal(err)
		}
		if asked != question.asked {
			t.Errorf("step %d: the next plugin was asked %d times; want %d", step, asked, question.asked)
		}
		if w.Msg.Id != r.Id || len(w.Msg.Answer) != 1 || w.Msg.Answer[0].Header().Name != question.name {
			t.Errorf("step %d: the reply to %v is %v", step, r, w.Msg)
		}
	}
}
