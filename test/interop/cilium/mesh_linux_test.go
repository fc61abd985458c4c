package cilium

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/clusterset-dns/multicluster/test/interop/beside"
	"github.com/clusterset-dns/multicluster/test/kube"
)

var programs = kube.Module{
	Dir:      "test/interop/programs/cilium",
	Requires: "github.com/cilium/cilium",
	Packages: map[string]string{
		"operator":              "github.com/cilium/cilium/operator",
		"clustermesh-apiserver": "github.com/cilium/cilium/clustermesh-apiserver",
	},
	Tags:  "ipam_provider_operator", // as of cilium-operator-generic
	Usual: "about 8 minutes",
}

// member is one cluster of the mesh.
type member struct {
	*kube.Cluster
	id   int // from 1
	etcd string
}

func (m *member) name() string { return fmt.Sprintf("c%d", m.id) }

// startMesh starts two clusters, each connected to the etcd of the other, as Cilium's own tools connect them.
func startMesh(t *testing.T) [2]*member {
	t.Helper()
	// Cilium's programs keep files in /run/cilium: theirs alone, in this process' own mounts.
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		t.Fatalf("mount /run: %v", err)
	}
	paths, err := programs.Build(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	mesh := [2]*member{{id: 1}, {id: 2}}
	for _, m := range mesh {
		m.Cluster = kube.New(t, kube.Options{ServiceCIDRs: fmt.Sprintf("10.%d.0.0/24,fd00:%d::/112", m.id, m.id)})
		m.startEtcd(t)
	}
	for i, m := range mesh {
		m.connect(t, mesh[1-i])
		m.startCilium(t, paths)
	}
	return mesh
}

// startEtcd starts the etcd that the other cluster reads.
func (m *member) startEtcd(t *testing.T) {
	t.Helper()
	etcd, err := kube.Build(t.Context(), os.Stderr, "etcd")
	if err != nil {
		t.Fatal(err)
	}
	const nobody = "http://127.0.0.1:1"
	m.etcd = "http://" + beside.FreeAddress(t)
	beside.Run(t, m.Cluster, beside.Page(m.etcd+"/health"), etcd["etcd"], "--data-dir=mesh", "--unsafe-no-fsync",
		"--listen-client-urls="+m.etcd, "--advertise-client-urls="+m.etcd,
		"--listen-peer-urls=unix://"+filepath.Join(m.folder(), "mesh.sock"), "--initial-advertise-peer-urls="+nobody,
		"--initial-cluster=default="+nobody, "--log-level=warn")
}

// connect writes the file through which the operator knows the other cluster.
func (m *member) connect(t *testing.T, other *member) {
	t.Helper()
	if err := os.Mkdir(m.remotes(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.remotes(), other.name()), []byte("endpoints: ["+other.etcd+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (m *member) folder() string  { return filepath.Dir(m.Kubeconfig) }
func (m *member) remotes() string { return filepath.Join(m.folder(), "remotes") }

func (m *member) startCilium(t *testing.T, paths map[string]string) {
	t.Helper()
	both := []string{
		fmt.Sprintf("--cluster-id=%d", m.id), "--cluster-name=" + m.name(), "--clustermesh-enable-mcs-api",
		"--k8s-kubeconfig-path=" + m.Kubeconfig, "--enable-gops=false", "--shell-sock-path=",
	}
	api := beside.FreeAddress(t)
	beside.Run(t, m.Cluster, beside.Page("http://"+api+"/healthz"), paths["operator"], append(both,
		"--clustermesh-config="+m.remotes(), "--clustermesh-enable-endpoint-sync", "--ipam=kubernetes",
		"--operator-api-serve-addr="+api, "--enable-metrics=false")...)
	_, port, err := net.SplitHostPort(beside.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	beside.Run(t, m.Cluster, beside.Page("http://127.0.0.1:"+port+"/readyz"), paths["clustermesh-apiserver"], append([]string{"clustermesh"}, append(both,
		"--kvstore-opt=etcd.address="+m.etcd, "--health-port="+port, "--prometheus-serve-addr=")...)...)
}
