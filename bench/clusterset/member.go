package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/bench/measure"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
)

// member is a cluster with its controller as a process.
type member struct {
	*world.Cluster
	api        *kubernetes.Clientset
	metrics    string // the controller's address; "" before it is started
	controller *kube.Program
}

// start starts a cluster without a controller.
func start(ctx context.Context, id, serviceCIDRs string) (*member, error) {
	c, err := world.Start(ctx, id, kube.Options{ServiceCIDRs: serviceCIDRs})
	if err != nil {
		return nil, err
	}
	m := &member{Cluster: c}
	m.api, err = kubernetes.NewForConfig(c.Config)
	return m, err
}

func (m *member) stop() error {
	m.controller.Stop()
	return m.Stop()
}

// control starts the controller, without TCP connections to endpoints that do not exist.
func (m *member) control(ctx context.Context) (err error) {
	if m.metrics, err = measure.FreeAddress(); err != nil {
		return err
	}
	m.controller, err = binaries.StartController(ctx, m.Cluster.Cluster, "--cluster-id="+m.ID, "--probe-peers=false",
		"--metrics-bind-address="+m.metrics, "--leader-elect=false")
	return err
}

// set is some members.
type set []*member

// each does something with each member at the same time.
func (s set) each(ctx context.Context, do func(context.Context, *member) error) error {
	return measure.Parallel(ctx, len(s), len(s), func(ctx context.Context, i int) error { return do(ctx, s[i]) })
}

func (s set) control(ctx context.Context) error {
	return s.each(ctx, func(ctx context.Context, m *member) error { return m.control(ctx) })
}

func (s set) stop() (err error) {
	for _, m := range s {
		err = errors.Join(err, m.stop())
	}
	return err
}

// reading is what a controller and its API server have used and done so far.
type reading struct {
	writes       float64 // that the API server was asked for, of the kinds that the controller writes; Leases and events are none
	serverCPU    float64 // seconds
	cpu          float64 // of the controller
	memory, live float64 // resident, and what the last garbage collection left, in MiB
	plans        float64 // of names
}

func (m *member) read(ctx context.Context) (r reading, err error) {
	text, err := m.api.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return r, err
	}
	server, err := parse(string(text))
	if err != nil {
		return r, err
	}
	r.serverCPU = server("process_cpu_seconds_total")
	r.writes = server("apiserver_request_total", "resource", "serviceimports serviceexports services endpointslices", "verb", "POST PUT PATCH DELETE APPLY")
	if m.metrics == "" {
		return r, nil
	}
	controller, err := m.figures(ctx)
	if err != nil {
		return r, err
	}
	r.cpu = controller("process_cpu_seconds_total")
	r.memory = controller("process_resident_memory_bytes") / (1 << 20)
	r.live = controller("go_gc_heap_live_bytes") / (1 << 20)
	r.plans = controller(reconciles, "controller", "serviceimport")
	return r, nil
}

const reconciles = "controller_runtime_reconcile_total"

// during gives what was used and done while something happened, and the memory at its end.
func (s set) during(ctx context.Context, what string, do func()) (spent []reading) {
	before := map[*member]reading{}
	for _, m := range s {
		before[m] = measure.Must(m.read(ctx))
	}
	part(what, do)
	for _, m := range s {
		r, b := measure.Must(m.read(ctx)), before[m]
		spent = append(spent, reading{r.writes - b.writes, r.serverCPU - b.serverCPU, r.cpu - b.cpu, r.memory, r.live, r.plans - b.plans})
	}
	return spent
}

// figures give the sum of a metric's series that have all the labels, each with one of the values, which are set apart by spaces.
type figures func(name string, labels ...string) float64

// figures are those of the controller.
func (m *member) figures(ctx context.Context) (figures, error) {
	text, err := binaries.Get(ctx, "http://"+m.metrics+"/metrics")
	if err != nil {
		return nil, err
	}
	return parse(text)
}

