package command

import (
	"os"
	"testing"
)

// Two runs in one second have two files.
func TestFreeName(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, want := range []string{"a.tar.gz", "a-2.tar.gz", "a-3.tar.gz"} {
		if got := freeName("a", ".tar.gz"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if err := os.WriteFile(want, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
