package chain

import (
	"net/netip"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Read is what a read of a cluster returned: the value, or the error. An object that does not exist is a
// nil value without an error. A failed read is never an absent object.
type Read[T any] struct {
	Value T
	Error string
}

// OK reports whether the read succeeded.
func (r Read[T]) OK() bool { return r.Error == "" }

// Facts is all that the chain is made of.
type Facts struct {
	Name Name
	// Here is the cluster in which the name is asked for.
	Here Cluster
	// Pod is the pod that asks, or nil: a pod with the defaults of its namespace.
	Pod *corev1.Pod
	// PodNamespace is the namespace of the pod.
	PodNamespace string
	// Injected are suffixes that the API server adds to new pods of the namespace (deploy/search).
	Injected []string
	DNS      DNS
	// Others are the other clusters of the kubeconfig, sorted by their contexts.
	Others []Cluster
	// Unread are contexts of the kubeconfig whose clusters did not answer, with the reason.
	Unread map[string]string
}

// Cluster is one cluster, and what it has under the name.
type Cluster struct {
	Context string
	// ID is the announced ID, or "".
	ID string
	// UID identifies the cluster, or is "" if it could not be read.
	UID string
	// Server is the address of its API server in the kubeconfig, and CA the authority of its certificate.
	Server, CA string
	// Now is the time of the reads by the clock of its API server, which the local one need not agree with.
	Now time.Time
	// Identity is why Installed, ID and Heartbeat are not known, or "".
	Identity  string
	Installed bool
	// Heartbeat is when its controller last showed that it runs, or zero.
	Heartbeat time.Time
	// Exporting are the namespaces that it announces to export from. Limited is false if it announces none:
	// all.
	Exporting []string
	Limited   bool

	// Version is the served version of ServiceImports and ServiceExports, or "" if the CRDs are missing.
	Version    Read[string]
	Controller Read[*appsv1.Deployment]
	Namespace  Read[*corev1.Namespace]
	Import     Read[*mcsv1beta1.ServiceImport]
	Export     Read[*mcsv1beta1.ServiceExport]
	Service    Read[*corev1.Service]
	Derived    Read[*corev1.Service]
	// Slices are those of the import, and Endpoints those of the Service of the name.
	Slices    Read[[]discoveryv1.EndpointSlice]
	Endpoints Read[[]discoveryv1.EndpointSlice]
	// Pods is how many pods the selector of the Service selects.
	Pods     Read[int]
	Peers    Read[[]Peer]
	Networks Read[Networks]
}

// Peer is a cluster that this one reads.
type Peer struct {
	ID                  string
	HasSecret, HasLease bool
	// SecretsUnknown is true if the Secrets could not be read, so that HasSecret means nothing.
	SecretsUnknown  bool
	Connected       bool
	Reason, Message string
	DataPath        string
	// Server is the address of its API server in the Secret, and CA the authority of its certificate.
	Server, CA string
	// UID is that of the cluster that the controller was last connected to, or "".
	UID         string
	TokenExpiry time.Time
	// Annotations are the limits of the peer, from its Secret.
	Annotations map[string]string
}

// Networks are address ranges of a cluster.
type Networks struct {
	Pods, Services []netip.Prefix
}

// DNS is the DNS of a cluster.
type DNS struct {
	// Corefile is that of the cluster's own CoreDNS, "" if the ConfigMap does not exist.
	Corefile Read[string]
	// Extra are files that the Corefile can import, and Custom is true if they are of coredns-custom.
	Extra  map[string]string
	Custom bool
	// NodeLocal is the Corefile of NodeLocal DNSCache, "" if it is not installed.
	NodeLocal Read[string]
	// Address is the ClusterIP of the cluster's own DNS, or "".
	Address Read[string]
	// Second are the Services of CoreDNS servers of this project.
	Second Read[[]SecondServer]
	// Servers are the pods of both kinds. Missing rights to list them are an error.
	Servers Read[[]Server]
	// Asked is the name in the questions.
	Asked string
}

// SecondServer is a CoreDNS of this project, beside the cluster's own.
type SecondServer struct {
	Namespace, Name string
	Address         string
	Corefile        string
}

// Server is one pod of a DNS server, and its answer.
type Server struct {
	Namespace, Pod string
	// Second is true for a pod of a SecondServer.
	Second bool
	Ready  bool
	// Waiting is why a container of the pod does not run, such as CrashLoopBackOff.
	Waiting string
	// Log is the end of the pod's log, if it is not ready or its answer is not from the plugin.
	Log Read[string]
	// Account is the pod's service account, and CanList whether it can list ServiceImports.
	Account string
	CanList Read[bool]
	Answer  Answer
}

// Answer is what a server answered.
type Answer struct {
	// NotAsked is why the server was not asked, or did not answer.
	NotAsked string
	// Code is the response code: NOERROR, NXDOMAIN and so on.
	Code string
	// Addresses of A and AAAA records, sorted.
	Addresses []netip.Addr
	// Targets are the SRV records: port and target.
	Targets []string
	// Zone is the owner of the SOA record of a negative answer.
	Zone string
	// TTL is the longest time to live of the records: how long a cache that the answer is from keeps it.
	TTL time.Duration
}
