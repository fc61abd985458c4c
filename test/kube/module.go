package kube

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Module is a module of this repository that pins the version of another project, whose programs tests run.
type Module struct {
	Dir      string            // from this project's top folder
	Requires string            // the path of the other project's module
	Packages map[string]string // of each program: its name is the last part of the package's path
	Files    []string          // of Dir, of programs of our own in it: a changed one is built again
	Tags     string
	Usual    string // how long the first build takes on two cores
}

// Build gives the paths of the named programs (all, if none is named), and builds those that are not in the user's cache yet.
func (m Module) Build(ctx context.Context, progress io.Writer, names ...string) (map[string]string, error) {
	if len(names) == 0 {
		names = m.programs()
	}
	b, err := newBuilder(progress, m.source)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, name := range names {
		if m.Packages[name] == "" {
			return nil, fmt.Errorf("%s has no program %q: there are %s", m.Dir, name, strings.Join(m.programs(), ", "))
		}
		paths[name] = b.path(name)
	}
	return paths, b.ensure(ctx, names)
}

func (m Module) programs() []string { return slices.Sorted(maps.Keys(m.Packages)) }

// Version is the version of the other project's module, with the leading v.
func (m Module) Version() (string, error) {
	s, err := m.source()
	return s.version, err
}

// Source is the folder of the other project's files, which Go downloads if need be: its CRDs are read from there, not copied.
func (m Module) Source(ctx context.Context) (string, error) {
	b, err := newBuilder(io.Discard, m.source)
	if err != nil {
		return "", err
	}
	out, err := b.goCommand(ctx, "mod", "download", "-json", m.Requires).Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w: %s", m.Requires, err, out)
	}
	dir, err := b.goCommand(ctx, "list", "-m", "-f", "{{.Dir}}", m.Requires).Output()
	return strings.TrimSpace(string(dir)), err
}

func (m Module) source() (source, error) {
	root, err := Root()
	if err != nil {
		return source{}, err
	}
	s, err := readSource(filepath.Join(root, m.Dir), m.Requires, m.Files...)
	s.what, s.packages, s.tags, s.ldflags = m.Requires, m.Packages, m.Tags, "-s -w"
	s.usual = func([]string) string { return m.Usual }
	s.key = filepath.Base(m.Dir) + "-" + s.key
	return s, err
}
