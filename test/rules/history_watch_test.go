package rules

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/world"
)

// addressBook watches the imports of all clusters: the first address that one has is its address for life (C24). A second one may come
// and go with its family. A headless one has none at any time (C25).
type addressBook struct {
	watches []watch.Interface
	running sync.WaitGroup

	mu     sync.Mutex
	first  map[types.UID]string
	faults []string
}

func readAddresses(t *testing.T, set []*world.Cluster) *addressBook {
	t.Helper()
	b := &addressBook{first: map[types.UID]string{}}
	for _, c := range set {
		watcher, err := client.NewWithWatch(c.Config, client.Options{Scheme: world.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		events, err := watcher.Watch(t.Context(), new(mcsv1beta1.ServiceImportList))
		if err != nil {
			t.Fatal(err)
		}
		b.watches = append(b.watches, events)
		b.running.Go(func() {
			for event := range events.ResultChan() {
				b.note(c.ID, event)
			}
		})
	}
	return b
}

func (b *addressBook) note(cluster string, event watch.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	imp, ok := event.Object.(*mcsv1beta1.ServiceImport)
	if !ok {
		b.faults = append(b.faults, fmt.Sprintf("the watch of %s ended: %v", cluster, event))
		return
	}
	if len(imp.Spec.IPs) == 0 {
		return
	}
	if imp.Spec.Type == mcsv1beta1.Headless {
		b.faults = append(b.faults, fmt.Sprintf("C25: headless import %s/%s of %s has ips %v", imp.Namespace, imp.Name, cluster, imp.Spec.IPs))
	}
	first, known := b.first[imp.UID]
	if !known {
		b.first[imp.UID] = imp.Spec.IPs[0]
	} else if first != imp.Spec.IPs[0] {
		b.faults = append(b.faults, fmt.Sprintf("C24: import %s/%s of %s had the address %s and has %v", imp.Namespace, imp.Name, cluster, first, imp.Spec.IPs))
	}
}

func (b *addressBook) fault() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.faults) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(b.faults, "\n"))
}

// close ends the watches; a nil book has none.
func (b *addressBook) close() {
	if b == nil {
		return
	}
	for _, events := range b.watches {
		events.Stop()
	}
	b.running.Wait()
}

// ledger notes what the controllers write, each write with its path.
type ledger struct {
	mu     sync.Mutex
	open   bool
	writes []string
}

// watching is the account of a cluster's controller, under the ledger's eye.
func (l *ledger) watching(c *world.Cluster) *rest.Config {
	config := rest.CopyConfig(c.Account)
	config.Wrap(transport.WrapperFunc(func(next http.RoundTripper) http.RoundTripper { return &clerk{l, c.ID, next} }))
	return config
}

func (l *ledger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open, l.writes = true, nil
}

// stop gives the writes since begin, but for those in namespaces that do not matter.
func (l *ledger) stop(matters func(namespace string) bool) (writes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = false
	for _, write := range l.writes {
		_, path, _ := strings.Cut(write, "/namespaces/")
		if namespace, _, _ := strings.Cut(path, "/"); matters(namespace) {
			writes = append(writes, write)
		}
	}
	return writes
}

type clerk struct {
	ledger  *ledger
	cluster string
	next    http.RoundTripper
}

func (c *clerk) RoundTrip(r *http.Request) (*http.Response, error) {
	if isWork(r) {
		c.ledger.mu.Lock()
		if c.ledger.open {
			c.ledger.writes = append(c.ledger.writes, c.cluster+": "+r.Method+" "+r.URL.Path)
		}
		c.ledger.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

// reconciled is how often all controllers of this process have reconciled, or have begun to.
func reconciled() (float64, error) {
	families, err := metrics.Registry.Gather()
	total := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetName() {
			case "controller_runtime_reconcile_total":
				total += m.GetCounter().GetValue()
			case "workqueue_adds_total":
				total += m.GetCounter().GetValue()
			}
		}
	}
	return total, err
}
