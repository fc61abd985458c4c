package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
)

// podNamespace is the file in a pod that contains the name of the pod's namespace. It gives the
// default of --namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// namespace returns the value of the flag, or the pod's namespace if the flag is empty. Outside a
// pod it returns "".
func namespace(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	text, err := os.ReadFile(podNamespace)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// clustersetFlags are the flags for what a cluster takes from the clusterset, and gives to it.
func clustersetFlags(options *reconcile.Options) {
	flag.TextVar(&options.ImportNamespaces, "import-namespaces", options.ImportNamespaces, "label selector of the namespaces that exports of peers are imported to, such as team=shop; default: all but kube-*, openshift* and the controller's own")
	flag.TextVar(&options.ExportNamespaces, "export-namespaces", options.ExportNamespaces, "label selector of the namespaces that are exported from, such as team=shop; default: all but kube-*, openshift* and the controller's own")
	flag.StringVar(&options.ClusterProfiles, "cluster-profiles", "", "namespace of the ClusterProfiles with the addresses of peers whose Secrets contain only a token; default: none")
	flag.TextVar(&options.NativeNames, "native-names", options.NativeNames, "label selector of the namespaces in which a ServiceExport can ask for the Service's own name by clusterset-dns.io/native-name, such as kubernetes.io/metadata.name for all; default: none")
	flag.TextVar(&options.AutoExport, "auto-export", reconcile.AutoExportOff, "export Services by the label clusterset-dns.io/export of their namespace: on, off, or report for events only")
	flag.StringVar(&options.AutoExportAnnotation, "auto-export-annotation", "", "another annotation of Services that --auto-export honours, such as kosmos.io/auto-create-mcs")
}

// peerFlags are the flags for peers that fall silent.
func peerFlags(options *reconcile.Options) {
	flag.DurationVar(&options.PeerTimeout, "peer-timeout", 5*time.Minute, "how long the endpoints of an unreachable peer stay; 0 for forever")
	flag.BoolVar(&options.KeepLastEndpoints, "keep-last-endpoints", true, "keep the endpoints of a name that has no ready endpoint in another cluster, unless their cluster is proven to be dead")
	flag.DurationVar(&options.CutOffTimeout, "cut-off-timeout", 0, "how long endpoints that accept connections keep a peer whose API server is silent; --peer-timeout begins then. 0 for as long as they accept")
	flag.BoolVar(&options.ProbePeers, "probe-peers", true, "open TCP connections to endpoints of peers, to tell a dead cluster from a silent API server")
	flag.DurationVar(&options.Heartbeat, "heartbeat-interval", 30*time.Second, "pause between two heartbeats, the same in all clusters: a peer without a new one for 10/3 of it is silent")
	flag.DurationVar(&options.ProbeInterval, "probe-interval", 30*time.Second, "pause between two of the connections of --probe-peers to one endpoint, while the API server of its cluster answers")
}

// addressFlags are the flags for the addresses to listen on. It returns that of the probes.
func addressFlags(options *reconcile.Options) (probes *string) {
	flag.StringVar(&options.MetricsAddress, "metrics-bind-address", ":8080", "listen address of /metrics; 0 for none")
	flag.StringVar(&options.PprofAddress, "pprof-bind-address", "", "listen address of /debug/pprof, such as 127.0.0.1:6060; default: none")
	return flag.String("health-probe-bind-address", ":8081", "listen address of /healthz and /readyz; 0 for none")
}

// identity is what flags tell of this cluster.
type identity struct{ id, properties string }

func identityFlags() *identity {
	i := new(identity)
	flag.StringVar(&i.id, "cluster-id", "", "ID of this cluster in the clusterset; default: the value of the ClusterProperty cluster.clusterset.k8s.io. Without an ID, nothing is exported or imported")
	flag.StringVar(&i.properties, "cluster-properties", "", "properties of this cluster for clusterset-dns.io/prefer-clusters, such as topology.kubernetes.io/region=eu,example.com/tier=gold; default: the ClusterProperties, in which the first is called region.topology.kubernetes.io")
	return i
}

// check returns an error for options that the manager rejects. It runs before the wait for the CRD,
// which can be long, and its errors contain the name of the flag.
func check(ctx context.Context, options reconcile.Options) error {
	if options.LeaderElect && options.Namespace == "" {
		return errors.New("set --namespace (required outside a pod), or --leader-elect=false")
	}
	if options.MaxEndpoints < 1 || options.MaxEndpoints > 1000 {
		return fmt.Errorf("--max-endpoints-per-slice is %d, want 1 to 1000", options.MaxEndpoints)
	}
	if options.PeerTimeout < 0 {
		return fmt.Errorf("--peer-timeout is %s, want a positive duration, or 0 to keep the endpoints forever", options.PeerTimeout)
	}
	if options.CutOffTimeout < 0 {
		return fmt.Errorf("--cut-off-timeout is %s, want a positive duration, or 0 for no limit", options.CutOffTimeout)
	}
	for name, interval := range map[string]time.Duration{"--heartbeat-interval": options.Heartbeat, "--probe-interval": options.ProbeInterval} {
		if interval < time.Second || interval > time.Hour {
			return fmt.Errorf("%s is %s, want 1s to 1h", name, interval)
		}
	}
	if faults := validation.IsDNS1123Label(options.ClusterProfiles); options.ClusterProfiles != "" && len(faults) > 0 {
		return fmt.Errorf("--cluster-profiles is %q, want the name of a namespace: %s", options.ClusterProfiles, faults[0])
	}
	return errors.Join(
		checkAddress(ctx, "--metrics-bind-address", options.MetricsAddress),
		checkAddress(ctx, "--pprof-bind-address", options.PprofAddress),
	)
}

// checkAddress returns an error for an address that cannot be listened on.
func checkAddress(ctx context.Context, flag, address string) error {
	if address == "" || address == "0" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s (choose another address, or 0 for none): %w", flag, err)
	}
	return listener.Close() // The manager listens again.
}

// The formats of the log.
const formatText, formatJSON = "text", "json"

// logs is what flags tell of the log.
type logs struct {
	level  slog.LevelVar
	format string
}

func logFlags() *logs {
	l := new(logs)
	flag.TextVar(&l.level, "log-level", &l.level, "DEBUG, INFO, WARN or ERROR")
	flag.StringVar(&l.format, "log-format", formatText, "text for key=value pairs, or json")
	return l
}

// handler returns the handler of the format. For an unknown one, the program ends with an error in text.
func (l *logs) handler() slog.Handler {
	options := &slog.HandlerOptions{Level: &l.level}
	if l.format == formatJSON {
		return slog.NewJSONHandler(os.Stderr, options)
	}
	return slog.NewTextHandler(os.Stderr, options)
}

// checkArguments rejects an unknown log format, and arguments that are not flags. Otherwise a missing
// dash would silently leave a default in effect.
func checkArguments(format string) error {
	if format != formatText && format != formatJSON {
		return fmt.Errorf("--log-format is %q, want %s or %s", format, formatText, formatJSON)
	}
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: only flags are accepted, see --help", flag.Arg(0))
	}
	return nil
}
