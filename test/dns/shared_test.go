package dns

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// shared is the API server of all tests. Its ClusterIPs are those of corefile-examples.
var shared = kube.Shared{
	Options: kube.Options{ServiceCIDRs: "10.96.0.0/24"},
	Prepare: func(ctx context.Context, c *kube.Cluster) error {
		if err := c.InstallCRDs(ctx, kube.BothVersions); err != nil {
			return err
		}
		if _, err := binaries.Kubectl(ctx, c, "apply", "-k", "deploy/plugin/cluster-coredns"); err != nil {
			return err
		}
		return c.Apply(ctx, "default", binaries.KubeadmRights+otherAccounts+"---"+fixtures)
	},
}

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // they wait, and hardly compute
	os.Exit(shared.Main(m))
}

// otherAccounts are one that has no more than kubeadm gives to CoreDNS, and that of a CoreDNS outside, with no more than ours.
const otherAccounts = `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: stock}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects: [{kind: ServiceAccount, name: stock, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: central}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: multicluster-dns}
subjects: [{kind: ServiceAccount, name: central, namespace: default}]
`

// fixtures are there when a test begins: the imports foo and db, a Service of the cluster's own, and a namespace.
const fixtures = anImport + "---" + aHeadlessImport + "---" + aLocalService + "---\n{apiVersion: v1, kind: Namespace, metadata: {name: example}}\n"

const anImport = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: foo}
spec: {type: ClusterSetIP, ips: [10.0.0.77], ports: [{name: http, port: 80, protocol: TCP}]}
`

const aHeadlessImport = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: db}
spec: {type: Headless, ports: [{name: sql, port: 5432, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: db-member1
  labels: {multicluster.kubernetes.io/service-name: db, multicluster.kubernetes.io/source-cluster: member1}
addressType: IPv4
endpoints: [{addresses: [10.1.0.5], hostname: db-0}]
ports: [{name: sql, port: 5432, protocol: TCP}]
`

// aLocalService has an endpoint, as no endpoint controller runs here.
const aLocalService = `
apiVersion: v1
kind: Service
metadata: {name: local}
spec: {clusterIP: 10.96.0.100, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: local, labels: {kubernetes.io/service-name: local}}
addressType: IPv4
endpoints: [{addresses: [10.99.0.5]}]
ports: [{name: http, port: 80, protocol: TCP}]
`

const (
	foo      = "foo.default.svc.clusterset.local."
	db       = "db.default.svc.clusterset.local."
	local    = "local.default.svc.cluster.local."
	localFoo = "foo.default.svc.cluster.local."
	localDB  = "db.default.svc.cluster.local."
	absent   = "bar.default.svc.clusterset.local."
	outside  = "www.example.org."
)

// whole is all that a reply says, in a fixed order, but for its id and the serial number.
func whole(m *dns.Msg) string {
	m = m.Copy()
	m.Id = 0
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if soa, ok := rr.(*dns.SOA); ok {
				soa.Serial = 0
			}
		}
		slices.SortFunc(section, func(a, b dns.RR) int { return strings.Compare(a.String(), b.String()) })
	}
	return m.String()
}

// differs gives an error unless a question is answered so, over UDP and TCP.
func differs(address, question, want string) error {
	for _, network := range []string{"udp", "tcp"} {
		if err := resolver.Differs(network, address, question, want); err != nil {
			return err
		}
	}
	return nil
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
