// Package selftest tests an installation from inside of a pod: whether the pod's resolver has the names of imports, and whether the peers
// are connected. `helm test` runs it as `multicluster-controller test`, because each cluster has the controller's image, and that image
// has no shell.
package selftest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/clusterset-dns/multicluster/controller/peers"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// pause is the time between two attempts of a test.
const pause = time.Second

// most bounds how many peers a message lists.
const most = 10

// A test returns what it has found, or what is wrong. It is repeated for some time.
type test func(context.Context) (string, error)

// Main is Command for a process: it gives the exit status.
func Main(ctx context.Context, args []string) int {
	if err := Command(ctx, args, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Command runs the tests that the flags select, and writes a line for each. It returns an error if one of them fails.
func Command(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet(mcs.ControllerName+" test", flag.ContinueOnError)
	zones := flags.String("zones", "", "zones that must be answered, with commas")
	names := flags.String("names", "", "names that must have an address, with commas")
	namespace := flags.String("namespace", "", "namespace of the Leases of peers, which must be connected; default: no test of peers")
	timeout := flags.Duration("timeout", 30*time.Second, "how long each test is repeated until it passes")
	config.RegisterFlags(flags)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	var all []test
	for _, zone := range list(*zones) {
		all = append(all, func(ctx context.Context) (string, error) { return answered(ctx, zone) })
	}
	for _, name := range list(*names) {
		all = append(all, func(ctx context.Context) (string, error) { return resolved(ctx, name) })
	}
	if *namespace != "" {
		kube, err := client()
		if err != nil {
			return err
		}
		all = append(all, func(ctx context.Context) (string, error) { return connected(ctx, kube, *namespace) })
	}
	if len(all) == 0 {
		return errors.New("nothing to test: set --zones, --names or --namespace")
	}
	return run(ctx, all, *timeout, out)
}

func list(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(one string) bool { return one == "" })
}

func client() (kubernetes.Interface, error) {
	cluster, err := config.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server (outside a cluster, set --kubeconfig): %w", err)
	}
	return kubernetes.NewForConfig(cluster)
}

func run(ctx context.Context, all []test, timeout time.Duration, out io.Writer) error {
	failed := 0
	for _, t := range all {
		line, err := repeat(ctx, t, timeout)
		result := "ok      "
		if err != nil {
			failed++
			result, line = "failed  ", err.Error()
		}
		if _, err := fmt.Fprintln(out, result+line); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d tests failed", failed, len(all))
	}
	return nil
}

// repeat returns the result of the last attempt.
func repeat(ctx context.Context, t test, timeout time.Duration) (line string, err error) {
	over := wait.PollUntilContextTimeout(ctx, pause, timeout, true, func(ctx context.Context) (bool, error) {
		line, err = t(ctx)
		return err == nil, nil
	})
	if over != nil && err == nil {
		err = over
	}
	return line, err
}

// answered asks for a record that each server of the zone has (D11), without an import.
func answered(ctx context.Context, zone string) (string, error) {
	name := "dns-version." + strings.TrimSuffix(zone, ".") + "."
	found, err := net.DefaultResolver.LookupTXT(ctx, name)
	if err != nil {
		return "", fmt.Errorf("resolve TXT %s: %w. The DNS server of pods does not answer the zone, nor forward it: `helm get notes` prints what its Corefile needs", name, err)
	}
	return fmt.Sprintf("%s has the TXT record %.20q", name, strings.Join(found, "")), nil
}

func resolved(ctx context.Context, name string) (string, error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w. If there is an import of this name, see docs/troubleshooting.md", name, err)
	}
	return fmt.Sprintf("%s has the address %s", name, found[0]), nil
}

func connected(ctx context.Context, kube kubernetes.Interface, namespace string) (string, error) {
	leases, err := kube.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{LabelSelector: mcs.LabelPeer})
	if err != nil {
		return "", fmt.Errorf("list Leases of namespace %s: %w", namespace, err)
	}
	var others []string
	for i := range leases.Items {
		if ok, reason := peers.Reported(&leases.Items[i]); !ok {
			others = append(others, fmt.Sprintf("%s (%s)", leases.Items[i].Name, reason))
		}
	}
	if len(others) > 0 {
		listed := strings.Join(others[:min(most, len(others))], ", ")
		return "", fmt.Errorf("%d of %d peers are not connected: %s. docs/join.md explains the reasons", len(others), len(leases.Items), listed)
	}
	return fmt.Sprintf("all peers are connected: there are %d", len(leases.Items)), nil
}
