package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// ourLine is the one line that stock.Corefile has more than what kubeadm installs.
const ourLine = "    multicluster clusterset.local\n"

// corefileExample is a file of corefile-examples.
func corefileExample(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(binaries.Root(), "corefile-examples", name+".Corefile"))
	return string(text), err
}

// example is that, with its comments.
func (s *scene) example(name string) string {
	s.t.Helper()
	text, err := corefileExample(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

var comment = regexp.MustCompile(`(?m)^#.*\n`)

// corefileOf gives a stock CoreDNS its Corefile, in which a cluster's addresses can be.
type corefileOf func(context.Context, *cluster) (string, error)

// kubeadms is what kubeadm installs.
func kubeadms(context.Context, *cluster) (string, error) {
	text, err := corefileExample("stock")
	text = comment.ReplaceAllString(text, "")
	if err == nil && (strings.Count(text, ourLine) != 1 || strings.Count(text, "multicluster") != 1) {
		err = fmt.Errorf("stock.Corefile has not just one line of ours, %q:\n%s", ourLine, text)
	}
	return strings.Replace(text, ourLine, "", 1), err
}

// stubZone is that and, unchanged but for the address, forwarding.Corefile.
func stubZone(ctx context.Context, c *cluster) (string, error) {
	own, err := kubeadms(ctx, c)
	if err != nil {
		return "", err
	}
	block, err := corefileExample("forwarding")
	if err != nil {
		return "", err
	}
	block, err = c.withAddress(ctx, block, sampleAddress)
	return own + block, err
}

func inTree(context.Context, *cluster) (string, error) {
	text, err := corefileExample("stock-intree")
	return comment.ReplaceAllString(text, ""), err
}

// runStock gives each cluster a stock CoreDNS as its own, or gives the present one another Corefile.
func (s *set) runStock(ctx context.Context, corefile corefileOf) error {
	s.stock = true
	return s.each(ctx, func(ctx context.Context, c *cluster) error {
		text, err := corefile(ctx, c)
		if err != nil {
			return err
		}
		return c.applyStock(ctx, text)
	})
}

func (c *cluster) applyStock(ctx context.Context, corefile string) error {
	address, err := c.dnsAddress(ctx)
	if err != nil {
		return err
	}
	objects := binaries.KubeadmCoreDNS(address, c.set.images["stock"], corefile)
	if err := c.apply(ctx, "kube-system", objects); err != nil {
		return err
	}
	_, err = c.kubectl(ctx, "rollout", "status", "deployment/coredns", "--namespace=kube-system", "--timeout=3m")
	return err
}

func (c *cluster) removeStock(ctx context.Context) error {
	_, err := c.set.run(ctx, binaries.KubeadmCoreDNS("", "", ""), c.set.kubectl, "--context="+c.id, "delete", "--ignore-not-found", "-f", "-")
	return err
}

// addressLine is the command that an example gives for the address in it.
var addressLine = regexp.MustCompile(`(?m)^#   kubectl (.* --output jsonpath='\{\.spec\.clusterIP\}')$`)

// withAddress returns an example with the address of a cluster instead of the example's, read as
// the example's comment describes. In the chart, the second server is in the release's namespace,
// not in that of deploy/plugin/server.
func (c *cluster) withAddress(ctx context.Context, text, sample string) (string, error) {
	line := addressLine.FindStringSubmatch(text)
	if line == nil || strings.Count(text, sample) == 0 {
		return "", fmt.Errorf("the example does not contain the command for the address that is %s in it:\n%s", sample, text)
	}
	args := strings.ReplaceAll(line[1], "--namespace multicluster-dns", "--namespace "+system)
	address, err := c.set.run(ctx, "", "bash", "-c", "kubectl --context "+c.id+" "+args)
	return strings.ReplaceAll(text, sample, address), err
}

// sampleAddress is that of the second server in the examples.
const sampleAddress = "10.96.0.11"

// isStock wants the pods that answer the cluster's names to be of the stock image, and its program to know nothing of us.
func (s *scene) isStock(c *cluster) {
	s.t.Helper()
	var found []string
	s.eventually("kube-dns in "+c.id+" has pods of "+s.images["stock"]+" alone", func(ctx context.Context) error {
		list, err := c.kubectl(ctx, "get", "pods", "--namespace=kube-system", "-l", "k8s-app=kube-dns", "-o", "jsonpath={.items[*].spec.containers[*].image}")
		found = strings.Fields(list)
		if err == nil && slices.ContainsFunc(found, func(image string) bool { return image != s.images["stock"] }) {
			err = fmt.Errorf("it has %s", list)
		}
		return err
	})
	plugins, err := c.kubectl(s.t.Context(), "exec", "deployment/coredns", "--namespace=kube-system", "--", "/coredns", "-plugins")
	if err != nil {
		s.t.Fatal(err)
	}
	if len(found) == 0 || strings.Contains(plugins, "multicluster") || !strings.Contains(plugins, "kubernetes") {
		s.t.Errorf("kube-dns in %s has %d pods, and these plugins: %s", c.id, len(found), plugins)
	}
}

func (s *scene) secondCoreDNS() {
	client := s.client(s.clusters[1], "client", "clusterset.local")
	s.localWins(client)
	client.prints("getent hosts "+s.fqdn("foo"), s.fqdn("foo"))
	client.prints("getent hosts kubernetes.default", "kubernetes.default.svc.cluster.local")
	s.isStock(client.cluster)
}

func (s *scene) stockCoreDNS() {
	from, at := s.clusters[0], s.clusters[1]
	s.deploy(from, workload{name: "web", replicas: 1})
	s.expose(from, "web", "ipFamilyPolicy: RequireDualStack\nipFamilies: [IPv4, IPv6]\n"+plainly)
	s.deploy(from, workload{name: "db", kind: "StatefulSet", replicas: 2})
	s.expose(from, "db", "clusterIP: None\nports: [{name: web, port: 8080}]")
	for _, name := range []string{"web", "db"} {
		s.export(from, name)
		s.kubectl(at, "wait", "--for=create", "serviceimport/"+name, "--timeout=2m")
		s.kubectl(at, "wait", "--for=condition=Ready", "serviceimport/"+name, "--timeout=2m")
	}
	client := s.client(at, "client", "clusterset.local")
	web, db := s.fqdn("web"), s.fqdn("db")
	client.leadsTo(web, from)
	client.hasRecords("web", true, true)
	client.prints("dig +short _http._tcp."+web+" SRV", " 80 "+web+".")
	client.prints("getent hosts web."+s.namespace+".svc", web)
	client.prints("dig +short "+db+" | sort -u | wc -l", "2")
	for _, host := range []string{"db-0", "db-1"} {
		client.prints("curl -sS -m 5 http://"+host+"."+from.id+"."+db+":8080/", host+" "+from.id)
	}
	client.prints("getent hosts kubernetes.default", "kubernetes.default.svc.cluster.local")

	s.kubectl(from, "delete", "serviceexport", "web")
	client.prints("nslookup "+web+" || true", "NXDOMAIN") // after its TTL, 30 seconds
	s.isStock(at)
}
