package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// modules are the Go modules whose packages check looks at.
var modules = []string{".", "cli", "build/images", "deploy/charts", "test/docs/plots"}

// check lints the packages that depend on files that have changed since the commit, and runs their tests that need no API server.
func check(ctx context.Context, base, linter string) error {
	changed, err := changes(ctx, base)
	if err != nil {
		return err
	}
	var failed []error
	for _, module := range modules {
		packages, err := dependents(ctx, module, changed)
		failed = append(failed, err)
		if len(packages) == 0 {
			continue
		}
		folders := strings.Join(packages, " ")
		fmt.Printf("%s: %s\n", module, folders)
		failed = append(failed, bash(ctx, fmt.Sprintf("cd %s && $OLDPWD/%s run %s && go test -short -vet=off %[3]s", module, linter, folders)))
	}
	return errors.Join(failed...)
}

// changes are the files that differ from the commit, committed or not.
func changes(ctx context.Context, base string) ([]string, error) {
	if base == "" {
		base = "HEAD"
		if commit, err := git(ctx, nil, "merge-base", "HEAD", "origin/main"); err == nil {
			base = commit
		}
	}
	tracked, err := git(ctx, nil, "diff", "-z", "--no-renames", "--name-only", base)
	if err != nil {
		return nil, fmt.Errorf("compare with %s: %w", base, err)
	}
	untracked, err := git(ctx, nil, "ls-files", "-z", "--others", "--exclude-standard")
	files := strings.FieldsFunc(tracked+"\x00"+untracked, func(r rune) bool { return r == 0 })
	fmt.Printf("%d files have changed since %s (-base)\n", len(files), base)
	return files, err
}

// dependents returns the folders, relative to the module, of the packages that have one of the files, or import one that has.
func dependents(ctx context.Context, module string, files []string) (folders []string, err error) {
	all, err := list(ctx, module, []string{"./..."})
	if err != nil {
		return nil, err
	}
	folderOf := map[string]string{}
	prefix := "" // of the import paths of all packages of the repository: they are its folders
	for _, l := range all {
		folderOf[l.ImportPath] = l.Dir
		if l.ForTest == "" && strings.HasSuffix(l.ImportPath, "/"+l.Dir) {
			prefix = strings.TrimSuffix(l.ImportPath, l.Dir)
		}
	}
	touched, everything := map[string]bool{}, false
	for _, file := range files {
		touched[prefix+packageOf(file, folderOf)] = true
		touched[prefix+filepath.Dir(file)] = true // also of a package that is not there any more
		everything = everything || slices.Contains([]string{"go.mod", "go.sum", ".golangci.yaml", "build/env.sh", module + "/go.mod"}, file)
	}
	for _, l := range all {
		depends := everything || slices.ContainsFunc(append(l.Deps, l.ImportPath), func(dep string) bool {
			path, _, _ := strings.Cut(dep, " ") // without the test that it was compiled for
			return touched[path]
		})
		if folder, err := filepath.Rel(module, l.Dir); err == nil && depends && !strings.HasPrefix(folder, "..") {
			folders = append(folders, "./"+folder)
		}
	}
	if module == "." && slices.ContainsFunc(files, func(f string) bool { return filepath.Ext(f) == ".md" }) {
		folders = append(folders, "./test/docs")
	}
	slices.Sort(folders)
	return slices.Compact(folders), nil
}

// packageOf is the folder of the package that a file belongs to: its own, or the nearest one above, for testdata.
func packageOf(file string, folderOf map[string]string) string {
	folders := map[string]bool{}
	for _, folder := range folderOf {
		folders[folder] = true
	}
	folder := filepath.Dir(file)
	for ; folder != "." && !folders[folder]; folder = filepath.Dir(folder) {
	}
	return folder
}

func bash(ctx context.Context, script string) error {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
