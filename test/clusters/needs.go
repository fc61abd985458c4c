package clusters

import (
	"errors"
	"os"
	"runtime"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// plugins is where Debian's containernetworking-plugins has them.
const plugins = "/usr/lib/cni"

var (
	errLinux = errors.New("clusters run on Linux only")
	errRoot  = errors.New("clusters need root: network namespaces and containers are made")
)

// checkNeeds returns what is missing on the machine, before a program fails with a message of its
// own.
func checkNeeds() error {
	if runtime.GOOS != "linux" {
		return errLinux
	}
	if os.Geteuid() != 0 {
		return errRoot
	}
	return kube.Needs("clusters")
}
