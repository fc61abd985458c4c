package check

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// networks are the ranges of addresses of a cluster.
type networks struct {
	pods, services []netip.Prefix
	// bare is the number of Nodes without a range, of all.
	bare, nodes int
}

const (
	nodePage = 500
	maxNodes = 5000
)

var errManyNodes = fmt.Errorf("there are more than %d Nodes", maxNodes)

// readNetworks reads the ranges of the Nodes, and of the ServiceCIDRs. Older API servers have no
// ServiceCIDRs: their range is a flag of kube-apiserver, which cannot be read.
func readNetworks(ctx context.Context, kube kubernetes.Interface) (networks, error) {
	var n networks
	options := metav1.ListOptions{Limit: nodePage}
	for {
		page, err := kube.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return n, fmt.Errorf("list Nodes: %w", err)
		}
		for i := range page.Items {
			ranges := prefixes(page.Items[i].Spec.PodCIDRs)
			if n.nodes++; len(ranges) == 0 {
				n.bare++
			}
			n.pods = append(n.pods, ranges...)
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
		if n.nodes >= maxNodes {
			return n, errManyNodes
		}
	}
	list, err := kube.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{Limit: nodePage})
	if apierrors.IsNotFound(err) {
		return n, nil
	}
	if err != nil {
		return n, fmt.Errorf("list ServiceCIDRs: %w", err)
	}
	for i := range list.Items {
		n.services = append(n.services, prefixes(list.Items[i].Spec.CIDRs)...)
	}
	return n, nil
}

func prefixes(texts []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}

// overlap returns a range of each side that share addresses.
func overlap(a, b []netip.Prefix) (x, y netip.Prefix, found bool) {
	if x, y, found = within(a, b); found {
		return x, y, true
	}
	y, x, found = within(b, a)
	return x, y, found
}

// within finds a range of inner in a range of outer. Two ranges overlap only if one contains the other.
func within(outer, inner []netip.Prefix) (x, y netip.Prefix, found bool) {
	set := map[netip.Prefix]bool{}
	for _, p := range outer {
		set[p] = true
	}
	for _, p := range inner {
		for bits := p.Bits(); bits >= 0; bits-- {
			if wider, err := p.Addr().Prefix(bits); err == nil && set[wider] {
				return wider, p, true
			}
		}
	}
	return x, y, false
}

// checkNetworks compares the pod networks of all pairs with each other, and with the service networks:
// a pod address that is also a ClusterIP cannot be reached. Service networks can be the same everywhere,
// because ClusterIPs never leave their cluster.
func checkNetworks(all []*facts) []Check {
	var found []Check
	for _, f := range all {
		if c, ok := f.unknownNetwork(); ok {
			found = append(found, c)
		}
	}
	for i, b := range all {
		for _, a := range all[:i] {
			if detail := collision(a, b); detail != "" {
				c := Check{ID: Networks, Cluster: pair(a, b), Link: output.Docs + "troubleshooting.md#6-traffic"}
				found = append(found, c.is(Failed, detail).advise("Pods of one cluster cannot reach those pods of the other. Give one cluster another pod network."))
			}
		}
	}
	if len(found) == 0 {
		return []Check{Check{ID: Networks, Cluster: allClusters}.ok("no pod network overlaps another cluster's networks")}
	}
	return found
}

func (f *facts) unknownNetwork() (Check, bool) {
	c := Check{ID: Networks, Cluster: f.context}
	switch n := f.network; {
	case n.err != nil:
		return c.unknown(n.err), true
	case n.value.nodes == 0:
		return c.unknown(errors.New("the cluster has no Nodes")), true
	case n.value.bare > 0:
		return c.is(Warning, fmt.Sprintf("%d of %s have no spec.podCIDRs, so the pod network is not known", n.value.bare, output.Count(n.value.nodes, "Node"))).
			advise("See the settings of the network plugin, and compare its range with those of the other clusters."), true
	case len(n.value.services) == 0:
		return c.is(Warning, "the cluster has no ServiceCIDRs, so its service network is not known").
			advise("See the flag --service-cluster-ip-range of its API server, and compare it with the pod networks of the other clusters."), true
	}
	return c, false
}

func collision(a, b *facts) string {
	for _, c := range []struct {
		what  string
		x, y  []netip.Prefix
		kinds [2]string
	}{
		{"pod networks", a.network.value.pods, b.network.value.pods, [2]string{"pods", "pods"}},
		{"networks", a.network.value.pods, b.network.value.services, [2]string{"pods", "Services"}},
		{"networks", a.network.value.services, b.network.value.pods, [2]string{"Services", "pods"}},
	} {
		if x, y, ok := overlap(slices.Clip(c.x), c.y); ok {
			return fmt.Sprintf("%s overlap: %s of %s have %s, %s of %s have %s", c.what, c.kinds[0], a.context, x, c.kinds[1], b.context, y)
		}
	}
	return ""
}
