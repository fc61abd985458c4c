// Package images makes the images that the test clusters' pods use, without a registry: archives in the user's cache folder.
package images

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// Names of the images. A pod has to ask for them with imagePullPolicy IfNotPresent or Never.
const (
	// Pause is the image that containerd starts for the namespaces of a pod.
	Pause = "registry.invalid/clusterset-dns/pause:1"
	// Tools is Debian with sh, getent, nslookup, dig, curl, nc, socat, ip, ps, and our own serve.
	Tools = "registry.invalid/clusterset-dns/tools:1"
)

// Archives are the images' files.
type Archives struct{ Pause, Tools string }

var (
	//go:embed pause/main.go
	pauseSource []byte
	//go:embed serve/main.go
	serveSource []byte
)

// debian is what the tools image is made of.
const (
	suite    = "bookworm"
	included = "bind9-dnsutils,curl,iproute2,netcat-openbsd,procps,socat"
)

var errRoot = errors.New("debootstrap needs root, to make the image's devices and users")

// Make gives the images, and makes those that are not in the user's cache yet.
func Make(ctx context.Context) (all Archives, err error) {
	if all.Pause, err = cached(ctx, "images", "pause", pause, Pause, string(pauseSource), runtime.GOARCH); err != nil {
		return Archives{}, err
	}
	all.Tools, err = cached(ctx, "images", "tools", tools, Tools, string(serveSource), suite, included, runtime.GOARCH)
	return all, err
}

// rootFolder is the folder of an image's content, in a scratch folder.
const rootFolder = "root"

// cached makes an image unless it is in a folder of the user's cache, made of the same things. It waits for its turn there: a second process
// finds what the first has made. An image is written under another name first: nothing that was cut short looks finished.
func cached(ctx context.Context, folder, name string, fill func(context.Context, string) (image, error), of ...string) (string, error) {
	dir, err := kube.CacheFolder(folder)
	if err != nil {
		return "", err
	}
	unlock, err := kube.LockFolder(ctx, dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	archive := filepath.Join(dir, fmt.Sprintf("%s-%.6x.tar", name, sha256.Sum256([]byte(strings.Join(of, "\x00")))))
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	_, _ = fmt.Fprintf(os.Stderr, "making the image %s, once (1 to 5 minutes on two cores)\n", name)
	older, _ := filepath.Glob(filepath.Join(dir, name+"-*")) // also what was not finished: only one process makes images at a time
	for _, path := range older {
		_ = os.RemoveAll(path)
	}
	scratch, err := os.MkdirTemp(dir, name+"-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	content := filepath.Join(scratch, rootFolder)
	if err := os.Mkdir(content, 0o755); err != nil {
		return "", err
	}
	made, err := fill(ctx, content)
	if err != nil {
		return "", fmt.Errorf("make the image %s: %w", name, err)
	}
	unfinished, err := made.write(ctx, scratch)
	if err != nil {
		return "", fmt.Errorf("write the image %s: %w", name, err)
	}
	return archive, os.Rename(unfinished, archive)
}

func pause(ctx context.Context, root string) (image, error) {
	return image{name: Pause, entrypoint: []string{"/pause"}}, goBuild(ctx, pauseSource, filepath.Join(root, "pause"))
}

// tools lets debootstrap work in mounts of its own: killed, it would leave /proc mounted in the folder.
func tools(ctx context.Context, root string) (image, error) {
	if os.Geteuid() != 0 {
		return image{}, errRoot
	}
	err := run(ctx, "unshare", "--mount", "--propagation=private", "--", "debootstrap", "--variant=minbase", "--include="+included, suite, root)
	if err != nil {
		return image{}, err
	}
	return image{name: Tools}, goBuild(ctx, serveSource, filepath.Join(root, "usr", "local", "bin", "serve"))
}

// goBuild builds a program of one file, which needs nothing but Go's own library.
func goBuild(ctx context.Context, source []byte, to string) error {
	dir, err := os.MkdirTemp("", "multicluster-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), source, 0o600); err != nil {
		return err
	}
	_, err = kube.Output(kube.Go(ctx, dir, "build", "-ldflags=-s -w", "-o", to, "main.go"))
	return err
}

func run(ctx context.Context, name string, args ...string) error {
	_, err := kube.Output(exec.CommandContext(ctx, name, args...))
	return err
}
