package main

import (
	"strings"
	"testing"
	"time"
)

func TestNewRelease(t *testing.T) {
	r, err := newRelease(t.Context(), noRegistry, "v1.2.3", "0123abcd", "2026-01-02T04:04:05+01:00")
	if err != nil || r != testRelease {
		t.Errorf("%v, %v; want %v, by UTC", r, err, testRelease)
	}
	for _, c := range []struct{ registry, version, created, want string }{
		{noRegistry, "v1.2.3+local", "2026-01-02T03:04:05Z", "v1.2.3+local"},
		{"https://example.org", "v1.2.3", "2026-01-02T03:04:05Z", "https://example.org"},
		{noRegistry, "v1.2.3", "yesterday", "yesterday"},
	} {
		if _, err := newRelease(t.Context(), c.registry, c.version, "0123abcd", c.created); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q of %q: %v, want it to say %q", c.version, c.created, err, c.want)
		}
	}
}

// TestReleaseByGit leaves all to git: labels have to name a commit, and a time.
func TestReleaseByGit(t *testing.T) {
	r, err := newRelease(t.Context(), noRegistry, "", "", "")
	if err != nil {
		t.Skip("there is no repository: ", err)
	}
	if len(r.revision) != 40 || r.version == "" || r.created.Before(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("git says %+v", r)
	}
}
