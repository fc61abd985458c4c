package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// planted is an entry of the test's own database: it lists the called function as vulnerable in
// each version.
const planted = `{
"schema_version": "1.3.1", "id": "GO-2000-0001", "modified": "2000-01-01T00:00:00Z", "published": "2000-01-01T00:00:00Z",
"summary": "Planted by a test", "details": "Planted by a test.",
"affected": [{
	"package": {"name": "golang.org/x/sync", "ecosystem": "Go"},
	"ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
	"ecosystem_specific": {"imports": [{"path": "golang.org/x/sync/errgroup", "symbols": ["Group.Wait"]}]}
}],
"database_specific": {"url": "https://pkg.go.dev/vuln/GO-2000-0001", "review_status": "REVIEWED"}
}`

// database makes one in the form of https://go.dev/doc/security/vuln/database, with the planted entry or with none.
func database(t *testing.T, with bool) (folder string) {
	t.Helper()
	folder = t.TempDir()
	modules := []any{}
	if with {
		entry := map[string]string{"id": "GO-2000-0001", "modified": "2000-01-01T00:00:00Z"}
		modules = append(modules, map[string]any{"path": "golang.org/x/sync", "vulns": []any{entry}})
		write(t, filepath.Join(folder, "ID", "GO-2000-0001.json"), planted)
	}
	text, err := json.Marshal(modules)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "index", "modules.json"), string(text))
	write(t, filepath.Join(folder, "index", "db.json"), `{"modified":"2000-01-01T00:00:00Z"}`)
	return folder
}

// served is the address of a server of a database, which compresses its files.
func served(t *testing.T, folder string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, compressed := strings.CutSuffix(r.URL.Path, ".gz")
		text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		if err != nil || !compressed {
			http.NotFound(w, r)
			return
		}
		gz := gzip.NewWriter(w)
		_, _ = gz.Write(text)
		_ = gz.Close()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// module is one that calls golang.org/x/sync, in the version of this project's own go.mod.
func module(t *testing.T, calls string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	version, sums := pinned(t, "../../go.mod"), ""
	for line := range strings.Lines(read(t, "../../go.sum")) {
		if strings.HasPrefix(line, "golang.org/x/sync "+version) {
			sums += line
		}
	}
	write(t, filepath.Join(folder, "go.mod"), "module example.org/scratch\n\ngo 1.26.0\n\nrequire golang.org/x/sync "+version+"\n")
	write(t, filepath.Join(folder, "go.sum"), sums)
	write(t, filepath.Join(folder, "main.go"), "package main\n\nimport \"golang.org/x/sync/errgroup\"\n\nfunc main() {\n\tvar g errgroup.Group\n\t"+calls+"\n}\n")
	return folder
}

func pinned(t *testing.T, path string) string {
	t.Helper()
	for line := range strings.Lines(read(t, path)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "golang.org/x/sync" {
			return fields[1]
		}
	}
	t.Fatalf("%s does not name golang.org/x/sync", path)
	return ""
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// govulncheck is what `make` has built.
func govulncheck(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a program that `make test` builds: not with -short, as in `make check`")
	}
	all, err := filepath.Glob("../../bin/govulncheck-v*")
	if err != nil || len(all) == 0 {
		t.Fatalf("%v: run `make vuln` first", err)
	}
	return all[len(all)-1]
}

func TestAVulnerabilityThatIsReachedIsAnError(t *testing.T) {
	with, without := "file://"+database(t, true), "file://"+database(t, false)
	for name, test := range map[string]struct {
		database, calls string
		found           bool
	}{
		"called, and in the database":        {with, "_ = g.Wait()", true},
		"the same database over HTTP":        {served(t, database(t, true)), "_ = g.Wait()", true},
		"of the same package, and not wrong": {with, "g.SetLimit(1)", false},
		"nothing is in the database":         {without, "_ = g.Wait()", false},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			folder := module(t, test.calls)
			err := check(t.Context(), &out, govulncheck(t), test.database, true, []string{folder})
			if test.found != (err != nil) || test.found && !strings.Contains(err.Error(), folder+": it reaches known vulnerabilities") {
				t.Errorf("error %v\n%s", err, &out)
			}
			if test.found != strings.Contains(out.String(), "GO-2000-0001") {
				t.Errorf("it says\n%s", &out)
			}
		})
	}
}

// A program has in it what its build had, whatever any go.mod says today.
func TestAProgramIsChecked(t *testing.T) {
	folder := module(t, "_ = g.Wait()")
	program := filepath.Join(folder, "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, found := range []bool{true, false} {
		var out strings.Builder
		err := check(t.Context(), &out, govulncheck(t), "file://"+database(t, found), true, []string{program})
		if found != (err != nil) || found != strings.Contains(out.String(), "GO-2000-0001") {
			t.Errorf("error %v\n%s", err, &out)
		}
	}
}

// Each module is looked at, also after one that is bad.
func TestEachModuleIsChecked(t *testing.T) {
	var out strings.Builder
	good, bad := module(t, "g.SetLimit(1)"), module(t, "_ = g.Wait()")
	err := check(t.Context(), &out, govulncheck(t), "file://"+database(t, true), true, []string{bad, good})
	if err == nil || !strings.Contains(err.Error(), bad) || strings.Contains(err.Error(), good) || !strings.Contains(out.String(), good+", by file://") {
		t.Errorf("error %v\n%s", err, &out)
	}
	if check(t.Context(), &out, govulncheck(t), "file://"+database(t, true), true, nil) == nil {
		t.Error("without any module there is no error")
	}
}

// Without a database the outcome is no pass in silence.
func TestNoDatabase(t *testing.T) {
	refuses := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refuses.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, database := range map[string]string{
		"it refuses": refuses.URL, "it is not there": gone.URL, "no folder": "file:///nowhere", "no address": "https://[", "another scheme": "gopher://x",
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := check(t.Context(), &out, "no-program", database, false, []string{"."}); err != nil || !strings.Contains(out.String(), "\nNOT CHECKED for known vulnerabilities: ") {
				t.Errorf("error %v\n%s", err, &out)
			}
			if err := check(t.Context(), &out, "no-program", database, true, []string{"."}); !errors.Is(err, errNoDatabase) {
				t.Errorf("required: %v", err)
			}
		})
	}
}
