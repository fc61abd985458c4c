package index

import (
	"os/exec"
	"strings"
	"testing"
)

// The index is pure: the standard library without its IO, and the DNS library.
func TestTheIndexImportsNoIO(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		first, _, _ := strings.Cut(path, "/")
		switch {
		case path == "time", path == "os", path == "log", path == "net", path == "sync":
			t.Errorf("the index imports %s", path)
		case strings.Contains(first, ".") && path != "github.com/miekg/dns":
			t.Errorf("the index imports %s", path)
		}
	}
}
