package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/test/clusters/images"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// instead lists the lines of the documents that cannot be typed here unchanged: the replacement of
// each, and the reason.
var instead = []struct{ line, typed, why string }{
	{`git clone --branch (v\S+) https://github.com/coredns/coredns && cd coredns`,
		`cp -r "$(go mod download -json github.com/coredns/coredns@$1 | sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p')" coredns && chmod -R u+w coredns && cd coredns && git init -q && git add . && git -c user.name=e2e -c user.email=e2e@example.org commit -q -m $1`,
		"the same source, from where all other modules come from, made a repository"},
	{`export GOFLAGS=-mod=mod`, `export GOFLAGS='-mod=mod ` + kube.Flags + `'`, "what was compiled for the images is not compiled once more"},
	{`go get (github.com/clusterset-dns/multicluster)`, `go mod edit -require=$1@v0.0.0 -replace=$1=$(realpath ../multicluster) && go get $1@v0.0.0`,
		"what is tested is this tree, not the last release of it"},
	{`make`, `make GOLANG_VERSION=$(go env GOVERSION | sed s/^go//)`, "CoreDNS' Makefile would fetch another release of Go, and compile everything with that"},
	{`make build`, ``, "the other way to do steps 1 to 3"},
	{`make push`, ``, "they are in the clusters already"},
	{`kubectl apply -k`, `kubectl apply -k OVERLAY`, "the overlay that deploy/README.md shows"},
	{`kubectl apply -k deploy/karmada`, ``, "no Karmada here"},
	{`kubectl apply -k deploy/client`, `kubectl kustomize deploy/client | sed 's|image: .*|image: TOOLS|' | kubectl apply -f -`, "the image is another Debian"},

	{`kubectl delete -k deploy/plugin/server`, `kubectl delete -k deploy/plugin/cluster-coredns`, "the steps of docs/install.md have used that one of the two"},
}

// command is code in the documents that is typed. Other code is a name, a line of a file, or Helm's.
var command = regexp.MustCompile(`^(cd|git|go|make|export|kubectl|\./coredns)( |$)`)

var (
	stepHead  = regexp.MustCompile(`(?m)^\d+\. `)
	afterList = regexp.MustCompile(`\n\n\S`)
	// A line of a block in a list, or else what is between backquotes, also over the end of a line.
	code = regexp.MustCompile("(?m)^ {7}(.+?)(?:  +#.*)?$|`([^`]+)`")
)

// stepsOf is the code in each step of a numbered list in Markdown, in its order.
func stepsOf(text string) [][]string {
	var all [][]string
	for _, step := range stepHead.Split(text, -1)[1:] {
		if end := afterList.FindStringIndex(step); end != nil {
			step = step[:end[0]]
		}
		var lines []string
		for _, found := range code.FindAllStringSubmatch(step, -1) {
			lines = append(lines, strings.Join(strings.Fields(found[1]+found[2]), " "))
		}
		all = append(all, lines)
	}
	return all
}

// section is the part of a document below a heading.
func section(t testing.TB, document, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(binaries.Root(), document))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", document, heading)
	}
	part, _, _ := strings.Cut(after, "\n## ")
	return part
}

// person is one who types the documents' lines, with a kubeconfig whose contexts are called as the documents call them.
type person struct {
	*scene
	dir     string // holds multicluster, which is this tree, and what the lines make
	shell   *shell // begins there
	members []string
	told    map[string]bool // lines of instead whose reason is in the log
}

func newPerson(s *scene) *person {
	s.t.Helper()
	p := &person{scene: s, dir: s.t.TempDir(), members: []string{"member1", "member2"}, told: map[string]bool{}}
	err := os.Symlink(binaries.Root(), filepath.Join(p.dir, "multicluster"))
	if err = errors.Join(err, p.writeContexts()); err != nil {
		s.t.Fatal(err)
	}
	p.shell = newShell(s.t, p.dir, "KUBECONFIG="+p.contexts(), "PATH="+filepath.Dir(s.set.kubectl)+":"+filepath.Dir(s.plugin)+":"+os.Getenv("PATH"))
	return p
}