func parse(metrics string) (figures, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(metrics))
	return func(name string, labels ...string) (total float64) {
		for _, series := range families[name].GetMetric() {
			has := map[string]string{}
			for _, label := range series.GetLabel() {
				has[label.GetName()] = label.GetValue()
			}
			value := series.GetGauge().GetValue() + series.GetCounter().GetValue()
			for i := 0; i < len(labels); i += 2 {
				if !slices.Contains(strings.Fields(labels[i+1]), has[labels[i]]) {
					value = 0
				}
			}
			total += value
		}
		return total
	}, err
}

// ready waits until so many imports are, or more, with so many slices.
func (m *member) ready(ctx context.Context, imports, parts int) error {
	return wait(ctx, "import in "+m.ID, 500*time.Millisecond, func() error { // a read of the metrics costs the controller milliseconds
		all, err := m.figures(ctx)
		if err != nil {
			return err
		}
		if ready := int(all("multicluster_serviceimports", "condition", "ready")); ready < imports {
			return fmt.Errorf("%d of %d imports are ready", ready, imports)
		}
		// An API server counts objects only without a selector. The objects of the floor are deleted by now.
		page, err := m.api.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		count := len(page.Items)
		if page.RemainingItemCount != nil {
			count += int(*page.RemainingItemCount)
		}
		if count < parts {
			return fmt.Errorf("%d of %d slices", count, parts)
		}
		return nil
	})
}

// settled is how long controllers have to reconcile nothing until they count as idle.
const settled = 5 * time.Second

// quiet waits until the controllers are idle, and gives the time since which they are.
func (s set) quiet(ctx context.Context) (since time.Time) {
	last := -1.0
	measure.Check(wait(ctx, "become idle", 200*time.Millisecond, func() error {
		var total float64
		for _, m := range s {
			all, err := m.figures(ctx)
			if err != nil {
				return err
			}
			total += all(reconciles)
		}
		if total != last {
			last, since = total, time.Now()
		}
		if time.Since(since) < settled {
			return fmt.Errorf("%.0f reconciles so far", total)
		}
		return nil
	}))
	return since
}

// arrivals are changes of endpoints that are expected in slices of a cluster, and when they came. A change is a new address or hostname.
type arrivals struct {
	stop    func()
	running sync.WaitGroup

	mu      sync.Mutex
	changed map[string]time.Time
	took    []float64 // milliseconds
	err     error     // of a watch that ended too early
}

// follow watches the slices of the cluster.
func (m *member) follow(ctx context.Context) (*arrivals, error) {
	slices := m.api.DiscoveryV1().EndpointSlices("")
	page, err := slices.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	events, err := slices.Watch(ctx, metav1.ListOptions{ResourceVersion: page.ResourceVersion})
	if err != nil {
		return nil, err
	}
	a := &arrivals{changed: map[string]time.Time{}, stop: events.Stop}
	a.running.Go(func() {
		for event := range events.ResultChan() {
			if slice, is := event.Object.(*discoveryv1.EndpointSlice); is {
				a.note(slice)
			}
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.err = errors.New("the watch of EndpointSlices has ended")
	})
	return a, nil
}

func (a *arrivals) note(slice *discoveryv1.EndpointSlice) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, endpoint := range slice.Endpoints {
		keys := endpoint.Addresses[:1:1]
		if endpoint.Hostname != nil {
			keys = append(keys, *endpoint.Hostname)
		}
		for _, key := range keys {
			if at, expected := a.changed[key]; expected {
				a.took = append(a.took, measure.Milliseconds(now.Sub(at)))
				delete(a.changed, key)
			}
		}
	}
}

func (a *arrivals) expect(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed[key] = time.Now()
}

// complete returns what is missing.
func (a *arrivals) complete() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil || len(a.changed) == 0 {
		return a.err
	}
	return fmt.Errorf("%d changes have not arrived", len(a.changed))
}

// end ends the watch, and gives the delays.
func (a *arrivals) end() []float64 {
	a.stop()
	a.running.Wait()
	return a.took
}
