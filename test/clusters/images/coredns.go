package images

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// The CoreDNS that a cluster has of its own: a release as it is, without our plugin.
const (
	stockVersion = "v1.15.0"
	// Stock is the name of its image. It has no user: a pod that runs it needs NET_BIND_SERVICE for port 53, and nothing else.
	Stock = "registry.invalid/clusterset-dns/stock-coredns:" + stockVersion
)

// MakeStock gives the image of a stock CoreDNS, and makes it if it is not in the user's cache yet: in a folder of its own, as clusters that start
// now need the other images.
func MakeStock(ctx context.Context) (archive string, err error) {
	return cached(ctx, "stock", "stock-coredns", stock, Stock, runtime.Version(), runtime.GOARCH)
}

// stock compiles as our programs are compiled, and go.mod has its versions of Kubernetes' modules: most of it is in Go's cache.
func stock(ctx context.Context, root string) (image, error) {
	install := kube.Go(ctx, root, "install", "-ldflags=-s -w", "github.com/coredns/coredns@"+stockVersion)
	install.Env = append(install.Env, "GOBIN="+root)
	_, err := kube.Output(install)
	return image{name: Stock, entrypoint: []string{"/coredns"}}, err
}

// Export writes archives of the additional images that the end-to-end tests need, for clusters on
// other machines: the tools, and a stock CoreDNS. It prints which file is which image.
func Export(ctx context.Context, folder string) error {
	made, err := Make(ctx)
	if err != nil {
		return err
	}
	stock, err := MakeStock(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, image := range []struct{ name, from, file string }{{Tools, made.Tools, "tools.tar"}, {Stock, stock, "stock-coredns.tar"}} {
		file := filepath.Join(folder, image.file)
		if err := run(ctx, "cp", image.from, file); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(os.Stderr, "%s: %s\n", file, image.name)
	}
	return nil
}

// OfProgram writes the archive of an image that has one program, which runs without any other file.
func OfProgram(ctx context.Context, archive, name, program string) error {
	scratch, err := os.MkdirTemp(filepath.Dir(archive), "image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := os.Mkdir(filepath.Join(scratch, rootFolder), 0o755); err != nil {
		return err
	}
	if err := run(ctx, "cp", program, filepath.Join(scratch, rootFolder)); err != nil {
		return err
	}
	unfinished, err := image{name: name, entrypoint: []string{"/" + filepath.Base(program)}}.write(ctx, scratch)
	if err != nil {
		return fmt.Errorf("write the image %s: %w", name, err)
	}
	return os.Rename(unfinished, archive)
}
