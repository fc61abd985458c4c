package check

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/clusterset-dns/multicluster/cli/corefile"
	"github.com/clusterset-dns/multicluster/cli/output"
)

// Zone is the zone of imports.
const Zone = "clusterset.local"

func (f *facts) checkSecondDNS() []Check {
	c := Check{ID: SecondDNS, Cluster: f.context}
	switch d := f.second; {
	case d.err != nil:
		return []Check{c.unknown(d.err)}
	case d.value == nil:
		return nil
	default:
		return []Check{c.replicas(f.context, d.value)}
	}
}

func (f *facts) checkClusterDNS() Check {
	c := Check{ID: ClusterDNS, Cluster: f.context}
	switch d := f.clusterDNS; {
	case d.err != nil:
		return c.unknown(d.err)
	case len(d.value) == 0:
		return c.unknown(errors.New("kube-system has no Deployment with the label " + kubeDNS + ": see docs/platforms.md"))
	default:
		return c.replicas(f.context, &d.value[0])
	}
}

// tagOf returns the tag of an image, or "". A digest is no tag.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	colon := strings.LastIndex(image, ":")
	if colon <= strings.LastIndex(image, "/") {
		return ""
	}
	return image[colon+1:]
}

// stockImage matches the repositories of CoreDNS as distributions ship it, without the plugin. A mirror can
// have the same path below another registry, and an image with the plugin.
var stockImage = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`(?:(?:index\.)?docker\.io/)?coredns/coredns`,
	`(?:registry\.k8s\.io|k8s\.gcr\.io)/(?:coredns/)?coredns`,
	`\d+\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?/eks/coredns`,
	`mcr\.microsoft\.com/oss/(?:v2/)?kubernetes/coredns`,
	`(?:(?:index\.)?docker\.io/)?rancher/(?:mirrored-coredns-coredns|hardened-coredns)`,
}, "|") + `)$`)

// repositoryOf returns an image without its tag and digest.
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	return strings.TrimSuffix(image, ":"+tagOf(image))
}

// coreDNS returns the image of the cluster's own CoreDNS, or "".
func (f *facts) coreDNS() string {
	for _, d := range f.clusterDNS.value {
		for _, c := range d.Spec.Template.Spec.Containers {
			if strings.Contains(c.Image, "coredns") {
				return c.Image
			}
		}
	}
	return ""
}

// inTree is the first version of CoreDNS whose plugin *kubernetes* has the option multicluster.
var inTree = version.MustParseGeneric("1.12.2")

// supported is the first version of CoreDNS that the plugin can be compiled into.
var supported = version.MustParseGeneric("1.12.3")

func (f *facts) checkCoreDNSVersion(pre bool) Check {
	c := Check{ID: CoreDNSVersion, Cluster: f.context, Link: output.Docs + "choose-dns.md"}
	if f.clusterDNS.err != nil {
		return c.unknown(f.clusterDNS.err)
	}
	image := f.coreDNS()
	if image == "" {
		return c.unknown(errors.New("no Deployment with the label " + kubeDNS + " runs CoreDNS"))
	}
	if !stockImage.MatchString(repositoryOf(image)) {
		return c.ok(image + " is no stock image")
	}
	tag := tagOf(image)
	runs, err := version.ParseGeneric(tag)
	if err != nil {
		return c.unknown(fmt.Errorf("read the version of %s: %w", image, err))
	}
	blocks, _ := f.config().Parse() // The check Corefile reports the error.
	by := corefile.RouteOf(blocks, Zone).By
	switch {
	case !pre && by == corefile.Multicluster:
		return c.is(Warning, fmt.Sprintf("the Corefile has the plugin multicluster, and the stock image %s does not have it", image)).
			advise("Use an image with the plugin, or forward the zone to a second CoreDNS. If a registry gives this name to an image with the plugin, all is well.")
	case !pre && by == corefile.Kubernetes && runs.LessThan(inTree):
		return c.is(Failed, fmt.Sprintf("the Corefile has the option multicluster of kubernetes, and %s is older than %s", tag, inTree)).
			advise("Upgrade CoreDNS, or forward the zone to a second CoreDNS.")
	case runs.LessThan(inTree):
		return c.ok(tag + " cannot answer the zone itself: it can forward it to a second CoreDNS")
	case runs.LessThan(supported):
		return c.ok(tag + " can answer the zone with kubernetes' option multicluster, or forward it")
	}
	return c.ok(tag + " can answer the zone with kubernetes' option multicluster, forward it, or be built with the plugin")
}

