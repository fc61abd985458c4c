// Package gather collects what a bug report needs into one archive, without credentials. It only reads
// the clusters.
//
//	Secrets of all clusters -> values that must not appear
//	other objects, logs     -> files, redacted -> scan for the values -> archive
package gather

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterset-dns/multicluster/cli/check"
	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/output"
)

// ErrExists means that the file exists and must not be overwritten.
var ErrExists = errors.New("the file exists: use another name, or --force")

// Options of Run.
type Options struct {
	// File is the path of the archive.
	File string
	// Force overwrites the file.
	Force bool
	// Version is that of this program.
	Version string
	// Now is the local clock.
	Now func() time.Time
	// Progress gets what the command does now.
	Progress func(text string)
}

// Report is what Run wrote.
type Report struct {
	File  string
	Files int
	// Bytes is the size of the archive.
	Bytes int64
	// Errors are what could not be read.
	Errors []string
	// Withheld are files that are not in the archive, because they contain the value of a Secret.
	Withheld []string
}

// parallel bounds how many clusters are read at once.
const parallel = 8

// Run collects from all clusters, and writes the archive completely or not at all.
func Run(ctx context.Context, all []*clusters.Cluster, o Options) (Report, error) {
	r := Report{File: o.File}
	if err := mayWrite(o); err != nil {
		return r, err
	}
	b := &bundle{files: map[string][]byte{}}
	folders := folderNames(all)
	o.Progress("reading Secrets")
	each(all, func(i int, c *clusters.Cluster) { b.readSecrets(ctx, c, folders[i]) })
	o.Progress("checking the clusters")
	checked := check.Run(ctx, all, check.Options{Now: o.Now})
	o.Progress("reading objects and logs")
	each(all, func(i int, c *clusters.Cluster) { b.readCluster(ctx, c, folders[i]) })
	if err := ctx.Err(); err != nil {
		return r, fmt.Errorf("gather: interrupted: %w", err)
	}
	if err := b.addChecks(checked); err != nil {
		return r, err
	}
	b.withhold()
	b.add("summary.md", []byte(b.summary(all, folders, checked, o)))
	b.withhold() // The summary has messages of clusters, too.
	r.Errors, r.Withheld, r.Files = b.errors, b.withheld, len(b.files)
	size, err := b.write(ctx, o)
	r.Bytes = size
	return r, err
}

func mayWrite(o Options) error {
	if o.Force {
		return nil
	}
	if _, err := os.Lstat(o.File); err == nil {
		return fmt.Errorf("write %s: %w", output.Clean(o.File), ErrExists)
	}
	return nil
}

func each(all []*clusters.Cluster, do func(int, *clusters.Cluster)) {
	doing := errgroup.Group{}
	doing.SetLimit(parallel)
	for i, c := range all {
		doing.Go(func() error { do(i, c); return nil })
	}
	_ = doing.Wait() // no function returns an error: the bundle has them
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// folderNames are names of folders for contexts, each once.
func folderNames(all []*clusters.Cluster) []string {
	names := make([]string, len(all))
	for i, c := range all {
		name := notInNames.ReplaceAllString(c.Context, "_")
		if name == "" || name[0] == '.' {
			name = "_" + name
		}
		if slices.Contains(names[:i], name) {
			name = fmt.Sprintf("%s-%d", name, i+1)
		}
		names[i] = name
	}
	return names
}

// maxTotal bounds the content of an archive, in bytes.
const maxTotal = 256 << 20

// bundle is the content of the archive. Several clusters write to it at once.
type bundle struct {
	mu       sync.Mutex
	files    map[string][]byte
	total    int
	secrets  secrets
	errors   []string
	withheld []string
}

// add adds a file. Patterns of credentials are replaced in it.
func (b *bundle) add(name string, text []byte) {
	text = scrub(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total += len(text); b.total > maxTotal {
		b.errors = append(b.errors, fmt.Sprintf("%s: left out, because the archive would have more than %d MiB", name, maxTotal>>20))
		return
	}
	b.files[name] = text
}

// fail notes what could not be read.
func (b *bundle) fail(name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = append(b.errors, output.Clean(fmt.Sprintf("%s: %v", name, err)))
}

// withhold replaces the values of Secrets in all files. A file that still contains one, in another
// encoding, is left out.
func (b *bundle) withhold() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		text := b.secrets.replace(b.files[name])
		if b.secrets.in(text) {
			text = []byte("This file is left out: it contains the value of a Secret.\n")
			b.withheld = append(b.withheld, name)
		}
		b.files[name] = text
	}
	for i, text := range b.errors {
		b.errors[i] = string(b.secrets.replace(scrub([]byte(text))))
	}
	slices.Sort(b.errors)
}
