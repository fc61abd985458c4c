package kube

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMissingProgramsAreInstalledOrNamed runs build/needs.sh on a machine that has next to nothing, with an apt-get that writes down what it is
// asked for.
func TestMissingProgramsAreInstalledOrNamed(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	run := func(uid string, aptGet bool, args ...string) (string, error) {
		path := t.TempDir()
		scripts := map[string]string{"uname": "echo Linux", "id": "echo " + uid}
		if aptGet {
			scripts["apt-get"] = `echo "apt-get $*"`
		}
		for name, script := range scripts {
			if err := os.WriteFile(filepath.Join(path, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "/bin/bash", append([]string{filepath.Join(root, "build", "needs.sh")}, args...)...)
		cmd.Env = []string{"PATH=" + path}
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	for _, c := range []struct {
		about  string
		uid    string
		aptGet bool
		args   []string
		want   string
		fails  bool
	}{
		{"root installs", "0", true, []string{"test"}, "apt-get install -y -q", false},
		{"another user sees the command", "1000", true, []string{"test"}, "programs are missing: apt-get install -y", true},
		{"without apt-get too", "0", false, []string{"clusters"}, "programs are missing: apt-get install -y", true},
		{"nothing is installed with -n", "0", true, []string{"-n", "clusters"}, "programs are missing: apt-get install -y", true},
		{"a wrong word", "0", true, []string{"tset"}, "usage: build/needs.sh", true},
	} {
		said, err := run(c.uid, c.aptGet, c.args...)
		if !strings.Contains(said, c.want) || (err != nil) != c.fails {
			t.Errorf("%s: %v\n%s", c.about, err, said)
		}
	}
	if said, _ := run("1000", true, "test"); !strings.Contains(said, " gcc") {
		t.Errorf("the race detector's compiler is not named: %s", said)
	}
}
