package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"github.com/miekg/dns"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset-dns/multicluster/bench/measure"
	"github.com/clusterset-dns/multicluster/bench/soak/oracle"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// server is the CoreDNS under test. It has only our plugin and those that report its state.
type server struct {
	*measure.CoreDNS
	metrics    string // its address
	kubeconfig string
	ttl        int    // of answers: another one with each reload, which shows that it is done
	options    string // others of our plugin
}

// otherZone has the same imports as oracle.Zone.
const otherZone = "clusters.example."

func (s *server) plugins() string {
	return fmt.Sprintf("errors\n prometheus %s\n multicluster clusterset.local %s {\n kubeconfig %s\n ttl %d\n %s\n }", s.metrics, otherZone, s.kubeconfig, s.ttl, s.options)
}

// reload has the server read a Corefile with options of our plugin, and returns when it answers by it.
func (s *server) reload(ctx context.Context, options string) error {
	s.ttl, s.options = s.ttl%100+1, options
	if err := s.Reload(s.plugins()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return measure.Until(ctx, 50*time.Millisecond, func() error {
		m, err := dns.Exchange(new(dns.Msg).SetQuestion(oracle.Zone, dns.TypeSOA), s.Address)
		if err == nil && (len(m.Answer) == 0 || m.Answer[0].Header().Ttl != uint32(s.ttl)) {
			err = fmt.Errorf("want an SOA record with a TTL of %d after the reload, got %v", s.ttl, m)
		}
		return err
	})
}

// startServer starts CoreDNS, which reaches the API server at the address given, and returns when it answers.
func startServer(ctx context.Context, c *kube.Cluster, apiserver string) *server {
	config := measure.Must(clientcmd.LoadFromFile(c.Kubeconfig))
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + apiserver
	}
	kubeconfig := filepath.Join(filepath.Dir(c.Kubeconfig), "proxied.kubeconfig")
	measure.Check(clientcmd.WriteToFile(*config, kubeconfig))
	s := &server{metrics: measure.Must(measure.FreeAddress()), kubeconfig: kubeconfig, ttl: 5}
	s.CoreDNS = measure.Must(measure.StartCoreDNS(ctx, c, filepath.Join("bin", "coredns"), s.plugins(), func(address string) error {
		m, err := dns.Exchange(new(dns.Msg).SetQuestion(oracle.Zone, dns.TypeSOA), address)
		if err == nil && len(m.Answer) == 0 {
			err = fmt.Errorf("%s has no SOA record: %s", oracle.Zone, dns.RcodeToString[m.Rcode])
		}
		return err
	}))
	return s
}

// memory is what CoreDNS has of it.
type memory struct {
	heap       int64 // bytes that are in use after a garbage collection
	resident   int64 // bytes of the whole process
	goroutines int64
}

// Bounds of what may be more at the end than at the begin, for the same world. A few kilobytes of an otherwise level heap are those of
// connections and buffers that happen to be open; a leak of four bytes per change would be seen after ten minutes.
const (
	heapMost      = 1.15
	goroutineMore = 5
)

// weigh looks several times, a second apart, and takes the least: connections that are about to be closed go, and what is held by
// finalizers and pools goes with the second collection.
func (s *server) weigh(ctx context.Context) memory {
	least := measure.Must(s.glance(ctx))
	for range 7 {
		measure.Check(measure.Pause(ctx, time.Second))
		m := measure.Must(s.glance(ctx))
		least = memory{min(least.heap, m.heap), min(least.resident, m.resident), min(least.goroutines, m.goroutines)}
	}
	return least
}

// glance looks once.
func (s *server) glance(ctx context.Context) (m memory, err error) {
	if m.heap, err = s.Heap(ctx); err != nil {
		return m, err
	}
	if m.goroutines, err = s.Goroutines(ctx); err != nil {
		return m, err
	}
	m.resident, _, err = s.Memory()
	return m, err
}

// gauge is the value of a metric without labels.
func (s *server) gauge(ctx context.Context, name string) (int64, error) {
	return measure.Figure(ctx, "http://"+s.metrics+"/metrics", regexp.MustCompile(`(?m)^`+name+` (\d+)$`))
}

// level returns the difference between the end and the beginning, or "" if there is none.
func level(begin, end memory) string {
	switch {
	case float64(end.heap) > heapMost*float64(begin.heap):
		return fmt.Sprintf("the heap is %.2f times what it was", float64(end.heap)/float64(begin.heap))
	case end.goroutines > begin.goroutines+goroutineMore:
		return fmt.Sprintf("there are %d goroutines more", end.goroutines-begin.goroutines)
	}
	return ""
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
