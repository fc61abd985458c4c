package clusters

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/clusterset-dns/multicluster/test/kube"
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
		index, err := strconv.Atoi(string(text))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		c := newCluster(ctx, filepath.Base(filepath.Dir(file)), addresses(index))
		if exists(c.Kubeconfig) {
			if c.Config, err = kube.ReadKubeconfig(c.Kubeconfig); err != nil {
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

// FreeIndexes gives so many indexes that no other cluster has. Those whose name a cluster has are left out as well.
func FreeIndexes(ctx context.Context, count int, name func(index int) string) ([]int, error) {
	running, err := List(ctx)
	if err != nil {
		return nil, err
	}
	taken, names := map[addresses]bool{}, map[string]bool{}
	for _, c := range running {
		taken[c.at], names[c.Name] = true, true
	}
	var free []int
	for index := 1; index <= lastIndex && len(free) < count; index++ {
		if !taken[addresses(index)] && !names[name(index)] {
			free = append(free, index)
		}
	}
	if len(free) < count {
		return nil, fmt.Errorf("%d clusters run on this machine, and there is room for %d: go run ./test/clusters/run list", len(running), lastIndex)
	}
	return free, nil
}
