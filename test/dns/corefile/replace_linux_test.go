package corefile

import (
	"os"
	"testing"

	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// TestReplacedWhileOpen holds that a replaced file is put back also while a program has it open: it was not, now and then, when a
// program looked a name up at that moment, and all the tests that came after it failed.
func TestReplacedWhileOpen(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		const path = "/etc/resolv.conf"
		before := read(t, path)
		for _, text := range []string{"nameserver 192.0.2.1\n", "nameserver 192.0.2.2\n"} {
			var reader *os.File
			t.Run(text, func(t *testing.T) {
				replaceFile(t, path, "nameserver 192.0.2.3\n")
				replaceFile(t, path, text)
				if got := read(t, path); got != text {
					t.Errorf("%s is %q; want %q", path, got, text)
				}
				var err error
				if reader, err = os.Open(path); err != nil {
					t.Fatal(err)
				}
			})
			if got := read(t, path); got != before {
				t.Errorf("%s is %q afterwards; want %q", path, got, before)
			}
			_ = reader.Close()
		}
	})
}
