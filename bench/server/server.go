package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

// plugins are what the Corefiles of the answerers differ in.
var plugins = map[answerer]string{
	ours:      "multicluster clusterset.local {\n kubeconfig KUBECONFIG\n udp_size 4096\n OPTION\n }", // as large as bigReplies, as in-tree's are
	inTree:    "kubernetes cluster.local clusterset.local {\n kubeconfig KUBECONFIG\n multicluster clusterset.local\n OPTION\n }",
	whoami:    "whoami",
	readyMade: "readymade\n multicluster clusterset.local {\n kubeconfig KUBECONFIG\n udp_size 4096\n OPTION\n }",
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

// What is measured of a server's start.
const (
	heapBytes   = "heap, bytes"
	peakBytes   = "peak of the whole process, bytes"
	firstAnswer = "time to first answer, s"
	cpuToAnswer = "CPU to first answer, s"
)

// memory starts ours and the in-tree plugin, in turns, until they are ready, and adds how long that took, what is on their heap, and
// the most memory that they had. Before them, in each turn, it does what else is to be compared with their starts.
func (b *bench) memory(ctx context.Context, w *world, title string, ready func(address string) error, before ...func()) {
	for range b.starts {
		for _, do := range before {
			do()
		}
		for _, each := range alike([]answerer{ours, inTree}, ready) {
			b.serve(ctx, w, []setup{each}, func(s []*server) { b.weigh(ctx, s[0], title) })
		}
	}
	b.say("  memory at %s", title)
}

// listed is the title of what was read without streaming.
func listed(of string) string { return of + ", not streamed" }

// withoutStreaming does something while each server that starts asks for lists, as it does where the API server does not stream them
// (Kubernetes 1.30, 1.31 and 1.33). The variable is client-go's.
func withoutStreaming(do func()) {
	const variable = "KUBE_FEATURE_WatchListClient"
	measure.Check(os.Setenv(variable, "false"))
	defer func() { measure.Check(os.Unsetenv(variable)) }()
	do()
}

// weigh takes the heap after several garbage collections: the first ones free what was held by finalizers and pools.
func (b *bench) weigh(ctx context.Context, s *server, title string) {
	var heap int64
	for range 4 {
		heap = measure.Must(s.Heap(ctx))
	}
	_, peak, err := s.Memory()
	measure.Check(err)
	b.samples.add(firstAnswer, title, s.who, s.Took.Seconds())
	b.samples.add(cpuToAnswer, title, s.who, s.Used.Seconds())
	b.samples.add(heapBytes, title, s.who, float64(heap))
	b.samples.add(peakBytes, title, s.who, float64(peak))
}

// onlyRead measures what the API server alone needs to send all imports: how long a client waits that only reads our watch. It is
// in the column of what is ready-made.
func (b *bench) onlyRead(ctx context.Context, w *world) {
	api := measure.Must(kubernetes.NewForConfig(w.Config))
	begin := time.Now()
	events := measure.Must(api.Discovery().RESTClient().Get().AbsPath("/apis/multicluster.x-k8s.io/v1beta1/serviceimports").Param("watch", "true").
		Param("sendInitialEvents", "true").Param("resourceVersionMatch", "NotOlderThan").Param("allowWatchBookmarks", "true").Stream(ctx))
	defer func() { _ = events.Close() }()
	measure.Check(readImports(events))
	b.samples.add(firstAnswer, b.manyImports(), readyMade, time.Since(begin).Seconds())
}

// readImports reads a watch that begins with all imports, up to the last of these.
func readImports(from io.Reader) error {
	events := bufio.NewReaderSize(from, 1<<16)
	for {
		event, err := events.ReadSlice('\n')
		switch {
		case err == nil && bytes.HasPrefix(event, []byte(`{"type":"ERROR"`)):
			return fmt.Errorf("the watch ended: %s", event)
		case err == nil && bytes.Contains(event, []byte(metav1.InitialEventsAnnotationKey)):
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
}
