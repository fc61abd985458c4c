// Package binaries runs this project's two programs, as `make build` left them in bin, beside a kube.Cluster.
package binaries

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// Root is the project's top folder. It panics outside of it, where no test runs.
func Root() string {
	root, err := kube.Root()
	if err != nil {
		panic(err)
	}
	return root
}

// Helm is the path of the Helm that deploy/charts pins, built from its module unless it is in the user's cache. It is built as our
// programs are.
var Helm = sync.OnceValues(func() (string, error) {
	ctx := context.Background() //nolint:forbidigo // once for all tests
	return kube.Output(kube.Go(ctx, filepath.Join(Root(), "deploy", "charts"), "tool", "-n", "helm"))
})

// Program returns the path of one of this project's programs. The error contains how to build it.
func Program(name string) (string, error) {
	path := filepath.Join(Root(), "bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: run `make build` first", err)
	}
	return path, nil
}

// Kubectl runs kubectl as the cluster's administrator, in the project's top folder, and gives its output.
func Kubectl(ctx context.Context, c *kube.Cluster, args ...string) (string, error) {
	return KubectlWith(ctx, c.Kubeconfig, "", args...)
}

// KubectlWith is Kubectl with any kubeconfig, and a text that kubectl reads.
func KubectlWith(ctx context.Context, kubeconfig, stdin string, args ...string) (string, error) {
	programs, err := kube.Build(ctx, os.Stderr, "kubectl")
	if err != nil {
		return "", err
	}
	// Clusters of two tests can have the same address, and different CRDs: kubectl keeps what an address serves for six hours.
	return Run(ctx, []string{"KUBECONFIG=" + kubeconfig, "KUBECACHEDIR=" + kubeconfig + ".cache"}, stdin, programs["kubectl"], args...)
}

// Run runs a program in the project's top folder, with more variables and a text that it reads, and gives its output. An error has all that it
// printed.
func Run(ctx context.Context, environment []string, stdin, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = Root(), append(os.Environ(), environment...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s%s", filepath.Base(program), strings.Join(args, " "), err, out, &stderr)
	}
	return string(out), err
}

// StartController runs the controller as deploy/controller does: as its account, with its role, and the Lease in its namespace; and
// with more flags, if any are given.
func StartController(ctx context.Context, c *kube.Cluster, flags ...string) (*kube.Program, error) {
	if _, err := Kubectl(ctx, c, "apply", "-k", "deploy/controller"); err != nil {
		return nil, err
	}
	const namespace, account = "multicluster-system", "multicluster-controller"
	_, kubeconfig, err := c.ServiceAccount(ctx, namespace, account)
	if err != nil {
		return nil, err
	}
	port, err := kube.FreePort()
	if err != nil {
		return nil, err
	}
	program, err := Program("multicluster-controller")
	if err != nil {
		return nil, err
	}
	probes := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	alive := func(ctx context.Context) error {
		_, err := Get(ctx, "http://"+probes+"/healthz")
		return err
	}
	return c.Beside(ctx, alive, program, append([]string{"--kubeconfig", kubeconfig,
		"--namespace", namespace, "--metrics-bind-address", "0", "--health-probe-bind-address", probes}, flags...)...)
}

// StartCoreDNS runs a CoreDNS, by its name in bin, on loopback with a Corefile, in which {{.Port}} and {{.Kubeconfig}} stand for a free port and for the
// administrator's kubeconfig. It returns once clusterset.local has an SOA record, with the server's address.
func StartCoreDNS(ctx context.Context, c *kube.Cluster, name, corefile string) (b *kube.Program, address string, err error) {
	program, err := Program(name)
	if err != nil {
		return nil, "", err
	}
	port, err := kube.FreePort()
	if err != nil {
		return nil, "", err
	}
	path := filepath.Join(filepath.Dir(c.Kubeconfig), fmt.Sprintf("Corefile-%d", port)) // in the cluster's folder, which goes with the cluster
	text := strings.NewReplacer("{{.Port}}", strconv.Itoa(port), "{{.Kubeconfig}}", c.Kubeconfig).Replace(corefile)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	answers := func(context.Context) error {
		m, err := dns.Exchange(new(dns.Msg).SetQuestion("clusterset.local.", dns.TypeSOA), address)
		if err == nil && len(m.Answer) == 0 {
			err = fmt.Errorf("clusterset.local has no SOA record: %s", dns.RcodeToString[m.Rcode])
		}
		return err
	}
	b, err = c.Beside(ctx, answers, program, "-conf", path)
	return b, address, err
}

// Get is what a program of ours says at a URL, its metrics for one. Another status than 200 is an error.
func Get(ctx context.Context, url string) (string, error) {
	return kube.Get(ctx, http.DefaultClient, url)
}
