package kube

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// setupEnvtest is the tool that downloads the programs of Kubernetes' envtest. It has no module of this project's: go install fetches it.
const setupEnvtest = "sigs.k8s.io/controller-runtime/tools/setup-envtest@v0.25.1"

// inEnvtest are the programs that it downloads.
var inEnvtest = []string{"etcd", "kube-apiserver", "kubectl"}

// Find gives the paths of programs as Build does. But what is not in the user's cache is not built where somebody else has built it: in the
// folder KUBEBUILDER_ASSETS, if that is set, or else in what setup-envtest downloads of the pinned minor version. Tests take Build, as what
// they assert is of the pinned versions.
func Find(ctx context.Context, progress io.Writer, names ...string) (map[string]string, error) {
	s, err := newest.source()
	if err != nil {
		return nil, err
	}
	left := s.missing(names)
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" && slices.ContainsFunc(left, func(name string) bool { return slices.Contains(inEnvtest, name) }) {
		_, _ = fmt.Fprintln(progress, "looking for prebuilt programs, by setup-envtest")
		if assets, err = envtest(ctx, s.version); err != nil {
			_, _ = fmt.Fprintf(progress, "there are none: %v\n", err)
		}
	}
	taken, built := map[string]string{}, []string(nil)
	for _, name := range names {
		if path := filepath.Join(assets, name); assets != "" && slices.Contains(left, name) && exists(path) {
			_, _ = fmt.Fprintln(progress, "taking", path)
			taken[name] = path
		} else {
			built = append(built, name)
		}
	}
	if len(built) == 0 {
		return taken, nil
	}
	paths, err := newest.Build(ctx, progress, built...)
	maps.Copy(taken, paths)
	return taken, err
}

// envtest gives the folder where setup-envtest has programs of a minor version.
func envtest(ctx context.Context, version string) (string, error) {
	store, err := CacheFolder("envtest")
	if err != nil {
		return "", err
	}
	install := Go(ctx, "", "install", setupEnvtest)
	install.Env = append(install.Env, "GOBIN="+store)
	if _, err := Output(install); err != nil {
		return "", err
	}
	minor := strings.TrimPrefix(version[:strings.LastIndex(version, ".")+1], "v") + "x"
	return Output(exec.CommandContext(ctx, filepath.Join(store, "setup-envtest"), "use", minor, "--print=path", "--bin-dir="+store))
}
