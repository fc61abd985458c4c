// Package recipes checks the pages of docs/recipes, and the one on operators: their objects, applied to two joined clusters, give
// each DNS name on the page and in the commands of its pods.
package recipes

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
)

var (
	block = regexp.MustCompile("(?ms)^```yaml\n# in (.+?)\n(.*?)^```$")
	// fqdn finds also what no DNS name is, such as $(POD_NAME).svc.clusterset.local, so that it can be told apart.
	fqdn = regexp.MustCompile("[^\\s\"'`,;=/@|*]+\\.svc\\.clusterset\\.local")
)

// page is a document for users.
type page struct {
	name   string
	blocks []yaml
	names  []string // that it mentions
}

// yaml is a block that begins with the comment "in member1", or "in every cluster".
type yaml struct{ in, text string }

func (y yaml) isFor(cluster string) bool { return y.in == "every cluster" || y.in == cluster }

func pages(t *testing.T) (all []page) {
	t.Helper()
	files, err := filepath.Glob("../../../docs/recipes/[a-z]*.md") // not README.md
	if err != nil || len(files) < 4 {
		t.Fatalf("there are %v: %v", files, err)
	}
	for _, file := range append(files, "../../../docs/interop/operators.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, read(t, strings.TrimSuffix(filepath.Base(file), ".md"), string(text)))
	}
	return all
}

func read(t *testing.T, name, text string) page {
	t.Helper()
	p := page{name: name}
	for _, found := range block.FindAllStringSubmatch(text, -1) {
		p.blocks = append(p.blocks, yaml{in: found[1], text: found[2]})
		if !slices.Contains([]string{"every cluster", "member1", "member2"}, found[1]) {
			t.Errorf("%s: a block is for %q", name, found[1])
		}
	}
	for _, found := range fqdn.FindAllString(text, -1) {
		if !strings.ContainsAny(found, "$<{") && found[0] != '.' { // a template, or what follows a wildcard
			p.names = append(p.names, found)
		}
	}
	slices.Sort(p.names)
	p.names = slices.Compact(p.names)
	if len(p.blocks) == 0 || len(p.names) < 3 {
		t.Errorf("%s has %d blocks for clusters, and the names %v", name, len(p.blocks), p.names)
	}
	return p
}

const corefile = `
clusterset.local:{{.Port}} {
    bind 127.0.0.1
    errors
    multicluster {
        kubeconfig {{.Kubeconfig}}
    }
}`

// member is a cluster with this project's controller, Kubernetes' controllers of StatefulSets and EndpointSlices, and CoreDNS.
type member struct {
	*world.Cluster
	t       *testing.T
	number  int
	address string // of CoreDNS
	pods    int    // that run
}

func start(t *testing.T) (members []*member) {
	t.Helper()
	w := world.Joined(t, "member1", "member2")
	programs, err := kube.Build(t.Context(), os.Stderr, "kube-controller-manager")
	w.Must(err)
	for i, c := range w.Clusters {
		m := &member{Cluster: c, t: t, number: i + 1}
		w.Must(m.Admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}))
		started := func(context.Context) error { return nil }
		_, err = m.Beside(t.Context(), started, programs["kube-controller-manager"], "--kubeconfig="+m.Kubeconfig, "--leader-elect=false", "--secure-port=0",
			"--controllers=statefulset-controller,endpointslice-controller,serviceaccount-controller")
		w.Must(err)
		_, m.address, err = binaries.StartCoreDNS(t.Context(), m.Cluster.Cluster, "coredns", corefile)
		w.Must(err)
		w.Run(m.ID)
		members = append(members, m)
	}
	return members
}

func TestPages(t *testing.T) {
	all, members := pages(t), start(t)
	for _, p := range all {
		for _, m := range members {
			m.apply(p)
		}
	}
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			for _, m := range members {
				m.runs(t, p)
			}
			for _, m := range members {
				m.exports(t, p)
				for _, name := range slices.Concat(p.names, m.namesOfPods(t, p)) {
					m.resolves(t, name, members)
				}
			}
		})
	}
}

// apply makes the page's objects, and first the namespaces that they are in.
func (m *member) apply(p page) {
	m.t.Helper()
	for _, b := range p.blocks {
		if !b.isFor(m.ID) {
			continue
		}
		for _, namespace := range namespacesOf(b.text) {
			text := "{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}"
			if err := m.Apply(m.t.Context(), "", text); err != nil {
				m.t.Fatal(err)
			}
		}
		if err := m.Apply(m.t.Context(), "", b.text); err != nil {
			m.t.Fatalf("%s, in %s: %v", p.name, m.ID, err)
		}
	}
}

var namespaceOf = regexp.MustCompile(`namespace: ([a-z0-9-]+)`)

func namespacesOf(text string) (all []string) {
	for _, found := range namespaceOf.FindAllStringSubmatch(text, -1) {
		all = append(all, found[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}
