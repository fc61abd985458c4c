package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/test/clusters/images"
)

// privateFolders are paths that containerd, its shims, CNI plugins and the kubelet have built in. Each cluster has its own behind
// them, in memory: two kubelets would otherwise take each other's sockets, and what a killed one leaves would stay.
var privateFolders = []string{"/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers"}

// plugins is where Debian's containernetworking-plugins has them.
const plugins = "/usr/lib/cni"

// containerdNamespace is where the kubelet's images and containers are.
const containerdNamespace = "k8s.io"

func (c *Cluster) node() string { return "node-" + c.Name }

func (c *Cluster) containerdSocket() string { return c.path("containerd.sock") }

// startContainerd starts it in a mount namespace of its own, which the kubelet joins: whatever either mounts is gone with them.
func (c *Cluster) startContainerd(ctx context.Context) error {
	if err := errors.Join(c.writeContainerdConfig(), c.writeCNIConfig()); err != nil {
		return err
	}
	var script strings.Builder
	for _, folder := range privateFolders {
		fmt.Fprintf(&script, "mount -t tmpfs -o mode=0755 multicluster %s && ", folder)
	}
	script.WriteString(`exec "$@"`)
	containerd, err := c.run("containerd", "unshare", "--mount", "--propagation=private", "--", "sh", "-c", script.String(), "sh",
		"containerd", "--config", c.path("containerd.toml"))
	if err != nil {
		return err
	}
	return c.wait(ctx, "wait for containerd", containerd, func(ctx context.Context) error { return dial(ctx, c.containerdSocket()) })
}

// containerdConfig is of the format that 1.x knows and 2.x translates. Parts for plugins that a release lacks are ignored by it.
//
// Where root lacks CAP_SYS_RESOURCE, it may not make a process less likely to be killed than itself, as is asked for sandboxes:
// restrict_oom_score_adj asks for no more than containerd itself has.
const containerdConfig = `version = 2
root = "%[1]s/containerd/root"
state = "%[1]s/containerd/state"
[grpc]
  address = "%[1]s/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[2]s"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[3]s"
    conf_dir = "%[1]s/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "%[4]s"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.internal.v1.opt"]
  path = "%[1]s/containerd/opt"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
`

func (c *Cluster) writeContainerdConfig() error {
	text := fmt.Sprintf(containerdConfig, c.Dir, images.Pause, plugins, snapshotter())
	return os.WriteFile(c.path("containerd.toml"), []byte(text), 0o600)
}

// snapshotter is the one that copies nothing, where the kernel has what it needs.
func snapshotter() string {
	known, _ := os.ReadFile("/proc/filesystems")
	if strings.Contains(string(known), "\toverlay\n") {
		return "overlayfs"
	}
	return "native"
}

// writeCNIConfig gives pods addresses of both families behind one bridge. Nothing is masqueraded: pods of other clusters see who
// asks, and so do ours.
func (c *Cluster) writeCNIConfig() error {
	return c.writeJSON("cni/10-pods.conflist", map[string]any{
		"cniVersion": "0.4.0",
		"name":       "pods",
		"plugins": []any{map[string]any{
			"type": "bridge", "bridge": "pods", "isGateway": true, "ipMasq": false, "hairpinMode": true,
			"ipam": map[string]any{
				"type":    "host-local",
				"dataDir": c.path("ipam"),
				"ranges":  []any{[]any{map[string]any{"subnet": c.at.pods()}}, []any{map[string]any{"subnet": c.at.pods6()}}},
				"routes":  []any{map[string]any{"dst": "0.0.0.0/0"}, map[string]any{"dst": "::/0"}},
			},
		}},
	})
}

// startNode returns once pods may run: the node is ready, and no taint of its youth is left.
func (c *Cluster) startNode(ctx context.Context) error {
	if err := c.writeKubeletConfig(); err != nil {
		return err
	}
	mounts := fmt.Sprintf("--mount=/proc/%d/ns/mnt", c.program("containerd").PID())
	kubelet, err := c.run("kubelet", "nsenter", mounts, "--", c.built["kubelet"],
		"--config="+c.path("kubelet.yaml"), "--kubeconfig="+c.path("kubelet.kubeconfig"),
		"--root-dir="+c.path("kubelet"), "--cert-dir="+c.Dir,
		"--hostname-override="+c.node(), "--node-ip="+c.at.node()+","+c.at.node6())
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	err = c.wait(ctx, "wait for the node to be ready", kubelet, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, c.node(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		return ready(node)
	})
	if err == nil {
		c.say("the node is ready")
	}
	return err
}

func ready(node *corev1.Node) error {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return fmt.Errorf("not ready: %s", condition.Message)
		}
	}
	if len(node.Status.Conditions) == 0 || len(node.Spec.Taints) > 0 {
		return fmt.Errorf("%d conditions, taints %v", len(node.Status.Conditions), node.Spec.Taints)
	}
	return nil
}

// writeKubeletConfig does not touch the machine's own settings: cgroups, limits, resolv.conf. A pod
// with the node's resolver gets the node's own address, where no server answers and the kernel
// reports that at once: a name outside the cluster is then SERVFAIL, without a wait.
func (c *Cluster) writeKubeletConfig() error {
	resolver := c.path("resolv.conf")
	return errors.Join(os.WriteFile(resolver, []byte("nameserver "+c.at.node()+"\n"), 0o644),
		c.writeJSON("kubelet.yaml", map[string]any{
			"apiVersion": "kubelet.config.k8s.io/v1beta1",
			"kind":       "KubeletConfiguration",
			"address":    c.at.node(),
			"authentication": map[string]any{
				"anonymous": map[string]any{"enabled": false},
				"webhook":   map[string]any{"enabled": true},
				"x509":      map[string]any{"clientCAFile": c.path("ca.crt")},
			},
			"authorization":               map[string]any{"mode": "Webhook"},
			"tlsCertFile":                 c.path("kubelet.crt"),
			"tlsPrivateKeyFile":           c.path("kubelet.key"),
			"containerRuntimeEndpoint":    "unix://" + c.containerdSocket(),
			"clusterDNS":                  []string{c.at.dns()},
			"clusterDomain":               "cluster.local",
			"resolvConf":                  resolver,
			"podLogsDir":                  c.path("pods"),
			"volumePluginDir":             c.path("volumeplugins"),
			"cgroupDriver":                "cgroupfs",
			"cgroupsPerQOS":               false,
			"enforceNodeAllocatable":      []string{},
			"failCgroupV1":                false,
			"failSwapOn":                  false,
			"oomScoreAdj":                 0,
			"makeIPTablesUtilChains":      false,
			"imageGCHighThresholdPercent": 100, // an image that is gone could not be fetched again
			"imageGCLowThresholdPercent":  99,
			"evictionHard":                map[string]string{"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "10Mi"},
		}))
}

// writeJSON writes a configuration: libcni reads nothing else, and all that read YAML read it too.
func (c *Cluster) writeJSON(file string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	path := c.path(file)
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600))
}
