package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// hash returns a hash of all that the result of a part depends on: what it runs, the releases of Go and CoreDNS, the files and folders that
// it lists, and each folder of this repository with a package that its tests import. A folder counts with all that is in the tree.
func (p part) hash(ctx context.Context, tree string) (string, error) {
	paths, err := p.paths(ctx)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, p.name, p.script(), p.servers, runtime.Version(), os.Getenv("COREDNS_VERSION"), os.Getuid(), programs()) // some tests need root, or skip without a program
	for _, path := range paths {
		object, err := git(ctx, nil, "rev-parse", "--verify", "--quiet", strings.TrimSuffix(tree+":"+path, ".")) // "." is the tree itself
		if err != nil {
			return "", fmt.Errorf("part %s: find its input %s: %w", p.name, path, errors.Join(ctx.Err(), err))
		}
		_, _ = fmt.Fprintln(sum, path, object)
	}
	return fmt.Sprintf("%.6x", sum.Sum(nil)), nil
}

// programs are those of tests that skip where they are not installed.
func programs() (found []string) {
	for _, name := range []string{"containerd", "ctr", "runc"} {
		if _, err := exec.LookPath(name); err == nil {
			found = append(found, name)
		}
	}
	return found
}

// paths are the files and folders of the repository that the part depends on, sorted.
func (p part) paths(ctx context.Context) ([]string, error) {
	paths := append([]string{"build/env.sh"}, p.inputs...)
	if p.module == "." {
		paths = append(paths, "go.mod", "go.sum")
	} else if p.module != "" {
		paths = append(paths, p.module+"/go.mod", p.module+"/go.sum")
	}
	if !p.nightly {
		paths = append(paths, shipped...)
	}
	if len(p.tests) > 0 && !p.nightly {
		folders, err := imported(ctx, p.module, p.tests)
		if err != nil {
			return nil, err
		}
		paths = append(paths, folders...)
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// listed is what go list prints of a package.
type listed struct {
	ImportPath, ForTest, Dir string
	Deps                     []string
}

// list returns the packages that the patterns match in a module, with their tests and all that these import, of this repository only.
// Paths of folders are relative to the repository.
func list(ctx context.Context, module string, patterns []string) (all []listed, err error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	args := append([]string{"list", "-e", "-deps", "-test", "-json=ImportPath,ForTest,Dir,Deps"}, patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = module, os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", module, err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if l.Dir, err = filepath.Rel(root, l.Dir); err == nil && !strings.HasPrefix(l.Dir, "..") {
			all = append(all, l)
		}
	}
}

// rest returns the packages of a module that are in none of its parts.
func rest(ctx context.Context, module string) ([]string, error) {
	of := func(patterns ...string) ([]string, error) {
		cmd := exec.CommandContext(ctx, "go", append([]string{"list"}, patterns...)...)
		cmd.Dir, cmd.Stderr = module, os.Stderr
		text, err := cmd.Output()
		return strings.Fields(string(text)), err
	}
	var patterns []string
	for _, p := range parts {
		if p.module == module {
			patterns = append(patterns, p.tests...)
		}
	}
	taken, err := of(patterns...)
	if err != nil {
		return nil, err
	}
	all, err := of("./...")
	return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(taken, name) }), err
}

// imported are the folders of the packages that tests are of or import.
func imported(ctx context.Context, module string, patterns []string) (folders []string, err error) {
	all, err := list(ctx, module, patterns)
	for _, l := range all {
		folders = append(folders, l.Dir)
	}
	return folders, err
}

// workTree writes the files as they are now into the object database, those that git ignores left out, and returns the tree.
func workTree(ctx context.Context) (string, error) {
	index, err := git(ctx, nil, "rev-parse", "--git-path", "index")
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(index)
	if err != nil {
		return "", err
	}
	scratch, err := os.CreateTemp("", "multicluster-index-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(scratch.Name()) }()
	if _, err = scratch.Write(text); err == nil {
		err = scratch.Close()
	}
	if err != nil {
		return "", err
	}
	env := []string{"GIT_INDEX_FILE=" + scratch.Name()}
	if _, err := git(ctx, env, "add", "--all", "."); err != nil {
		return "", err
	}
	return git(ctx, env, "write-tree")
}

func git(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), err
}
