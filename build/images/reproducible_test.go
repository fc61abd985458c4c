package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestReproducible makes archives from the same files in two folders, in one of them with what a machine's owner may have set for Go.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds programs")
	}
	const corednsVersion = "v1.15.0"
	sums := map[string]string{}
	for _, folder := range []string{"one", "quite/another"} {
		if sums["coredns"] != "" {
			t.Setenv("GOFLAGS", "-trimpath=false -buildvcs=true -tags=other")
			t.Setenv("GOAMD64", "v3")
			t.Setenv("GOARM64", "v9.0")
			t.Setenv("CGO_ENABLED", "1")
		}
		top := filepath.Join(t.TempDir(), folder)
		copyFiles(t, top)
		for _, p := range programs(corednsVersion) {
			sum := sumOf(t, top, p)
			if before, ok := sums[p.name]; ok && sum != before {
				t.Errorf("%s: %s is not what the first folder's archive has, %s", p.name, sum, before)
			}
			sums[p.name] = sum
		}
	}
}

// sumOf is the sum of a program's archive, made in the folder.
func sumOf(t *testing.T, top string, p program) string {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chdir(top); err != nil {
		t.Fatal(err)
	}
	variants, err := p.variants(t.Context(), testRelease, top, []string{runtime.GOARCH})
	if err := os.Chdir(wd); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := newArchive(p.references(testRelease), variants)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(top, "archive.tar")
	if err := a.write(path); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(content))
}

// copyFiles copies what git knows of, as it lies in the folder now, and new files, without the repository.
func copyFiles(t *testing.T, to string) {
	t.Helper()
	const top = "../.."
	list, err := exec.CommandContext(t.Context(), "git", "-C", top, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skip("it needs git and a repository: ", err)
	}
	for name := range strings.SplitSeq(string(bytes.TrimSuffix(list, []byte{0})), "\x00") {
		from := filepath.Join(top, name)
		info, err := os.Stat(from)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied, content, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
}
