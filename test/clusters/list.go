package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// List gives all clusters that were started and not removed, by name. Of one that did not come up, Config is nil.
func List(ctx context.Context) ([]*Cluster, error) {
	files, err := filepath.Glob(filepath.Join(parent, "*", stateFile))
	if err != nil {
		return nil, err
	}
	var all []*Cluster
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var s state
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		c := newCluster(ctx, filepath.Base(filepath.Dir(file)), addresses(s.Index))
		if exists(c.Kubeconfig) {
			if c.Config, err = readConfig(c.Kubeconfig); err != nil {
				return nil, err
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// Open gives a cluster that any process started.
func Open(ctx context.Context, name string) (*Cluster, error) {
	all, err := List(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no cluster %q: make it with `go run ./test/clusters/run up`", name)
}

// Running counts the cluster's processes: none are left after the machine was off.
func (c *Cluster) Running() int { return len(c.processes()) }
