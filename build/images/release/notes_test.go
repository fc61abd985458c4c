package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/build/images/archives"
)

func TestNotes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "CHANGELOG.md")
	write(t, path, []byte("# Changelog\n\nText.\n\n## Unreleased\n\n### Added\n\n- New.\n\n## [0.2.0] - 2026-01-02\n\n- Second.\n\n## 0.1.0\n\n## 0.0.1\n\n- First.\n"))
	for version, want := range map[string]string{
		"v0.2.0":       "- Second.",
		"v0.2.0-rc.1":  "- Second.",
		"v0.0.1":       "- First.",
		"v0.3.0-rc.1":  "### Added\n\n- New.",
		"v0.0.0-dry":   "### Added\n\n- New.",
		"v0.1.0":       "", // it has no changes
		"v0.3.0":       "",
		"v0.1.0+local": "",
	} {
		got, err := (&release{version: version}).changes(path)
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "rename the heading Unreleased") {
				t.Errorf("%s: %q, %v; want an error", version, got, err)
			}
			continue
		}
		if err != nil || got != "# multicluster "+version+"\n\n"+want+"\n" {
			t.Errorf("%s: %q, %v; want %q", version, got, err, want)
		}
	}
}

// TestChangelogHasNotes: that of this project has a section for the next release.
func TestChangelogHasNotes(t *testing.T) {
	if _, err := (&release{version: "v99.0.0-next"}).changes("../../../CHANGELOG.md"); err != nil {
		t.Error(err)
	}
}

// TestWrongReleases are refused before anything is deleted or built.
func TestWrongReleases(t *testing.T) {
	t.Chdir("../../..")
	for want, r := range map[string]release{
		`"1.2.3" is no version`:               {version: "1.2.3", registry: "registry.example.org"},
		`"v1.2" is no version`:                {version: "v1.2", registry: "registry.example.org"},
		`"" is no version`:                    {registry: "registry.example.org"},
		"is a URL":                            {version: "v1.2.3", registry: "https://registry.example.org"},
		"name the image coredns":              {version: "v1.2.3"},
		`CHANGELOG.md has no section "99.0.0`: {version: "v99.0.0", registry: "registry.example.org"},
	} {
		r.folder = filepath.Join(t.TempDir(), "kept")
		if err := r.make(t.Context(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %s", r, err, want)
		}
	}
}

// TestSetDefaults: the rows of one program change. A README without one of them is an error.
func TestSetDefaults(t *testing.T) {
	const before = "| `dns.image.repository` | `\"registry.invalid/a\"` | A. |\n| `dns.image.tag` | `\"\"` | B. |\n| `dns.image.digest` | `\"\"` | C. |\n"
	image := archives.Reference{Repository: "registry.example.org/coredns", Digest: "sha256:0123"}
	got, err := setDefaults([]byte(before), "coredns", image)
	const want = "| `dns.image.repository` | `\"registry.example.org/coredns\"` | A. |\n| `dns.image.tag` | `\"\"` | B. |\n| `dns.image.digest` | `\"sha256:0123\"` | C. |\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err := setDefaults([]byte(before), "multicluster-controller", image); err == nil {
		t.Errorf("the README has no row of the controller, and is\n%s", got)
	}
}

// TestSetImage: the lines of one program change, and nothing else. Values that it does not find are an error.
func TestSetImage(t *testing.T) {
	const before = "a:\n  image:\n    repository: registry.invalid/clusterset-dns/coredns\n    # Comment.\n    tag: \"\"\n    # More.\n    digest: \"\"\n    pullPolicy: Always\n"
	image := archives.Reference{Repository: "registry.example.org/coredns", Digest: "sha256:0123"}
	got, err := setImage([]byte(before), "coredns", image)
	const want = "a:\n  image:\n    repository: registry.example.org/coredns\n    # Comment.\n    tag: \"\"\n    # More.\n    digest: \"sha256:0123\"\n    pullPolicy: Always\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	for _, text := range []string{"", before + before, strings.ReplaceAll(before, "digest", "hash"), strings.Replace(before, `tag: ""`, "tag: v1", 1)} {
		if got, err := setImage([]byte(text), "coredns", image); err == nil {
			t.Errorf("%s\ngives\n%s", text, got)
		}
	}
}
