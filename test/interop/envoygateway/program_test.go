package envoygateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/test/interop/beside"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world"
)

var module = kube.Module{
	Dir:      "test/interop/programs/envoygateway",
	Requires: "github.com/envoyproxy/gateway",
	Packages: map[string]string{"envoy-gateway": "github.com/envoyproxy/gateway/cmd/envoy-gateway", "xds": "./xds"},
	Files:    []string{"xds/main.go"},
	Usual:    "about 6 minutes",
}

const systemNamespace = "envoy-gateway-system"

// config is that of Envoy Gateway's Helm chart, without what needs pods or a second replica.
const config = `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
provider:
  type: Kubernetes
  kubernetes: {leaderElection: {disable: true}, proxyTopologyInjector: {disabled: true}}
`

// gateway is a running Envoy Gateway: its control plane, without an Envoy.
type gateway struct {
	t     *testing.T
	at    *world.Cluster
	xds   string // the path of the program
	certs string // the folder of an Envoy's certificates
}

// startGateway installs Envoy Gateway's CRDs and certificates, and runs it. It has fixed ports, and reads its certificates from /certs:
// so it needs a network of its own, and gets a folder of its own as its root.
func startGateway(t *testing.T, at *world.Cluster) *gateway {
	t.Helper()
	g := &gateway{t: t, at: at}
	programs, err := module.Build(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	g.xds = programs["xds"]
	g.installCRDs()
	if err := at.Apply(t.Context(), "", "{apiVersion: v1, kind: Namespace, metadata: {name: "+systemNamespace+"}}"); err != nil {
		t.Fatal(err)
	}
	certgen := exec.CommandContext(t.Context(), programs["envoy-gateway"], "certgen", "--disable-topology-injector")
	certgen.Env = append(os.Environ(), "KUBECONFIG="+at.Kubeconfig)
	if out, err := certgen.CombinedOutput(); err != nil {
		t.Fatalf("certgen: %v: %s", err, out)
	}
	g.certs = t.TempDir()
	g.certificates("envoy", g.certs)
	beside.Run(t, at.Cluster, beside.Page("http://127.0.0.1:8081/readyz"), "chroot", g.root(programs["envoy-gateway"]), "/envoy-gateway", "server", "--config-path=/config.yaml")
	return g
}

// installCRDs applies the CRDs of the Gateway API and of Envoy Gateway, as they are in its Helm chart.
func (g *gateway) installCRDs() {
	g.t.Helper()
	source, err := module.Source(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	crds := filepath.Join(source, "charts", "gateway-helm", "charts", "crds", "crds")
	files, err := filepath.Glob(filepath.Join(crds, "generated", "*.yaml"))
	if err != nil || len(files) == 0 {
		g.t.Fatalf("no CRDs in %s: %v", crds, err)
	}
	for _, file := range append(files, filepath.Join(crds, "gatewayapi-crds.yaml")) {
		text, err := os.ReadFile(file)
		if err != nil {
			g.t.Fatal(err)
		}
		if err := g.at.Apply(g.t.Context(), "", string(text)); err != nil {
			g.t.Fatalf("%s: %v", filepath.Base(file), err)
		}
	}
}

// root makes the folder that Envoy Gateway runs in.
func (g *gateway) root(program string) string {
	g.t.Helper()
	root := g.t.TempDir()
	certs := filepath.Join(root, "certs")
	kubeconfig, kubeconfigErr := os.ReadFile(g.at.Kubeconfig)
	binary, binaryErr := os.ReadFile(program)
	if err := errors.Join(
		kubeconfigErr, binaryErr,
		os.Mkdir(certs, 0o700), os.Mkdir(filepath.Join(root, "tmp"), 0o700),
		os.WriteFile(filepath.Join(root, "config.yaml"), []byte(config), 0o600),
		os.WriteFile(filepath.Join(root, "kubeconfig"), kubeconfig, 0o600),
		os.WriteFile(filepath.Join(root, "envoy-gateway"), binary, 0o700),
	); err != nil {
		g.t.Fatal(err)
	}
	g.certificates("envoy-gateway", certs)
	g.t.Setenv("KUBECONFIG", "/kubeconfig")
	return root
}

// certificates writes what certgen has put into a Secret.
func (g *gateway) certificates(secret, dir string) {
	g.t.Helper()
	var made corev1.Secret
	if err := g.at.Admin.Get(g.t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: secret}, &made); err != nil {
		g.t.Fatal(err)
	}
	for name, content := range made.Data {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			g.t.Fatal(err)
		}
	}
}

// endpoints are what an Envoy of the route's Gateway gets by xDS for the first rule of an HTTPRoute. It is an error if the route has no
// cluster.
func (g *gateway) endpoints(route string) ([]string, error) {
	all := map[string][]string{}
	for _, name := range gateways {
		var stderr strings.Builder
		ask := exec.CommandContext(g.t.Context(), g.xds, "-certs", g.certs, "-gateway", namespace+"/"+name)
		ask.Stderr = &stderr
		out, err := ask.Output()
		if err != nil {
			return nil, fmt.Errorf("ask for the endpoints: %w: %s", err, &stderr)
		}
		if err := json.Unmarshal(out, &all); err != nil { // adds to what is there
			return nil, err
		}
	}
	found, ok := all[fmt.Sprintf("httproute/%s/%s/rule/0", namespace, route)]
	if !ok {
		return nil, fmt.Errorf("route %s has no cluster: there are %v", route, all)
	}
	return found, nil
}
