package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// atScale is of a clusterset in which each cluster exports each Service.
func atScale(ctx context.Context, s size) (rows []row, err error) {
	var set []*member
	defer func() { err = errors.Join(err, stopAll(set)) }()
	if err := part(fmt.Sprintf("starting three clusters with %d exported Services each", s.services), func() error {
		if set, err = startAll(ctx); err != nil {
			return err
		}
		group, ctx := errgroup.WithContext(ctx)
		for _, m := range set {
			group.Go(func() error { return m.fill(ctx, 0, s.services, s.endpoints, true) })
		}
		return group.Wait()
	}); err != nil {
		return nil, err
	}
	atFirst, err := allWrites(ctx, set)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := part("the first sync, with all controllers started at once", func() error {
		if err := controlAll(ctx, set); err != nil {
			return err
		}
		return hasAll(ctx, set, s)
	}); err != nil {
		return nil, err
	}
	synced := time.Since(began)
	cpu, err := most(ctx, set, "process_cpu_seconds_total")
	if err != nil {
		return nil, err
	}
	memory, err := most(ctx, set, "process_resident_memory_bytes")
	if err != nil {
		return nil, err
	}
	first, err := allWrites(ctx, set)
	if err != nil {
		return nil, err
	}
	writes, err := restartWrites(ctx, set, s)
	if err != nil {
		return nil, err
	}
	again, err := most(ctx, set, "process_resident_memory_bytes")
	if err != nil {
		return nil, err
	}
	of := fmt.Sprintf("3 clusters x %d exported services of %d endpoints", s.services, s.endpoints)
	return []row{
		{what: of + ": first sync", got: synced.Seconds(), reach: 60, unit: "s"},
		{what: "CPU time of a controller for that", got: cpu, reach: -1, unit: "s"},
		{what: "writes of the first sync, for each name in each cluster (it needs 8)", got: (first - atFirst) / float64(3*s.services), reach: -1, unit: "writes"},
		{what: "writes for an unchanged world: restart of every controller", got: writes, reach: 0, unit: "writes"},
		{what: "memory of a controller there, resident, after the first sync", got: memory / (1 << 20), reach: 300, unit: "MiB"},
		{what: "memory of a controller there, resident, after a restart", got: again / (1 << 20), reach: 300, unit: "MiB"},
	}, nil
}

func hasAll(ctx context.Context, set []*member, s size) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range set {
		group.Go(func() error { return m.has(ctx, s.services, len(set)) })
	}
	return group.Wait()
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
