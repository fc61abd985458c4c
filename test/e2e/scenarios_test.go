package e2e

import "testing"

// The scenarios, in the order in which they run: by the way in which the clusters resolve names, so that Helm changes that as rarely as
// can be. A new one is a test here, and a method of scene in the file with others like it.

// TestReadme types the steps of docs/install.md, and then those of docs/operations/uninstall.md, as they are written there, all to one
// shell. It is the first: the clusters have a stock CoreDNS and nothing of ours.
func TestReadme(t *testing.T) { readme(t) }

// Beside, or behind, a stock CoreDNS.

// TestNativeNames: foo.<namespace>.svc.cluster.local, on a stock CoreDNS, leads to another cluster while there are no local pods, and to
// the local ones while one is ready. The address never changes. A user's Service takes the place of the controller's, in each of the usual
// ways, and no request is lost; when it goes, the controller's comes back. The own name of a headless Service has the pods of the other
// cluster while no local one is ready.
func TestNativeNames(t *testing.T) {
	together(t, byNobody,
		part{"Address", "native names on a stock CoreDNS: remote, local, failover, any", (*scene).nativeNames},
		part{"HandOver", "a user's Service foo takes the name from the controller's, in five ways, and gives it back", (*scene).handOver},
		part{"Headless", "native names of a headless Service on a stock CoreDNS", (*scene).nativeNamesOfHeadless})
}

// TestStockCoreDNS: an unmodified CoreDNS, with stock-intree.Corefile and the rights of the chart, answers imports of our controller.
func TestStockCoreDNS(t *testing.T) {
	scenario(t, byStock, "an unmodified CoreDNS alone answers imports: A, AAAA, SRV, headless, removal", (*scene).stockCoreDNS)
}

// TestSecondCoreDNS: the cluster's own CoreDNS is a stock one, and has one server block more. So it is behind NodeLocal DNSCache, too.
func TestSecondCoreDNS(t *testing.T) {
	together(t, bySecond,
		part{"Alone", "a second CoreDNS beside a stock one that has a stub zone: remote, local, remote again", (*scene).secondCoreDNS},
		part{"NodeLocalDNSCache", "NodeLocal DNSCache before a stock CoreDNS and a second one", (*scene).nodeLocalAndSecond})
}

// By the release alone.

// TestAutopath: a pod without DNS settings reaches another cluster's Service by foo.<namespace>.svc, while there is no local one.
func TestAutopath(t *testing.T) {
	scenario(t, byAutopath, "a name by autopath: remote, local, remote again", func(s *scene) { s.localWins(s.client(s.clusters[1], "client")) })
}

// TestAlias: foo.<namespace>.svc.cluster.local is the local Service while it has a ready endpoint, otherwise the import.
func TestAlias(t *testing.T) {
	scenario(t, byAlias, "foo.<namespace>.svc.cluster.local by alias: local endpoints unready, and ready again", (*scene).failsOver)
}

// TestLoadOnOneServer: the same with one replica of CoreDNS, which answers until another is ready. What is lost is measured: while none is
// ready kube-proxy sends to all that are ending, and on a busy machine does not hear in time which of them has ended. That a server answers
// something wrong, or nothing long after such an end, its end does not explain.
func TestLoadOnOneServer(t *testing.T) {
	scenario(t, oneServer, "questions without a pause while CoreDNS (one replica) restarts", (*scene).loadOnOneServer)
}

// TestLoad: a pod asks as fast as it is answered, and CoreDNS, the controllers and what is exported change all the time. Every answer
// comes, and is right; and every HTTP request through the clusterset IP is answered.
func TestLoad(t *testing.T) {
	scenario(t, twoServers, "questions without a pause while CoreDNS (two replicas) and the controllers restart", (*scene).loadOnTwoServers)
}

// TestNodesResolverFile: with a search line in the file that the kubelet reads, a pod without DNS settings reaches another cluster's
// Service by foo.<namespace>.svc.
func TestNodesResolverFile(t *testing.T) {
	scenario(t, bySearch, "a name by the node's resolver file, without a change of the pod", (*scene).nodesResolverFile)
}