// config is the configuration of the cluster's own CoreDNS. It is empty if there is none.
func (f *facts) config() corefile.Config {
	var c corefile.Config
	if m := f.corefile.value; m != nil {
		c.Corefile, c.Files = m.Data["Corefile"], m.Data
	}
	if m := f.custom.value; m != nil {
		c.Files, c.Custom = m.Data, true
	}
	return c
}

func (f *facts) checkCorefile() Check {
	c := Check{ID: Corefile, Cluster: f.context, Link: output.Docs + "troubleshooting.md#3-coredns"}
	if err := errors.Join(f.corefile.err, f.custom.err, f.second.err, f.secondAt.err); err != nil {
		return c.unknown(err)
	}
	if f.corefile.value == nil {
		return c.unknown(errors.New("kube-system has no ConfigMap coredns: see docs/platforms.md for this cluster's DNS"))
	}
	blocks, err := f.config().Parse()
	if err != nil {
		return c.is(Failed, err.Error()).advise("Correct it: " + output.Kubectl(f.context, "edit", "configmap", "coredns", "--namespace", metav1.NamespaceSystem))
	}
	route := corefile.RouteOf(blocks, Zone)
	address := f.secondAddress()
	switch {
	case !route.Answers():
		c = c.is(Failed, "nothing in the Corefile answers "+Zone)
		if address == "" {
			return c.advise("Install a second CoreDNS and forward the zone to it, or use an image with the plugin.")
		}
		c.Fix = f.config().Forward(f.context, Zone, address)
		return c
	case route.By == "" && address != "" && !slices.ContainsFunc(route.To, func(to string) bool { return host(to) == address }):
		c = c.is(Failed, fmt.Sprintf("%s is forwarded to %s, and the second CoreDNS has the address %s", Zone, output.List(route.To, 3), address))
		fix, edit := f.config().Redirect(f.context, Zone, address)
		if fix == "" {
			return c.advise("Replace the address: " + edit)
		}
		c.Fix = []string{fix}
		return c
	case route.By == corefile.Multicluster:
		return c.ok("the plugin multicluster answers " + Zone)
	case route.By == corefile.Kubernetes:
		return c.ok("the option multicluster of kubernetes answers " + Zone)
	}
	return c.ok(Zone + " is forwarded to " + output.List(route.To, 3))
}

// secondAddress is the ClusterIP of the second CoreDNS, or "".
func (f *facts) secondAddress() string {
	if s := f.secondAt.value; s != nil && s.Spec.ClusterIP != corev1.ClusterIPNone {
		return s.Spec.ClusterIP
	}
	return ""
}

func host(address string) string {
	if _, rest, ok := strings.Cut(address, "://"); ok {
		address = rest
	}
	if h, _, err := net.SplitHostPort(address); err == nil {
		return h
	}
	return strings.Trim(address, "[]")
}

// checkNodeLocal looks at NodeLocal DNSCache, if the cluster has it.
func (f *facts) checkNodeLocal() []Check {
	c := Check{ID: NodeLocal, Cluster: f.context, Link: output.Docs + "platforms.md#nodelocal-dnscache"}
	if err := errors.Join(f.daemons.err, f.nodeLocal.err); err != nil {
		return []Check{c.unknown(err)}
	}
	if !slices.ContainsFunc(f.daemons.value, func(d appsv1.DaemonSet) bool { return d.Name == corefile.NodeLocal }) {
		return nil
	}
	if f.nodeLocal.value == nil {
		return []Check{c.unknown(errors.New("the cluster has the DaemonSet node-local-dns, and kube-system has no ConfigMap of that name"))}
	}
	read, err := corefile.Parse(f.nodeLocal.value.Data["Corefile"], nil)
	if err != nil {
		return []Check{c.is(Failed, err.Error()).advise("Correct it: " + output.Kubectl(f.context, "edit", "configmap", corefile.NodeLocal, "--namespace", metav1.NamespaceSystem))}
	}
	if corefile.RouteOf(read, Zone).Answers() {
		return []Check{c.ok("its Corefile has a block for " + Zone)}
	}
	c = c.is(Failed, "the Corefile of NodeLocal DNSCache has no block for "+Zone+", so these names go to the resolvers of the node")
	if fix := corefile.Stanza(f.context, read, Zone, "cluster.local"); fix != "" {
		c.Fix = []string{fix}
		return []Check{c}
	}
	return []Check{c.advise("Add the block of corefile-examples/nodelocal.Corefile.")}
}
