// Package monitoring tests what deploy/charts/multicluster/files/monitoring has for Prometheus and Grafana: the alerts, and the
// queries of the dashboard. README.md describes how.
package monitoring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// version is the version of Prometheus.
const version = "v0.316.0"

// Programs returns the paths of prometheus and promtool. They are built unless they are in the user's cache. Of the ways to discover
// targets they have only files and fixed addresses: the others are most of Prometheus.
func Programs(ctx context.Context) (prometheus, promtool string, err error) {
	dir, err := kube.CacheFolder(fmt.Sprintf("prometheus-%s-%s", version, runtime.Version()))
	if err != nil {
		return "", "", err
	}
	prometheus, promtool = filepath.Join(dir, "prometheus"), filepath.Join(dir, "promtool")
	_, have1 := os.Stat(prometheus)
	_, have2 := os.Stat(promtool)
	if errors.Join(have1, have2) == nil {
		return prometheus, promtool, nil
	}
	const commands = "github.com/prometheus/prometheus/cmd/"
	install := kube.Go(ctx, "", "install", "-tags=remove_all_sd", "-ldflags=-s -w", commands+"prometheus@"+version, commands+"promtool@"+version)
	install.Env = append(install.Env, "GOBIN="+dir)
	if _, err := kube.Output(install); err != nil {
		return "", "", fmt.Errorf("build prometheus and promtool %s: %w", version, errors.Join(err, ctx.Err()))
	}
	return prometheus, promtool, nil
}
