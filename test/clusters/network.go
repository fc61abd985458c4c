package clusters

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// hub is the network namespace with the bridge that joins all nodes and the machine. It is not the machine's own: there the rules
// of other software, Docker's say, would drop what the bridge carries.
const hub = "multicluster"

// machineLink is the machine's end in the nodes' network.
const machineLink = "multicluster0"

func netnsFile(netns string) string { return filepath.Join("/run/netns", netns) }

func (c *Cluster) netns() string { return hub + "-" + c.Name }

// makeHub lets the machine reach the nodes. It does nothing where another cluster has made it before.
func makeHub(ctx context.Context) error {
	if exists(netnsFile(hub)) && hasMachineLink() {
		return nil
	}
	return errors.Join(
		removeHub(ctx), // where the one that made it was killed half-way
		kube.IP(ctx,
			"netns add "+hub,
			"-n "+hub+" link set lo up",
			"-n "+hub+" link add nodes type bridge",
			"-n "+hub+" link set nodes up",
			"link add "+machineLink+" type veth peer name machine netns "+hub,
			"-n "+hub+" link set machine master nodes up",
			"address add "+machine+"/24 dev "+machineLink,
			"-6 address add "+machine6+"/64 dev "+machineLink+" nodad",
			"link set "+machineLink+" up",
		))
}

func hasMachineLink() bool { return exists("/sys/class/net/" + machineLink) }

// removeHub removes its link first, which the machine sees: the kernel takes its time over those of a removed namespace.
func removeHub(ctx context.Context) error {
	if hasMachineLink() {
		if err := kube.IP(ctx, "link delete "+machineLink); err != nil {
			return err
		}
	}
	return removeNetns(ctx, hub)
}

// makeNetwork gives the cluster its namespace, and a link from there to the bridge.
func (c *Cluster) makeNetwork(ctx context.Context) error {
	inside := "-n " + c.netns() + " "
	commands := []string{
		"netns add " + c.netns(),
		"link add " + c.port() + " netns " + hub + " type veth peer name eth0 netns " + c.netns(),
		"-n " + hub + " link set " + c.port() + " master nodes up",
		inside + "link set lo up",
		// The same address as in the last cluster with this index: a client of that cluster still
		// sends to it.
		inside + "link set eth0 address " + c.at.mac() + " up",
		inside + "address add " + c.at.node() + "/24 dev eth0",
		inside + "-6 address add " + c.at.node6() + "/64 dev eth0 nodad",
		// Without a route, the node itself would send nothing to a ClusterIP. Anything else ends here, also where the machine forwards.
		inside + "route add " + c.at.services() + " dev eth0",
		inside + "-6 route add " + c.at.services6() + " dev eth0",
		inside + "route add unreachable default",
		inside + "-6 route add unreachable default",
	}
	for other := addresses(1); other <= lastIndex; other++ {
		if other != c.at {
			commands = append(commands,
				inside+"route add "+other.pods()+" via "+other.node(),
				inside+"-6 route add "+other.pods6()+" via "+other.node6())
		}
	}
	if err := kube.IP(ctx, commands...); err != nil {
		return err
	}
	// Without the last setting, the kernel reports a closed port only once a second: see
	// writeKubeletConfig.
	output, err := exec.CommandContext(ctx, "nsenter", "--net="+netnsFile(c.netns()), "--", "sh", "-c",
		"echo 1 >/proc/sys/net/ipv4/ip_forward && echo 1 >/proc/sys/net/ipv6/conf/all/forwarding && echo 0 >/proc/sys/net/ipv4/icmp_ratelimit").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("set up the network: %w: %s", err, output)
	}
	return err
}

// removeNetwork removes the link first: the kernel takes its time over those of a removed namespace, and the next cluster of the
// name makes the same.
func (c *Cluster) removeNetwork(ctx context.Context) error {
	err := within(10*time.Second, func() error {
		if !exists(netnsFile(hub)) || kube.IP(ctx, "-n "+hub+" link show "+c.port()) != nil {
			return nil
		}
		return errors.Join(errors.New("the link "+c.port()+" is there"), kube.IP(ctx, "-n "+hub+" link delete "+c.port()))
	})
	return errors.Join(err, removeNetns(ctx, c.netns()))
}

// cut takes the cluster from the network before it ends: what dies like that closes no connection of others, as a machine without power.
func (c *Cluster) cut(ctx context.Context) error {
	if !exists(netnsFile(hub)) || kube.IP(ctx, "-n "+hub+" link show "+c.port()) != nil {
		return nil
	}
	return kube.IP(ctx, "-n "+hub+" link set "+c.port()+" down")
}

// port is the bridge's end of the cluster's link.
func (c *Cluster) port() string { return "to-" + c.Name }

func removeNetns(ctx context.Context, name string) error {
	if !exists(netnsFile(name)) {
		return nil
	}
	return kube.IP(ctx, "netns delete "+name)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
