package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// atScale is of a clusterset in which each cluster exports each Service.
func atScale(ctx context.Context, s size) (rows []row, err error) {
	var set []*member
	defer func() { err = errors.Join(err, stopAll(set)) }()
	if err := part(fmt.Sprintf("starting three clusters with %d exported Services each", s.services), func() error {
		if set, err = startAll(ctx); err != nil {
			return err
		}
		return each(ctx, set, func(ctx context.Context, m *member) error { return m.fill(ctx, 0, s.services, s.endpoints, true) })
	}); err != nil {
		return nil, err
	}
	before, err := floorPart(ctx, set, "floor-before", s)
	if err != nil {
		return nil, err
	}
	sync, err := firstSync(ctx, set, s)
	if err != nil {
		return nil, err
	}
	again, err := restarted(ctx, set, s)
	if err != nil {
		return nil, err
	}
	for _, m := range set {
		m.controller.Stop()
	}
	after, err := floorPart(ctx, set, "floor-after", s)
	if err != nil {
		return nil, err
	}
	// An API server takes longer for a Service, the more there are: it counts them all, twice. So the middle of both is taken.
	bare := (before + after).Seconds() / 2 * float64(s.services)
	of := fmt.Sprintf("3 clusters x %d exported services of %d endpoints", s.services, s.endpoints)
	return slices.Concat(
		[]row{
			{what: of + ": first sync", got: sync.took.Seconds(), reach: 60, unit: "s"},
			{what: "the same writes by a bare client, 8 at a time for each cluster (from " + strconv.Itoa(2*floorNames) + " names): the floor", got: bare, reach: -1, unit: "s"},
			{what: "first sync, in relation to the floor", got: sync.took.Seconds() / bare, reach: -1, unit: "x"},
		},
		sync.rows(s), again), nil
}

func floorPart(ctx context.Context, set []*member, namespace string, s size) (each time.Duration, err error) {
	err = part(fmt.Sprintf("the writes of %d names by a bare client", floorNames), func() error {
		each, err = floor(ctx, set, namespace, s.endpoints)
		return err
	})
	return each, err
}

// syncFigures are of a first sync.
type syncFigures struct {
	took, tenth    time.Duration // until all, and a tenth, of the names are ready in each cluster
	cpu, serverCPU float64       // seconds: of one controller, and of one API server
	writes, memory float64
}

func (f syncFigures) rows(s size) []row {
	return []row{
		{what: "until a tenth of the names is ready in each cluster", got: f.tenth.Seconds(), reach: -1, unit: "s"},
		{what: "CPU time of a controller for the first sync", got: f.cpu, reach: -1, unit: "s"},
		{what: "CPU time of an API server for the first sync", got: f.serverCPU, reach: -1, unit: "s"},
		{what: "writes of the first sync, for each name in each cluster (it needs 8)", got: f.writes / float64(3*s.services), reach: -1, unit: "writes"},
		{what: "memory of a controller there, resident, after the first sync", got: f.memory / (1 << 20), reach: 300, unit: "MiB"},
	}
}

// firstSync starts the controllers, with everything exported already.
func firstSync(ctx context.Context, set []*member, s size) (f syncFigures, err error) {
	writes, err := allWrites(ctx, set)
	if err != nil {
		return f, err
	}
	server, err := set[0].server(ctx, processCPU, nil)
	if err != nil {
		return f, err
	}
	began := time.Now()
	if err := part("the first sync, with all controllers started at once", func() error {
		if err := controlAll(ctx, set); err != nil {
			return err
		}
		if err := each(ctx, set, func(ctx context.Context, m *member) error { return m.ready(ctx, s.services/10) }); err != nil {
			return err
		}
		f.tenth = time.Since(began)
		return hasAll(ctx, set, s)
	}); err != nil {
		return f, err
	}
	f.took = time.Since(began)
	if f.serverCPU, err = set[0].server(ctx, processCPU, nil); err != nil {
		return f, err
	}
	f.serverCPU -= server
	if f.cpu, err = most(ctx, set, processCPU); err != nil {
		return f, err
	}
	if f.memory, err = most(ctx, set, "process_resident_memory_bytes"); err != nil {
		return f, err
	}
	f.writes, err = allWrites(ctx, set)
	f.writes -= writes
	return f, err
}

const processCPU = "process_cpu_seconds_total"

// restarted measures what a restart of all controllers costs.
func restarted(ctx context.Context, set []*member, s size) ([]row, error) {
	writes, err := restartWrites(ctx, set, s)
	if err != nil {
		return nil, err
	}
	memory, err := most(ctx, set, "process_resident_memory_bytes")
	return []row{
		{what: "writes for an unchanged world: restart of every controller", got: writes, reach: 0, unit: "writes"},
		{what: "memory of a controller there, resident, after a restart", got: memory / (1 << 20), reach: 300, unit: "MiB"},
	}, err
}

// hasAll waits for the imports, their slices, and the last write: the conditions of the exports.
func hasAll(ctx context.Context, set []*member, s size) error {
	return each(ctx, set, func(ctx context.Context, m *member) error {
		if err := m.has(ctx, s.services, len(set)); err != nil {
			return err
		}
		return wait(ctx, "are on its exports in "+m.ID, time.Second, func() error {
			said, err := m.figure(ctx, "multicluster_serviceexports", map[string]string{"condition": "Conflict", "status": "False"})
			if err == nil && int(said) < s.services {
				err = fmt.Errorf("%d of %d", int(said), s.services)
			}
			return err
		})
	})
}

// most is the greatest of a figure of the controllers.
func most(ctx context.Context, set []*member, name string) (greatest float64, err error) {
	for _, m := range set {
		value, err := m.figure(ctx, name, nil)
		if err != nil {
			return 0, err
		}
		greatest = max(greatest, value)
	}
	return greatest, nil
}

// restartWrites counts the writes from before the end of all controllers until, started again, they have looked at everything.
func restartWrites(ctx context.Context, set []*member, s size) (written float64, err error) {
	if err := part("waiting until nothing is written any more", func() error { return quiet(ctx, set) }); err != nil {
		return 0, err
	}
	before, err := allWrites(ctx, set)
	if err != nil {
		return 0, err
	}
	if err := part("a restart of all controllers", func() error {
		for _, m := range set {
			m.controller.Stop()
		}
		if err := controlAll(ctx, set); err != nil {
			return err
		}
		return errors.Join(hasAll(ctx, set, s), quiet(ctx, set))
	}); err != nil {
		return 0, err
	}
	after, err := allWrites(ctx, set)
	return after - before, err
}

// quiet waits until no controller has reconciled anything for a few looks.
func quiet(ctx context.Context, set []*member) error {
	last, same := -1.0, 0
	return wait(ctx, "become quiet", time.Second, func() error {
		var total float64
		for _, m := range set {
			n, err := m.figure(ctx, "controller_runtime_reconcile_total", nil)
			if err != nil {
				return err
			}
			total += n
		}
		if total == last {
			same++
		} else {
			last, same = total, 0
		}
		if same < 5 {
			return fmt.Errorf("%.0f reconciles so far", total)
		}
		return nil
	})
}

func allWrites(ctx context.Context, set []*member) (total float64, err error) {
	for _, m := range set {
		n, err := m.writes(ctx)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}
