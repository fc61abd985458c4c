package e2e

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

func (s *scene) searches() {
	s.localWins(s.client(s.clusters[1], "client", "clusterset.local"))
}

func (s *scene) searchPolicy() {
	t := s.t
	remote, local := s.clusters[0], s.clusters[1]
	if _, err := local.kubectl(t.Context(), "get", "mutatingadmissionpolicies"); err != nil {
		t.Skip("needs Kubernetes 1.36 or later: ", err)
	}
	s.kubectl(local, "apply", "-k", "deploy/search")
	s.undo = append(s.undo, func(ctx context.Context) error {
		_, err := local.kubectl(ctx, "delete", "-k", "deploy/search")
		return err
	})
	s.kubectl(local, "label", "namespace", s.namespace, "clusterset-dns.io/search=all")
	s.shows(local, "the policy applies", contains("clusterset.local"),
		"run", "try", "--image=example.org/none", "--dry-run=server", "-o", "jsonpath={.spec.dnsConfig.searches}")
	client := s.clientWith(local, "client", "")
	s.deploy(remote, workload{name: "foo", replicas: 1})
	s.expose(remote, "foo", plainly)
	s.export(remote, "foo")
	for _, name := range []string{"foo", "foo." + s.namespace + ".svc"} {
		client.leadsTo(name, remote)
		client.prints("getent hosts "+name, s.fqdn("foo"), "-cluster.local")
	}
}

func (s *scene) nodesResolverFile() {
	t := s.t
	local := s.clusters[1]
	config, err := local.kubelet(t.Context(), s.kubectl(local, "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"))
	if err != nil {
		t.Fatal(err)
	}
	// Only of clusters that `make e2e` made: the file of other nodes is their owners'.
	made := filepath.Dir(filepath.SplitList(os.Getenv("KUBECONFIGS"))[1])
	if filepath.Dir(config.ResolvConf) != made {
		t.Skipf("the resolver file of the node, %s, is not in %s", config.ResolvConf, made)
	}
	before, err := os.ReadFile(config.ResolvConf)
	if err != nil {
		t.Fatal(err)
	}
	s.undo = append(s.undo, func(context.Context) error { return os.WriteFile(config.ResolvConf, before, 0o600) })
	if err := os.WriteFile(config.ResolvConf, append(before, "search clusterset.local\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	s.localWins(s.clientWith(local, "client", ""))
}

// failsOver has a Service foo in both clusters, and asks in the second for the name that a local one has.
func (s *scene) failsOver() {
	s.t.Helper()
	remote, local := s.clusters[0], s.clusters[1]
	client := s.client(local, "client")
	for _, c := range s.clusters {
		s.deploy(c, workload{name: "foo", replicas: 1})
		s.expose(c, "foo", plainly)
	}
	s.export(remote, "foo")
	name := "foo." + s.namespace + ".svc.cluster.local"
	client.reaches(name, local.id)
	// Before the import is there, nothing could take over.
	client.prints("nslookup "+s.fqdn("foo"), s.fqdn("foo"), "-NXDOMAIN")

	began := time.Now()
	s.kubectl(local, "exec", "deployment/foo", "--", "touch", "/tmp/unready")
	s.report("from the local pod's turning unready to the other cluster's answer; its probe fails three times, once a second", client.reaches(name, remote.id).Sub(began))
	client.prints("getent hosts foo", name)

	began = time.Now()
	s.kubectl(local, "exec", "deployment/foo", "--", "rm", "/tmp/unready")
	s.report("and back, from its being ready again", client.reaches(name, local.id).Sub(began))
}

// localWins exports foo in the first cluster, and asks for it in the second, where foo comes and goes.
func (s *scene) localWins(client *clientPod) {
	s.t.Helper()
	remote, local := s.clusters[0], s.clusters[1]
	s.deploy(remote, workload{name: "foo", replicas: 2})
	s.expose(remote, "foo", plainly)
	s.export(remote, "foo")
	name := "foo." + s.namespace + ".svc"
	client.leadsTo(name, remote)
	leadsTo := func(cluster *cluster, domain string) time.Time {
		s.t.Helper()
		since := client.reaches(name, cluster.id)
		client.prints("nslookup "+name, name+"."+domain, "-NXDOMAIN", "-SERVFAIL")
		client.prints("getent hosts "+name, name+"."+domain)
		return since
	}
	leadsTo(remote, "clusterset.local")

	s.deploy(local, workload{name: "foo", replicas: 1})
	began := time.Now()
	s.expose(local, "foo", plainly)
	s.report("from a local Service's beginning to its answer", leadsTo(local, "cluster.local").Sub(began))

	began = time.Now()
	s.kubectl(local, "delete", "service,deployment", "foo", "--wait=false")
	s.report("from its end to the other cluster's answer", leadsTo(remote, "clusterset.local").Sub(began))
}