func (p *person) contexts() string { return filepath.Join(p.dir, "kubeconfig") }

func (p *person) writeContexts() error {
	all, err := clientcmd.LoadFromFile(p.kubeconfig())
	if err != nil {
		return err
	}
	for i, member := range p.members {
		id := p.clusters[i].id
		all.Contexts[member] = &api.Context{Cluster: id, AuthInfo: id}
	}
	maps.DeleteFunc(all.Contexts, func(name string, _ *api.Context) bool { return !strings.HasPrefix(name, "member") })
	return clientcmd.WriteToFile(*all, p.contexts())
}

// types gives a step's lines to the shell, with a member's context as the current one, and returns what they print.
func (p *person) types(member string, lines ...string) string {
	p.t.Helper()
	out, err := p.try(member, lines...)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// try ends with the first line that fails.
func (p *person) try(member string, lines ...string) (string, error) {
	if _, err := p.shell.types("kubectl config use-context " + member); err != nil {
		return "", err
	}
	var all strings.Builder
	for _, line := range lines {
		if !command.MatchString(line) {
			continue
		}
		if line = p.replaced(member, line); line == "" {
			continue
		}
		p.t.Logf("%s $ %s", member, line)
		out, err := p.shell.types(line)
		all.WriteString(out)
		if err != nil {
			return all.String(), err
		}
	}
	return all.String(), nil
}

// replaced is a line as it is, or what is typed in its place.
func (p *person) replaced(member, line string) string {
	other := p.members[0]
	if member == other {
		other = p.members[1]
	}
	// In docs/operations/uninstall.md, each of them is the one that leaves once.
	line = strings.NewReplacer("<this>", member, "<other>", other).Replace(line)
	words := strings.NewReplacer("OVERLAY", filepath.Join(p.dir, member), "TOOLS", p.images["tools"])
	for _, i := range instead {
		if pattern := regexp.MustCompile("^" + i.line + "$"); pattern.MatchString(line) {
			if !p.told[i.line] {
				p.t.Logf("not typed as it is: %s\n%s", line, i.why)
			}
			p.told[i.line] = true
			return words.Replace(pattern.ReplaceAllString(line, i.typed))
		}
	}
	return line
}

func readme(t *testing.T) {
	all, load := open(t), filepath.SplitList(os.Getenv("E2E_LOAD"))
	if len(load) < 2 {
		t.Skip("puts an image that it builds into the clusters' nodes: only with those that `make e2e` starts")
	}
	if all.images["stock"] == "" {
		t.Skip("needs an image in E2E_IMAGES: stock")
	}
	for _, c := range all.clusters[:2] {
		found, err := c.oursIn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if found != "" {
			t.Fatalf("begins in clusters that have nothing of ours, and %s has %s, among others", c.id, strings.Fields(found)[0])
		}
	}
	steps := stepsOf(section(t, "docs/install.md", "## Steps"))
	if len(steps) != 8 {
		t.Fatalf("docs/install.md has %d steps, and this test knows 8: %q", len(steps), steps)
	}
	s := all.newScene(t, "the steps of docs/install.md, typed as written; and uninstalled again")
	p := newPerson(s)
	p.runKubeadms()
	p.makeCoreDNS(steps[:3], load[:2])
	for i, member := range p.members {
		p.types(member, steps[3]...)
		p.writeOverlay(member)
		p.types(member, steps[4]...)
		p.kubectl(s.clusters[i], "rollout", "status", "deployment/multicluster-controller", "--namespace="+system, "--timeout=3m")
		p.editCoreDNS(s.clusters[i], steps[5])
	}
	p.exportFoo(steps[6])
	p.tryFoo(steps[7])
	p.uninstall()
}

// TestUnitDocumentsHaveTheLines: where the README changes, so has the table of what stands for its lines.
func TestUnitDocumentsHaveTheLines(t *testing.T) {
	uninstall, err := os.ReadFile(filepath.Join(binaries.Root(), "docs", "operations", "uninstall.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := slices.Concat(slices.Concat(stepsOf(section(t, "docs/install.md", "## Steps")), stepsOf(string(uninstall)))...)
	for _, i := range instead {
		if !slices.ContainsFunc(shown, regexp.MustCompile("^"+i.line+"$").MatchString) {
			t.Errorf("neither docs/install.md nor docs/operations/uninstall.md has the line %q", i.line)
		}
	}
}

// runKubeadms gives the clusters what kubeadm installs.
func (p *person) runKubeadms() {
	p.t.Helper()
	if err := p.runStock(p.t.Context(), kubeadms); err != nil {
		p.t.Fatal(err)
	}
}

const readmeImage = "registry.invalid/clusterset-dns/readme-coredns:1"

// makeCoreDNS types the steps that lead to a CoreDNS with the plugin, and makes an image of it, each user in a way of their own.
func (p *person) makeCoreDNS(steps [][]string, load []string) {
	p.t.Helper()
	p.t.Log("steps 1 to 3 compile CoreDNS: this takes a minute, or several where nothing was compiled before")
	began := time.Now()
	plugins := p.types(p.members[0], slices.Concat(steps...)...)
	p.reportValue("steps 1 to 3, which compile CoreDNS", fmt.Sprintf("%.1f s", time.Since(began).Seconds()))
	if !regexp.MustCompile(`(?m)^ *(dns\.)?multicluster$`).MatchString(plugins) {
		p.t.Fatalf("./coredns -plugins does not list multicluster: %s", plugins)
	}
	archive := filepath.Join(p.dir, "coredns.tar")
	if err := images.OfProgram(p.t.Context(), archive, readmeImage, filepath.Join(p.dir, "coredns", "coredns")); err != nil {
		p.t.Fatal(err)
	}
	for _, line := range load {
		if _, err := p.run(p.t.Context(), "", "sh", "-c", line+" "+archive); err != nil {
			p.t.Fatal(err)
		}
	}
}

// writeOverlay makes the overlay of the controller as deploy/README.md shows it: with the flag, as in its block, and with the image, as in
// that of the second CoreDNS.
func (p *person) writeOverlay(member string) {
	p.t.Helper()
	_, block, found := strings.Cut(section(p.t, "deploy/README.md", "## Joining clusters"), "An overlay of `controller` with the flag:\n\n")
	block, _, ended := strings.Cut(block, "\n\n")
	line := regexp.MustCompile(`(?m)^    images: .*$`).FindString(section(p.t, "deploy/README.md", "## Images"))
	if !found || !ended || !strings.Contains(block, "=member1") || !strings.Contains(line, "registry.invalid/clusterset-dns/coredns") {
		p.t.Fatalf("deploy/README.md shows no overlay of the controller with its id, or none with an image: %q, %q", block, line)
	}
	repository, tag := splitImage(p.images["controller"])
	text := strings.NewReplacer("<this folder>", "../multicluster/deploy", "=member1", "="+member, "registry.invalid/clusterset-dns/coredns", "registry.invalid/clusterset-dns/multicluster-controller",
		"<registry>/coredns", repository, "<tag>", tag).Replace(block + "\n" + line + "\n")
	folder := filepath.Join(p.dir, member)
	err := os.Mkdir(folder, 0o700)
	err = errors.Join(err, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(strings.TrimPrefix(strings.ReplaceAll(text, "\n    ", "\n"), "    ")), 0o600))
	if err != nil {
		p.t.Fatal(err)
	}
}

// editCoreDNS is what a person does by `kubectl edit`: the step's line into the Corefile, and the image into the Deployment.
func (p *person) editCoreDNS(c *cluster, step []string) {
	p.t.Helper()
	i := slices.IndexFunc(step, func(text string) bool { return strings.HasPrefix(text, "multicluster ") })
	if i < 0 {
		p.t.Fatalf("the step shows no line for the Corefile: %q", step)
	}
	corefile := p.kubectl(c, "get", "configmap", "coredns", "--namespace=kube-system", "-o", "jsonpath={.data.Corefile}")
	edited := strings.Replace(corefile, "    prometheus", "    "+step[i]+"\n    prometheus", 1)
	if want := comment.ReplaceAllString(p.example("stock"), ""); edited != want {
		p.t.Errorf("the Corefile is\n%s\nwant that of stock.Corefile:\n%s", edited, want)
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]any{"Corefile": edited}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.kubectl(c, "patch", "configmap", "coredns", "--namespace=kube-system", "-p", string(patch))
	p.kubectl(c, "set", "image", "deployment/coredns", "--namespace=kube-system", "coredns="+readmeImage)
	p.kubectl(c, "rollout", "status", "deployment/coredns", "--namespace=kube-system", "--timeout=3m")
}

// exportFoo joins the clusters, and exports the Service foo that runs in the first one's namespace default.
func (p *person) exportFoo(step []string) {
	p.t.Helper()
	home := *p.scene
	home.namespace = "default"
	home.deploy(p.clusters[0], workload{name: "foo", replicas: 1})
	home.expose(p.clusters[0], "foo", plainly)
	p.undo = append(p.undo, func(ctx context.Context) error {
		_, err := p.clusters[0].kubectl(ctx, "delete", "deployment,service", "foo", "--namespace=default", "--ignore-not-found")
		return err
	})
	p.types(p.members[1], step...)
}

// tryFoo asks in the second cluster for the Service of the first.
func (p *person) tryFoo(step []string) {
	p.t.Helper()
	i := slices.IndexFunc(step, func(text string) bool { return strings.HasPrefix(text, "kubectl exec ") })
	if i < 0 || i != len(step)-1 {
		p.t.Fatalf("the step does not end with a line that tries a name: %q", step)
	}
	there := p.clusters[1]
	p.undo = append(p.undo, func(ctx context.Context) error {
		_, err := there.kubectl(ctx, "delete", "deployment", "multicluster-client", "--namespace=default", "--ignore-not-found")
		return err
	})
	p.types(p.members[1], step[:i]...)
	p.kubectl(there, "rollout", "status", "deployment/multicluster-client", "--namespace=default", "--timeout=3m")
	p.eventually("the last line of the step finds foo", func(context.Context) error {
		out, err := p.try(p.members[1], step[i])
		if err == nil && !strings.Contains(out, "foo.default.svc.clusterset.local") {
			err = fmt.Errorf("it printed %q", out)
		}
		return err
	})
	p.client(there, "client", "clusterset.local").reaches("foo.default.svc", p.clusters[0].id)
}

// uninstall types the lines of docs/operations/uninstall.md, each step in all clusters: what leaves nothing of ours.
func (p *person) uninstall() {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(binaries.Root(), "docs", "operations", "uninstall.md"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range p.clusters[:2] {
		if found, err := c.oursIn(p.t.Context()); err != nil || found == "" {
			p.t.Fatalf("before anything is uninstalled, of ours %s has %q: %v", c.id, found, err)
		}
	}
	// Of step 1, the part for `cluster`: what was edited is edited back.
	p.runKubeadms()
	for _, step := range stepsOf(string(text)) {
		for _, member := range p.members {
			p.types(member, step...)
		}
	}
	for _, c := range p.clusters[:2] {
		p.eventually("nothing of ours is left in "+c.id, func(ctx context.Context) error {
			left, err := c.oursIn(ctx)
			if err == nil && left != "" {
				err = fmt.Errorf("there is %s", left)
			}
			return err
		})
		p.client(c, "after", "clusterset.local").prints("getent hosts kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
		p.isStock(c)
	}
}

// ofOurs are the names of what we make in a cluster, and of what we make of foo there.
var ofOurs = regexp.MustCompile(`(?m)^.*(multicluster|clusterset|/derived-|/foo\.member).*$`)

// oursIn lists what there is of ours among all objects of a cluster, but for events, which nobody deletes.
func (c *cluster) oursIn(ctx context.Context) (string, error) {
	kinds, err := c.kubectl(ctx, "api-resources", "--verbs=list", "--output=name")
	if err != nil {
		return "", err
	}
	var all []string
	for _, kind := range strings.Fields(kinds) {
		if !strings.HasPrefix(kind, "events") && kind != "componentstatuses" {
			all = append(all, kind)
		}
	}
	objects, err := c.kubectl(ctx, "get", strings.Join(all, ","), "--all-namespaces", "--output=name")
	return strings.Join(ofOurs.FindAllString(objects, -1), " "), err
}
