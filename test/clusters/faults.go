package clusters

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// Fault makes a running cluster fail in one way, or takes that back:
//
//	end                    all processes end at once, without a last message; there is no way back
//	cut, reconnect         the cluster's link to all others
//	freeze, thaw           the API server accepts connections and answers nothing
//	block, unblock ADDRESS what is sent to these addresses from this cluster is lost
func (c *Cluster) Fault(ctx context.Context, verb string, addresses ...string) error {
	switch {
	case verb == "end" && len(addresses) == 0:
		return Remove(ctx, c.Name)
	case verb == "cut" && len(addresses) == 0:
		return kube.IP(ctx, "-n "+hub+" link set "+c.port()+" down")
	case verb == "reconnect" && len(addresses) == 0:
		return kube.IP(ctx, "-n "+hub+" link set "+c.port()+" up")
	case verb == "freeze" && len(addresses) == 0:
		return c.signal("kube-apiserver", syscall.SIGSTOP)
	case verb == "thaw" && len(addresses) == 0:
		return c.signal("kube-apiserver", syscall.SIGCONT)
	case verb == "block" || verb == "unblock":
		return c.block(ctx, map[string]string{"block": "add", "unblock": "delete"}[verb], addresses)
	}
	return fmt.Errorf("no fault %q with %d addresses", verb, len(addresses))
}

// block adds or deletes routes on which packets are lost without a message.
func (c *Cluster) block(ctx context.Context, verb string, addresses []string) error {
	for _, text := range addresses {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return err
		}
		family := "-4"
		if address.Is6() {
			family = "-6"
		}
		if err := kube.IP(ctx, fmt.Sprintf("%s -n %s route %s blackhole %s", family, c.netns(), verb, netip.PrefixFrom(address, address.BitLen()))); err != nil {
			return err
		}
	}
	return nil
}

// signal sends a signal to a program that runs.
func (c *Cluster) signal(program string, signal syscall.Signal) error {
	for _, pid := range c.processes() {
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(name)) == program {
			return syscall.Kill(pid, signal)
		}
	}
	return fmt.Errorf("%s of %s does not run", program, c.Name)
}
