package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/bench/simulated"
)

// measure measures the first sync, then idleness, then a restart; and the floor before and after them, because an API server takes longer
// for a Service, the more there are.
func measure(ctx context.Context, s size) (rows []row, err error) {
	var all *stage
	if err := part(fmt.Sprintf("starting a cluster and %d peers", s.world.Peers), func() (err error) {
		all, err = set(ctx, s.world)
		return err
	}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, all.stop()) }()
	before, err := floorPart(ctx, all, s.world, "floor-before")
	if err != nil {
		return nil, err
	}
	sync, err := all.firstSync(ctx, s.world)
	if err != nil {
		return nil, err
	}
	idle, err := all.idle(ctx, s.idle)
	if err != nil {
		return nil, err
	}
	disturbed, err := all.disturb(ctx, s)
	if err != nil {
		return nil, err
	}
	again, err := all.restart(ctx, s.world)
	if err != nil {
		return nil, err
	}
	all.controller.Stop()
	after, err := floorPart(ctx, all, s.world, "floor-after")
	if err != nil {
		return nil, err
	}
	bare := (before + after).Seconds() / 2
	rows = append(rows,
		row{"first sync: until all imports are ready, with all slices", sync.took.Seconds(), "s"},
		row{fmt.Sprintf("the same writes by a bare client, 8 at a time (from up to %d names of each sort): the floor", floorNames), bare, "s"},
		row{"first sync, in relation to the floor", sync.took.Seconds() / bare, "x"})
	return slices.Concat(rows, sync.rows, idle, disturbed, again), nil
}

func floorPart(ctx context.Context, all *stage, w simulated.World, namespace string) (took time.Duration, err error) {
	err = part("the writes of some names by a bare client", func() (err error) {
		took, err = floor(ctx, all.Cluster, w, namespace)
		return err
	})
	return took, err
}

type firstSync struct {
	took time.Duration
	rows []row
}

// The metrics of the controller that are read.
const (
	processCPU    = "process_cpu_seconds_total"
	processMemory = "process_resident_memory_bytes"
	heapLive      = "go_gc_heap_live_bytes" // what the last garbage collection left
)

func (s *stage) firstSync(ctx context.Context, w simulated.World) (f firstSync, err error) {
	before, err := s.writes(ctx)
	if err != nil {
		return f, err
	}
	if f.took, err = s.sync(ctx, w, "the first sync"); err != nil {
		return f, err
	}
	after, err := s.writes(ctx)
	if err != nil {
		return f, err
	}
	cpu, err := s.figure(ctx, processCPU, nil)
	if err != nil {
		return f, err
	}
	memory, err := s.figure(ctx, processMemory, nil)
	if err != nil {
		return f, err
	}
	live, err := s.figure(ctx, heapLive, nil)
	f.rows = []row{
		{"writes of the first sync, for each import", (after - before) / float64(w.Imports()), "writes"},
		{"CPU time of the controller for the first sync", cpu, "s"},
		{"memory of the controller, resident, after the first sync", memory / (1 << 20), "MiB"},
		{"of it, what the last garbage collection left", live / (1 << 20), "MiB"},
	}
	return f, err
}

// sync starts the controller, and gives the time until all imports are ready. It includes about a second for the objects of
// deploy/controller, which are applied first.
func (s *stage) sync(ctx context.Context, w simulated.World, what string) (took time.Duration, err error) {
	began := time.Now()
	err = part(what, func() error {
		if err := s.control(ctx); err != nil {
			return err
		}
		return s.ready(ctx, w)
	})
	return time.Since(began), err
}

// ready waits until all imports are ready and have their slices.
func (s *stage) ready(ctx context.Context, w simulated.World) error {
	api, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return err
	}
	return wait(ctx, "be ready", time.Second, func() error { // a read of the metrics costs the controller milliseconds
		ready, err := s.figure(ctx, "multicluster_serviceimports", map[string]string{"condition": "ready"})
		if err == nil && int(ready) < w.Imports() {
			err = fmt.Errorf("%d of %d imports", int(ready), w.Imports())
		}
		if err != nil {
			return err
		}
		// An API server counts objects only without a selector. The objects of the floor are deleted by now.
		page, err := api.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		count := len(page.Items)
		if page.RemainingItemCount != nil {
			count += int(*page.RemainingItemCount)
		}
		if count < w.Slices() {
			return fmt.Errorf("%d of %d slices", count, w.Slices())
		}
		return nil
	})
}

// idle measures while nothing changes but heartbeats.
func (s *stage) idle(ctx context.Context, long time.Duration) ([]row, error) {
	if _, err := s.quiet(ctx); err != nil {
		return nil, err
	}
	cpu, err := s.figure(ctx, processCPU, nil)
	if err != nil {
		return nil, err
	}
	writes, err := s.writes(ctx)
	if err != nil {
		return nil, err
	}
	requests, began := s.requests(), time.Now()
	if err := part(fmt.Sprintf("counting for %v while nothing changes", long), func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(long):
			return nil
		}
	}); err != nil {
		return nil, err
	}
	took := time.Since(began).Seconds()
	asked := float64(s.requests() - requests)
	after, err := s.writes(ctx)
	if err != nil {
		return nil, err
	}
	used, err := s.figure(ctx, processCPU, nil)
	if err != nil {
		return nil, err
	}
	memory, err := s.figure(ctx, processMemory, nil)
	return []row{
		{"idle: requests to each peer a second", asked / took / float64(len(s.peers)), "1/s"},
		{"idle: CPU time of the controller a second", (used - cpu) / took * 1000, "ms"},
		{"idle: writes", after - writes, "writes"},
		{"idle: memory of the controller, resident, at the end", memory / (1 << 20), "MiB"},
	}, err
}

// restart measures until the controller has looked at everything again.
func (s *stage) restart(ctx context.Context, w simulated.World) ([]row, error) {
	before, err := s.writes(ctx)
	if err != nil {
		return nil, err
	}
	s.controller.Stop()
	began := time.Now()
	took, err := s.sync(ctx, w, "a restart of the controller")
	if err != nil {
		return nil, err
	}
	last, err := s.quiet(ctx)
	if err != nil {
		return nil, err
	}
	after, err := s.writes(ctx)
	if err != nil {
		return nil, err
	}
	memory, err := s.figure(ctx, processMemory, nil)
	return []row{
		{"restart: until all imports are ready", took.Seconds(), "s"},
		{"restart: until all names are reconciled", last.Sub(began).Seconds(), "s"},
		{"restart: writes for an unchanged world", after - before, "writes"},
		{"restart: memory of the controller, resident", memory / (1 << 20), "MiB"},
	}, err
}

// settled is how long the controller has to reconcile nothing until it counts as idle.
const settled = 5 * time.Second

// quiet waits until the controller is idle, and gives the time since which it is.
func (s *stage) quiet(ctx context.Context) (since time.Time, err error) {
	last := -1.0
	err = part("waiting until nothing is reconciled any more", func() error {
		return wait(ctx, "become idle", 200*time.Millisecond, func() error {
			total, err := s.figure(ctx, "controller_runtime_reconcile_total", nil)
			if err != nil {
				return err
			}
			if total != last {
				last, since = total, time.Now()
			}
			if time.Since(since) < settled {
				return fmt.Errorf("%.0f reconciles so far", total)
			}
			return nil
		})
	})
	return since, err
}
