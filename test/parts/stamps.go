package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// record is written by `make ci-full`, and committed: the inputs with which each part has passed in its full form.
const record = "docs/results/ci-full.txt"

// stamp is the file that exists once a part has passed on this machine with some inputs. It contains the commit.
func stamp(name, hash string) (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "clusterset-dns", "passed", name+"-"+hash), err
}

// passed returns the commit at which the part has passed with these inputs, or "" if it has to run.
func (p part) passed(hash string) string {
	if path, err := stamp(p.name, hash); err == nil {
		if text, err := os.ReadFile(path); err == nil {
			return string(text)
		}
	}
	if !p.nightly {
		return ""
	}
	text, _ := os.ReadFile(record)
	if regexp.MustCompile(`(?m)^` + p.name + ` .* passed ` + hash + `$`).Match(text) {
		return "the nightly run"
	}
	return ""
}

// covered returns the part that this one covers, if there is one.
func (p part) covered() (part, bool) {
	i := slices.IndexFunc(parts, func(other part) bool { return other.name == p.covers })
	if i < 0 {
		return part{}, false
	}
	return parts[i], true
}

// note creates the stamp of a part that has passed, unless its inputs have changed meanwhile: then nobody knows which of them the tests
// have read.
func (p part) note(ctx context.Context, hash string) error {
	tree, err := workTree(ctx)
	if err != nil {
		return err
	}
	if now, err := p.hash(ctx, tree); err != nil || now != hash {
		return err
	}
	path, err := stamp(p.name, hash)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	commit, err := git(ctx, nil, "describe", "--always", "--dirty", "--abbrev=12")
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(commit), 0o600)
}
