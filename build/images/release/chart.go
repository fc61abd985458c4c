package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/clusterset-dns/multicluster/build/images/archives"
)

// chart packages the chart in the folder charts, which is the module that pins Helm.
func (r *release) chart(ctx context.Context, charts string, values archives.Values, scratch string) error {
	copied := filepath.Join(scratch, "multicluster")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(charts, "multicluster"))); err != nil {
		return err
	}
	for name, set := range map[string]func([]byte, string, archives.Reference) ([]byte, error){"values.yaml": setImage, "README.md": setDefaults} {
		if err := setImages(filepath.Join(copied, name), values, set); err != nil {
			return fmt.Errorf("%s/multicluster/%s: %w", charts, name, err)
		}
	}
	folder, err := filepath.Abs(r.folder)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "helm", "package", copied, "--destination", folder, //nolint:gosec // the copy
		"--version", strings.TrimPrefix(r.version, "v"), "--app-version", r.version)
	cmd.Dir = charts
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.created.Unix())) // without cgo, as the tests build Helm
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("package the chart, by helm: %w: %s", err, out)
	}
	return nil
}

// setImages changes a file of the copy for each program.
func setImages(path string, values archives.Values, set func([]byte, string, archives.Reference) ([]byte, error)) error {
	text, err := os.ReadFile(path) //nolint:gosec // the copy
	if err != nil {
		return err
	}
	for _, program := range archives.Programs {
		if text, err = set(text, program, values[program]); err != nil {
			return err
		}
	}
	return os.WriteFile(path, text, 0o600) //nolint:gosec // the copy
}

// setDefaults replaces the same defaults in the table of the chart's README.
func setDefaults(text []byte, program string, image archives.Reference) ([]byte, error) {
	for field, value := range map[string]string{"repository": image.Repository, "digest": image.Digest} {
		row := regexp.MustCompile("(?m)^(\\| `" + archives.ChartKeys[program] + `\.image\.` + field + "` \\| `).*?(` \\| )")
		if n := len(row.FindAll(text, -1)); n != 1 {
			return nil, fmt.Errorf("found the row of %s.image.%s %d times, want once", archives.ChartKeys[program], field, n)
		}
		text = row.ReplaceAll(text, fmt.Appendf(nil, "${1}%q${2}", value))
	}
	return text, nil
}

// setImage replaces the repository of a program's image in the chart's values, and the digest that follows it. The comments stay, and so does the empty
// tag between them: the chart refuses both.
func setImage(text []byte, program string, image archives.Reference) ([]byte, error) {
	const upTo = `(?:.*\n){0,6}? +%s: `
	lines := regexp.MustCompile(`(?m)^( +repository: )registry\.invalid/clusterset-dns/` + regexp.QuoteMeta(program) + `\n(` +
		fmt.Sprintf(upTo, "tag") + `""\n` + fmt.Sprintf(upTo, "digest") + `)""$`)
	if n := len(lines.FindAll(text, -1)); n != 1 {
		return nil, fmt.Errorf("found the repository, an empty tag and an empty digest of %s %d times, want once", program, n)
	}
	return lines.ReplaceAll(text, fmt.Appendf(nil, "${1}%s\n${2}%q", image.Repository, image.Digest)), nil
}