// TestReleaseIsUninstalled: by the lines of docs/operations/uninstall.md the cluster's DNS outlives the release that ran it, and the imports serve on. A client
// notices nothing.
func TestReleaseIsUninstalled(t *testing.T) {
	scenario(t, bySearch, "a release that runs the cluster's DNS goes, by the lines of docs/operations/uninstall.md, while a client asks",
		(*scene).releaseIsUninstalled)
}

// TestNamespaceIsDeleted: `kubectl delete namespace` of everything but the cluster's DNS stops updates, and nothing else. After another installation and
// join, the imports are the same objects, with the same addresses.
func TestNamespaceIsDeleted(t *testing.T) {
	scenario(t, bySearch, "the controller's namespace is deleted, and all is installed again, while a client asks", (*scene).namespaceIsDeleted)
}

// At the same time.

// TestConformance runs the conformance suite of a checkout (E2E_SUITE) against the first two clusters, with the release in them. Its
// report and what it prints are in E2E_SUITE_RESULTS. Without a checkout, `make e2e` gives it a stub in testdata/suite.
func TestConformance(t *testing.T) { beside(t, "the conformance suite", (*scene).conformance) }

// TestVerify: `kubectl multicluster verify` resolves and calls a Service of the other cluster, both ways, with pods that conform to the
// Pod Security Standard "restricted". It leaves nothing.
func TestVerify(t *testing.T) {
	beside(t, "kubectl multicluster verify", (*scene).verify)
}

// TestConfined: what the kernel lets our programs do. The namespace of one of them enforces the Pod Security Standard «restricted».
func TestConfined(t *testing.T) {
	beside(t, "confined: no root, no capability but one, a file system that cannot be written", (*scene).confined)
}

// TestSearches: a pod that also searches clusterset.local reaches another cluster's Service by foo.<namespace>.svc; a local one of the
// name wins for as long as it is there.
func TestSearches(t *testing.T) {
	beside(t, "a name by dnsConfig's searches: remote, local, remote again", (*scene).searches)
}

// TestSearchPolicy: with deploy/search, a pod without DNS settings in a labelled namespace reaches another
// cluster's Service by foo, and by foo.<namespace>.svc.
func TestSearchPolicy(t *testing.T) {
	beside(t, "a name by the policy of deploy/search, without a change of the pod", (*scene).searchPolicy)
}

// TestNodeLocalDNSCache: before the cluster's own CoreDNS, which is ours.
func TestNodeLocalDNSCache(t *testing.T) {
	beside(t, "NodeLocal DNSCache before the cluster's own CoreDNS", (*scene).nodeLocal)
}

// TestKindsOfServices: what a Service says of its ports, affinity and families holds in the other cluster, too.
func TestKindsOfServices(t *testing.T) {
	beside(t, "session affinity, UDP, a named targetPort, a NodePort Service, both families", (*scene).kindsOfServices)
}

// TestTwoClustersServe: both clusters' pods serve one clusterset IP, and one of them can leave without a request that fails: its
// servers linger for longer than the others need to hear of it.
func TestTwoClustersServe(t *testing.T) {
	beside(t, "a Service in two clusters: both serve, and one leaves while requests go on", (*scene).twoClustersServe)
}

// TestOnePodIsUnreachable: a pod that is ready in its own cluster cannot be reached from another one.
// With the annotation, it gets no traffic from there; but the last one stays.
func TestOnePodIsUnreachable(t *testing.T) {
	beside(t, "a pod that one cluster cannot reach gets no traffic from there (clusterset-dns.io/probe)", (*scene).onePodIsUnreachable)
}

// TestPeerFallsSilent: a peer's controller ends and begins again, its API server, the network between two clusters, the network of a whole
// cluster; at last a cluster dies under load. Each uses what it reaches, and no request fails where the pods still serve. It is the last:
// one of the clusters is gone then.
func TestPeerFallsSilent(t *testing.T) {
	last(t, byImpatient, "a peer falls silent: its controller, its API server (--peer-timeout is 30s for these), a link, its network, all of it",
		(*scene).peerFallsSilent)
}
