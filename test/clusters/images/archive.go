package images

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// image is what an archive says of the folder in it.
type image struct {
	name       string
	entrypoint []string
}

// left out of images: what only a machine that installs packages needs, and devices, which a container runtime makes.
var left = []string{"./dev/*", "./var/cache/apt/*", "./var/lib/apt/lists/*", "./usr/share/doc/*", "./usr/share/man/*", "./usr/share/locale/*"}

// write makes an archive of Docker's format in a scratch folder, of one layer: all in its folder root. The layer is not compressed: it is
// read often, and goes nowhere.
func (i image) write(ctx context.Context, scratch string) (archive string, err error) {
	const layer, config, manifest = "layer.tar", "config.json", "manifest.json"
	args := []string{"--create", "--file=" + filepath.Join(scratch, layer), "--numeric-owner", "--directory=" + filepath.Join(scratch, rootFolder)}
	for _, path := range left {
		args = append(args, "--exclude="+path)
	}
	if err := run(ctx, "tar", append(args, ".")...); err != nil {
		return "", err
	}
	sum, err := kube.Output(exec.CommandContext(ctx, "sha256sum", filepath.Join(scratch, layer)))
	if err != nil {
		return "", err
	}
	sum, _, _ = strings.Cut(sum, " ")
	for name, content := range map[string]any{
		manifest: []any{map[string]any{"Config": config, "RepoTags": []string{i.name}, "Layers": []string{layer}}},
		config: map[string]any{ // OCI's image configuration
			"architecture": runtime.GOARCH,
			"os":           "linux",
			"config": map[string]any{
				"Entrypoint": i.entrypoint,
				"Env":        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			},
			"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sum}},
		},
	} {
		text, err := json.Marshal(content)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(scratch, name), text, 0o600); err != nil {
			return "", err
		}
	}
	archive = filepath.Join(scratch, "archive.tar")
	return archive, run(ctx, "tar", "--create", "--file="+archive, "--mode=0644", "--directory="+scratch, manifest, config, layer)
}
