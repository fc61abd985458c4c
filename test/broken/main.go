// Command broken breaks the product's rules of rules.yaml, one at a time, and runs the test that has to find it:
//
//	go run ./test/broken [-of COMMIT] [RULE ...]
//
// It works in a checkout of its own, of this commit unless another one is named, and prints a line for each rule: which test found the
// change, and how long that took. The status is 1 if a test did not find its change, or if a rule's text or test is not in that commit.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

//go:embed rules.yaml
var list []byte

// rule is a rule of the product and how to break it.
type rule struct {
	Rule, File, Old, New string
	Test, Before         string
}

func main() {
	of := flag.String("of", "HEAD", "the commit whose product is broken")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *of, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, of string, chosen []string) error {
	var rules []rule
	if err := yaml.UnmarshalStrict(list, &rules); err != nil {
		return fmt.Errorf("rules.yaml: %w", err)
	}
	dir, err := os.MkdirTemp("", "broken-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := command(ctx, ".", "git", "clone", "-q", ".", dir); err != nil {
		return err
	}
	if err := command(ctx, dir, "git", "checkout", "-q", "--detach", of); err != nil {
		return err
	}
	if err := command(ctx, dir, "make", "build"); err != nil {
		return err
	}
	var missed []error
	for _, r := range rules {
		if len(chosen) > 0 && !slices.ContainsFunc(chosen, func(part string) bool { return strings.Contains(r.Rule, part) }) {
			continue
		}
		found, err := r.try(ctx, dir)
		if err != nil {
			missed = append(missed, fmt.Errorf("%s: %w", r.Rule, err))
			found = "NOT FOUND: " + err.Error()
		}
		fmt.Printf("%-80s %s\n", r.Rule, found)
	}
	return errors.Join(missed...)
}

// try breaks the rule in a checkout, runs its test, and repairs it. It returns the package and test that found it, and the time.
func (r rule) try(ctx context.Context, dir string) (found string, err error) {
	path := filepath.Join(dir, r.File)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	broken := bytes.Replace(text, []byte(r.Old), []byte(r.New), 1)
	if bytes.Equal(broken, text) {
		return "", fmt.Errorf("%s does not contain %q", r.File, r.Old)
	}
	folder, test := find(dir, r.Test)
	if folder == "" && r.Before != "" {
		folder, test = find(dir, r.Before)
	}
	if folder == "" {
		return "", fmt.Errorf("no package has the test %s", r.Test)
	}
	if err := os.WriteFile(path, broken, 0o600); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.WriteFile(path, text, 0o600), r.build(ctx, dir, folder)) }()
	if err := r.build(ctx, dir, folder); err != nil {
		return "", err
	}
	began := time.Now()
	out, err := output(ctx, filepath.Join(dir, folder), "go", "test", "-count=1", "-vet=off", "-timeout=40m", "-run", "^"+test+"$", ".")
	switch {
	case err == nil:
		return "", fmt.Errorf("%s %s passes", folder, test)
	case !bytes.Contains(out, []byte("--- FAIL")):
		return "", fmt.Errorf("%s %s does not run: %s", folder, test, out)
	}
	return fmt.Sprintf("%s %s (%d s)", folder, test, int(time.Since(began).Seconds())), nil
}

// build builds the programs that a test starts.
func (r rule) build(ctx context.Context, dir, folder string) error {
	if strings.HasSuffix(r.File, ".go") && (strings.HasPrefix(folder, "test/dns") || strings.HasPrefix(folder, "test/kubeproxy") || strings.HasPrefix(folder, "test/e2e")) {
		return command(ctx, dir, "make", "build")
	}
	return nil
}

// find returns the folder, or "", and the name of a test.
func find(dir, test string) (folder, name string) {
	in, name, ok := strings.Cut(test, " ")
	if !ok {
		in, name = ".", test
	}
	of, _, _ := strings.Cut(name, "/")
	_ = filepath.WalkDir(filepath.Join(dir, in), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || folder != "" || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		if text, _ := os.ReadFile(path); bytes.Contains(text, []byte("\nfunc "+of+"(")) {
			folder, _ = filepath.Rel(dir, filepath.Dir(path))
		}
		return nil
	})
	return folder, name
}

func command(ctx context.Context, dir, name string, args ...string) error {
	out, err := output(ctx, dir, name, args...)
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	return c.CombinedOutput()
}
