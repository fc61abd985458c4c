package e2e

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

const (
	release = "multicluster"
	system  = "multicluster-system"
)

// set is a clusterset: clusters that are joined, each with the chart. One kubeconfig has a context for each, c1 and so on, which is
// the cluster's id as well.
type set struct {
	clusters      []*cluster
	dir           string // of the kubeconfig and Helm's files
	kubectl, helm string // the programs' paths
	plugin        string // kubectl-multicluster
	chart         string // the packaged one, or a folder
	images        map[string]string
	chosen        map[string]bool // images that are not those of the chart

	mu     sync.Mutex
	dns    *resolving // of all clusters
	stock  bool       // a stock CoreDNS may be in them
	joined bool
}

// cluster is one of a set.
type cluster struct {
	set *set
	id  string
}

// newSet gets ready what needs no cluster.
func newSet(ctx context.Context, files string) (*set, error) {
	images, err := parseImages(os.Getenv("E2E_IMAGES"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "multicluster-e2e-")
	if err != nil {
		return nil, err
	}
	s := &set{dir: dir, images: images, chosen: map[string]bool{}}
	if err := errors.Join(s.writeKubeconfig(filepath.SplitList(files)), s.findPrograms(ctx)); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	if err := s.takeRelease(ctx, os.Getenv("E2E_RELEASE")); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

// takeRelease takes the chart, the names of its images, and the plugin of kubectl from what `make release-dry-run` made: no file of the checkout.
func (s *set) takeRelease(ctx context.Context, folder string) error {
	charts, err := filepath.Glob(filepath.Join(folder, "multicluster-*.tgz"))
	if err != nil || len(charts) != 1 {
		return fmt.Errorf("E2E_RELEASE=%s has %d charts, want the folder of one release: make release-dry-run", folder, len(charts))
	}
	s.chart = charts[0]
	text, err := s.run(ctx, "", s.helm, "show", "values", s.chart)
	if err != nil {
		return err
	}
	about, err := s.run(ctx, "", s.helm, "show", "chart", s.chart)
	if err != nil {
		return err
	}
	type valuesOf struct{ Image struct{ Repository string } }
	var values struct{ Controller, DNS valuesOf }
	var chart struct{ AppVersion string }
	if err := errors.Join(yaml.Unmarshal([]byte(text), &values), yaml.Unmarshal([]byte(about), &chart)); err != nil {
		return err
	}
	for name, of := range map[string]valuesOf{"coredns": values.DNS, "controller": values.Controller} {
		if s.chosen[name] = s.images[name] != ""; !s.chosen[name] {
			s.images[name] = of.Image.Repository + ":" + chart.AppVersion
		}
	}
	s.plugin = filepath.Join(s.dir, "kubectl-multicluster")
	archive := filepath.Join(folder, fmt.Sprintf("kubectl-multicluster_%s_%s.tar.gz", runtime.GOOS, runtime.GOARCH))
	_, err = s.run(ctx, "", "tar", "-xzf", archive, "-C", s.dir, "./kubectl-multicluster")
	return err
}

// close does not leave clusters of others without names.
func (s *set) close(ctx context.Context) error {
	var err error
	if s.stock && os.Getenv("E2E_FAULT") == "" {
		err = s.resolve(ctx, bySearch)
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// parseImages reads E2E_IMAGES, such as
// coredns=registry.example.org/coredns:v1,controller=...,tools=.... coredns and controller that are not
// set are those of the release's chart. stock is a CoreDNS without the plugin, which must be set for
// other clusters.
func parseImages(text string) (map[string]string, error) {
	images := map[string]string{
		"coredns":    "",
		"controller": "",
		"tools":      "registry.invalid/clusterset-dns/tools:1",
		"stock":      "",
	}
	for _, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		name, image, ok := strings.Cut(pair, "=")
		if _, known := images[name]; !known || !ok {
			return nil, fmt.Errorf("E2E_IMAGES: %q is no coredns=IMAGE, controller=IMAGE, tools=IMAGE or stock=IMAGE", pair)
		}
		if _, tag := splitImage(image); tag == "" {
			return nil, fmt.Errorf("E2E_IMAGES: the image %s has no tag", image)
		}
		images[name] = image
	}
	return images, nil
}

// splitImage is an image's repository, whose registry may have a port, and its tag.
func splitImage(image string) (repository, tag string) {
	colon := strings.LastIndex(image, ":")
	if colon <= strings.LastIndex(image, "/") {
		return image, ""
	}
	return image[:colon], image[colon+1:]
}

func (s *set) kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// writeKubeconfig makes one kubeconfig of the current contexts of several.
func (s *set) writeKubeconfig(files []string) error {
	if len(files) < 2 {
		return fmt.Errorf("KUBECONFIGS has %d file(s), and a clusterset needs two: KUBECONFIGS=a:b", len(files))
	}
	all := api.NewConfig()
	for i, file := range files {
		id := fmt.Sprintf("c%d", i+1)
		one, err := clientcmd.LoadFromFile(file)
		if err != nil {
			return err
		}
		if err := errors.Join(clientcmd.ResolveLocalPaths(one), clientcmd.ConfirmUsable(*one, "")); err != nil {
			return fmt.Errorf("kubeconfig %s: %w", file, err)
		}
		current := one.Contexts[one.CurrentContext]
		all.Clusters[id], all.AuthInfos[id] = one.Clusters[current.Cluster], one.AuthInfos[current.AuthInfo]
		all.Contexts[id] = &api.Context{Cluster: id, AuthInfo: id}
		s.clusters = append(s.clusters, &cluster{set: s, id: id})
	}
	return clientcmd.WriteToFile(*all, s.kubeconfig())
}

// findPrograms builds kubectl and helm from their modules, unless they are in the user's cache.
func (s *set) findPrograms(ctx context.Context) error {
	programs, err := kube.Build(ctx, os.Stderr, "kubectl")
	if err != nil {
		return err
	}
	s.kubectl = programs["kubectl"]
	s.helm, err = binaries.Helm()
	return err
}

// run runs a program with the set's kubeconfig, and without the settings of the user.
func (s *set) run(ctx context.Context, stdin, program string, args ...string) (string, error) {
	return binaries.Run(ctx, []string{"KUBECONFIG=" + s.kubeconfig(), "PATH=" + filepath.Dir(s.kubectl) + ":" + os.Getenv("PATH"),
		"HELM_CONFIG_HOME=" + s.dir, "HELM_CACHE_HOME=" + s.dir, "HELM_DATA_HOME=" + s.dir}, stdin, program, args...)
}

// kubectl runs kubectl as the cluster's administrator.
func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	return c.set.run(ctx, "", c.set.kubectl, append([]string{"--context=" + c.id}, args...)...)
}

// apply creates or changes objects in a namespace.
func (c *cluster) apply(ctx context.Context, namespace, text string) error {
	_, err := c.set.run(ctx, text, c.set.kubectl, "--context="+c.id, "apply", "--namespace="+namespace, "-f", "-")
	return err
}

// resolving is a way in which the clusters resolve imports, and other settings.
type resolving struct {
	values   values
	corefile corefileOf // of a stock CoreDNS as the clusters' own, in place of the release's; or nil
}

// Of README's table of ways, those that differ in the server.
var (
	bySearch   = &resolving{}
	byAutopath = &resolving{values: values{"dns.autopath": "true"}}
	byAlias    = &resolving{values: values{"dns.plugin.alias": "{cluster.local}"}}
	// Beside a stock CoreDNS.
	bySecond = &resolving{values{"dns.mode": "server", "dns.leaveReplace": "true"}, stubZone}
	byStock  = &resolving{values{"dns.mode": "stock", "dns.leaveReplace": "true"}, inTree}
	// No DNS of ours at all.
	byNobody = &resolving{values{"dns.mode": "none", "dns.leaveReplace": "true", "cluster.nativeNames": "kubernetes.io/metadata.name"}, kubeadms}
	anyhow   *resolving // as it happens to be: for what does not depend on it
)

// open gives the clusters as they are, or skips the test.
func open(t *testing.T) *set {
	t.Helper()
	files := os.Getenv("KUBECONFIGS")
	if files == "" {
		t.Skip("needs clusters: run it by `make e2e`, or `make e2e KUBECONFIGS=a:b` for your own clusters")
	}
	opening.Lock()
	defer opening.Unlock()
	if clusterset == nil {
		var err error
		if clusterset, err = newSet(t.Context(), files); err != nil {
			t.Fatal(err)
		}
	}
	return clusterset
}

// need gives the clusters, with the chart installed so that they resolve in a way, or skips the test.
func need(t *testing.T, how *resolving) *set {
	t.Helper()
	s := open(t)
	if how != nil && how.corefile != nil && s.images["stock"] == "" {
		t.Skip("needs a stock CoreDNS instead of the clusters' own: set an image that they have or can pull, " +
			"as E2E_IMAGES=stock=registry.k8s.io/coredns/coredns:v1.12.3")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if how == nil {
		how = cmp.Or(s.dns, bySearch)
	}
	if s.dns != how {
		if err := s.resolve(t.Context(), how); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// resolve installs the chart, or changes its values. The clusters are joined once.
func (s *set) resolve(ctx context.Context, how *resolving) error {
	s.dns = nil // also after an error
	if err := s.each(ctx, func(ctx context.Context, c *cluster) error {
		if s.stock && how.corefile == nil {
			if err := c.removeStock(ctx); err != nil {
				return err
			}
		}
		return c.install(ctx, how)
	}); err != nil {
		return err
	}
	s.stock = false
	if !s.joined {
		if err := s.join(ctx); err != nil {
			return err
		}
		s.joined = true
	}
	if how.corefile != nil {
		if err := s.runStock(ctx, how.corefile); err != nil {
			return err
		}
	}
	s.dns = how
	return nil
}

// each does the same in all clusters at once.
func (s *set) each(ctx context.Context, do func(context.Context, *cluster) error) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, c := range s.clusters {
		all.Go(func() error { return do(ctx, c) })
	}
	return all.Wait()
}

// install brings the chart in, or changes its values: those that are not given here are the chart's own.
func (c *cluster) install(ctx context.Context, how *resolving) error {
	values := values{"cluster.id": c.id}
	if !measure() {
		values["controller.extraArgs"] = "{--heartbeat-interval=" + interval().String() + ",--probe-interval=" + interval().String() + "}"
	}
	maps.Copy(values, how.values)
	if values["dns.mode"] == "" {
		address, err := c.dnsAddress(ctx)
		if err != nil {
			return err
		}
		values["dns.mode"], values["dns.clusterIP"] = "replace", address
	}
	if values["dns.drainSeconds"] == "" {
		values["dns.drainSeconds"] = "0" // No server of one scenario lingers into the next. Those of load are about its end.
	}
	for value, image := range map[string]string{"dns.image": "coredns", "controller.image": "controller"} {
		if c.set.chosen[image] {
			values[value+".repository"], values[value+".tag"] = splitImage(c.set.images[image])
			values[value+".digest"] = ""
		}
	}
	if mode := values["dns.mode"]; mode == "replace" || mode == "server" {
		hash, err := c.corefileHash(ctx, values)
		if err != nil {
			return err
		}
		values["dns.podAnnotations.corefile"] = hash
	}
	_, err := c.set.run(ctx, "", c.set.helm, values.helm("upgrade", "--install", release, c.set.chart, "--kube-context="+c.id, "--namespace="+system,
		"--create-namespace", "--take-ownership", "--force-conflicts", "--wait", "--timeout=5m")...)
	return err
}

// values are of the chart.
type values map[string]string

// helm is a command line of Helm's with these values.
func (v values) helm(args ...string) []string {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		args = append(args, "--set", name+"="+v[name])
	}
	return args
}

// corefileHash changes when the Corefile does that the chart makes of the values. It is an annotation of CoreDNS' pods, which so start anew: the
// kubelet and the plugin `reload` would take a minute or two to notice. No other value does that.
func (c *cluster) corefileHash(ctx context.Context, values values) (string, error) {
	text, err := c.set.run(ctx, "", c.set.helm, values.helm("template", release, c.set.chart, "--namespace="+system, "--show-only=templates/dns/configmap.yaml")...)
	return fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(text))), err
}

// dnsAddress is where the cluster's pods ask for names: that of the Service kube-dns, or where there is none, what its kubelets say.
func (c *cluster) dnsAddress(ctx context.Context) (string, error) {
	address, err := c.kubectl(ctx, "get", "service", "kube-dns", "--namespace=kube-system", "--ignore-not-found", "-o", "jsonpath={.spec.clusterIP}")
	if err != nil || address != "" {
		return address, err
	}
	node, err := c.kubectl(ctx, "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
	if err != nil {
		return "", err
	}
	config, err := c.kubelet(ctx, node)
	if err == nil && len(config.ClusterDNS) == 0 {
		err = fmt.Errorf("the kubelet of %s has no clusterDNS", node)
	}
	if err != nil {
		return "", err
	}
	return config.ClusterDNS[0], nil
}

// kubeletConfig is a part of a kubelet's configuration.
type kubeletConfig struct {
	ClusterDNS []string
	ResolvConf string
}

// kubelet asks a node's kubelet for its configuration.
func (c *cluster) kubelet(ctx context.Context, node string) (kubeletConfig, error) {
	var answer struct{ KubeletConfig kubeletConfig }
	text, err := c.kubectl(ctx, "get", "--raw", "/api/v1/nodes/"+node+"/proxy/configz")
	if err == nil {
		err = json.Unmarshal([]byte(text), &answer)
	}
	return answer.KubeletConfig, err
}

// join lets each cluster read the others.
func (s *set) join(ctx context.Context) error {
	args := []string{"join", "--wait=2m"}
	for _, c := range s.clusters {
		server, err := c.reachableServer(ctx)
		if err != nil {
			return err
		}
		args = append(append(args, c.id), server...)
	}
	_, err := s.run(ctx, "", s.plugin, args...)
	return err
}

// reachableServer gives join the API server's own address, where the kubeconfig has the machine's loopback, as kind's do.
func (c *cluster) reachableServer(ctx context.Context) ([]string, error) {
	config, err := clientcmd.LoadFromFile(c.set.kubeconfig())
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(config.Clusters[c.id].Server)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(server.Hostname()); server.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, nil
	}
	address, err := c.kubectl(ctx, "get", "endpointslices", "kubernetes", "--namespace=default",
		"-o", "jsonpath={.endpoints[0].addresses[0]} {.ports[0].port}")
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(address, " ")
	return []string{"--server", c.id + "=https://" + net.JoinHostPort(host, port)}, nil
}
