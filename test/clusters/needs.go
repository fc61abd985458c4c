package clusters

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// plugins is where Debian's containernetworking-plugins has them.
const plugins = "/usr/lib/cni"

// packages are Debian's, by a file of each that has to be there.
var packages = []struct{ name, file string }{
	{"iproute2", "ip"},
	{"nftables", "nft"},
	{"util-linux", "nsenter"},
	{"mount", "mount"},
	{"containerd", "containerd"},
	{"runc", "runc"},
	{"containernetworking-plugins", filepath.Join(plugins, "bridge")},
	{"debootstrap", "debootstrap"}, // for the image of the tools, the first time
}

var (
	errLinux = errors.New("clusters run on Linux only")
	errRoot  = errors.New("clusters need root: network namespaces and containers are made")
)

// checkNeeds says what is missing on the machine, before a program says it in its own way.
func checkNeeds() error {
	if runtime.GOOS != "linux" {
		return errLinux
	}
	if os.Geteuid() != 0 {
		return errRoot
	}
	var missing []string
	for _, p := range packages {
		// LookPath takes a path with a slash as it is.
		if _, err := exec.LookPath(p.file); err != nil {
			missing = append(missing, p.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("programs are missing: apt-get install -y %s", strings.Join(missing, " "))
}
