package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

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
