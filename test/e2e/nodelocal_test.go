package e2e

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"
)

// NodeLocal DNSCache is a CoreDNS on each node, with the Corefile below. Its own program, node-cache, runs that, and makes the address and rules of
// the packet filter for it. Here a stock CoreDNS runs it, and a container beside it, the only one that may change the node's network, makes the
// address: on the loopback, as not every kernel has dummy links.
const nodeLocalObjects = `
apiVersion: v1
kind: Service
metadata: {name: kube-dns-upstream, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  selector: {k8s-app: kube-dns}
  ports:
    - {name: dns, port: 53, protocol: UDP, targetPort: 53}
    - {name: dns-tcp, port: 53, protocol: TCP, targetPort: 53}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: node-local-dns, namespace: kube-system}
data: {Corefile: COREFILE}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: node-local-dns, namespace: kube-system}
spec:
  selector: {matchLabels: {k8s-app: node-local-dns}}
  template:
    metadata:
      labels: {k8s-app: node-local-dns}
      annotations: {corefile: "HASH"}
    spec:
      automountServiceAccountToken: false
      priorityClassName: system-node-critical
      hostNetwork: true
      dnsPolicy: Default
      tolerations: [{operator: Exists}]
      initContainers:
        - name: address
          restartPolicy: Always
          image: TOOLS
          imagePullPolicy: IfNotPresent
          command:
            - sh
            - -c
            - |
              trap 'ip address delete 169.254.20.10/32 dev lo; exit 0' TERM
              ip address replace 169.254.20.10/32 dev lo
              sleep infinity &
              wait
          startupProbe: # patient: to start the container anew would take the address away
            exec: {command: [sh, -c, "ip -o address show to 169.254.20.10 | grep -q lo"]}
            periodSeconds: 1
            timeoutSeconds: 10
            failureThreshold: 60
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {add: [NET_ADMIN], drop: [ALL]}
      containers:
        - name: node-cache
          image: STOCK
          imagePullPolicy: IfNotPresent
          args: [-conf, /etc/coredns/Corefile]
          readinessProbe: {httpGet: {host: 169.254.20.10, path: /health, port: 8080}, periodSeconds: 1}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {add: [NET_BIND_SERVICE], drop: [ALL]}
          volumeMounts: [{name: corefile, mountPath: /etc/coredns, readOnly: true}]
      volumes: [{name: corefile, configMap: {name: node-local-dns}}]
`

// nodeLocalCorefile is without any block of ours. 10.96.0.12 stands for kube-dns-upstream, as in nodelocal.Corefile.
const nodeLocalCorefile = `
cluster.local:53 {
    errors
    cache {
        success 9984 30
        denial 9984 5
    }
    reload
    loop
    bind 169.254.20.10
    forward . 10.96.0.12 {
        force_tcp
    }
    prometheus :9253
    health 169.254.20.10:8080
}
in-addr.arpa:53 ip6.arpa:53 {
    errors
    cache 30
    reload
    loop
    bind 169.254.20.10
    forward . 10.96.0.12 {
        force_tcp
    }
    prometheus :9253
}
.:53 {
    errors
    cache 30
    reload
    loop
    bind 169.254.20.10
    forward . /etc/resolv.conf
    prometheus :9253
}
`

const (
	nodeLocalAddress = "169.254.20.10"
	sampleUpstream   = "10.96.0.12"
)

// nodeLocal is the resolver of a pod that asks there, with the search path of its namespace and clusterset.local.
const nodeLocalResolver = `dnsPolicy: None
dnsConfig:
  nameservers: [169.254.20.10]
  searches: [NAMESPACE.svc.cluster.local, svc.cluster.local, cluster.local, clusterset.local]
  options: [{name: ndots, value: "5"}]`

func (s *scene) nodeLocal() {
	if s.images["stock"] == "" {
		s.t.Skip("needs an image in E2E_IMAGES: stock")
	}
	client := s.behindNodeLocal()
	s.localWins(client)
	s.changesAreSeen(client)
}

func (s *scene) nodeLocalAndSecond() {
	client := s.behindNodeLocal()
	remote := s.clusters[0]
	s.deploy(remote, workload{name: "foo", replicas: 1})
	s.expose(remote, "foo", plainly)
	s.export(remote, "foo")
	client.leadsTo("foo."+s.namespace+".svc", remote)
	s.changesAreSeen(client)
	s.isStock(client.cluster)
}

// behindNodeLocal is a pod in the second cluster that asks NodeLocal DNSCache, once that has the block for clusterset.local. Before, it had not.
func (s *scene) behindNodeLocal() *clientPod {
	s.t.Helper()
	at := s.clusters[1]
	s.undo = append(s.undo, at.removeNodeLocal)
	s.runNodeLocal(at, nodeLocalCorefile)
	client := s.clientWith(at, "client", nodeLocalResolver)
	s.deploy(s.clusters[0], workload{name: "early", replicas: 1})
	s.expose(s.clusters[0], "early", plainly)
	s.export(s.clusters[0], "early")
	// The names of cluster.local answer, and the cluster's own CoreDNS knows the import; and yet the import has no name here.
	client.prints("getent hosts kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	client.prints("dig @$(getent hosts kube-dns.kube-system.svc | cut -d' ' -f1) "+s.fqdn("early"), "status: NOERROR", "ANSWER: 1")
	client.prints("getent hosts early."+s.namespace+".svc || echo none", "none", "-clusterset.local")
	client.prints("dig "+s.fqdn("early")+" || true", "-NOERROR")

	s.runNodeLocal(at, nodeLocalCorefile+s.example("nodelocal"))
	client.reaches("early."+s.namespace+".svc", s.clusters[0].id)
	client.prints("nslookup "+s.fqdn("early"), nodeLocalAddress, s.fqdn("early"), "-NXDOMAIN", "-SERVFAIL")
	return client
}

// runNodeLocal runs NodeLocal DNSCache in a cluster, or gives it another Corefile.
func (s *scene) runNodeLocal(c *cluster, corefile string) {
	s.t.Helper()
	if err := c.applyNodeLocal(s.t.Context(), corefile, s.example("nodelocal")); err != nil {
		s.t.Fatalf("in %s: %v", c.id, err)
	}
}

// applyNodeLocal makes the objects twice: the address of the Service is known only then.
func (c *cluster) applyNodeLocal(ctx context.Context, corefile, example string) error {
	service, others, _ := strings.Cut(nodeLocalObjects, "---\n")
	if err := c.apply(ctx, "kube-system", service); err != nil {
		return err
	}
	// The example's comment contains the command for the address, also while its server block does
	// not exist yet.
	head := strings.Join(comment.FindAllString(example, -1), "")
	corefile, err := c.withAddress(ctx, head+corefile, sampleUpstream)
	if err != nil {
		return err
	}
	objects := strings.NewReplacer("COREFILE", fmt.Sprintf("%q", corefile), "HASH", fmt.Sprintf("%.6x", sha256.Sum256([]byte(corefile))),
		"TOOLS", c.set.images["tools"], "STOCK", c.set.images["stock"]).Replace(others)
	if err := c.apply(ctx, "kube-system", objects); err != nil {
		return err
	}
	_, err = c.kubectl(ctx, "rollout", "status", "daemonset/node-local-dns", "--namespace=kube-system", "--timeout=3m")
	return err
}

// removeNodeLocal returns when its pod is gone, which takes its address along.
func (c *cluster) removeNodeLocal(ctx context.Context) error {
	_, removed := c.kubectl(ctx, "delete", "--namespace=kube-system", "daemonset/node-local-dns", "configmap/node-local-dns", "service/kube-dns-upstream", "--ignore-not-found")
	_, gone := c.kubectl(ctx, "wait", "--namespace=kube-system", "--for=delete", "pod", "-l", "k8s-app=node-local-dns", "--timeout=1m")
	return errors.Join(removed, gone)
}

// cached is for how long two caches, one behind the other, may give an answer that is no longer true: each for 5 seconds, the TTL of our
// answers and the least that CoreDNS keeps anything for; and what a question of kubectl may take on a busy machine.
const cached = 2*5*time.Second + 3*time.Second

// changesAreSeen takes the export of foo back and makes it again: its name goes, and comes back.
func (s *scene) changesAreSeen(client *clientPod) {
	s.t.Helper()
	client.prints("dig "+s.fqdn("foo"), "status: NOERROR", "ANSWER: 1")
	s.kubectl(s.clusters[0], "delete", "serviceexport", "foo")
	s.report("from an import's end to that of its name, behind NodeLocal DNSCache", client.follows("", "status: NXDOMAIN"))
	s.export(s.clusters[0], "foo")
	s.report("from a new import's IPs to its name", client.follows(".", "status: NOERROR", "ANSWER: 1"))
}

// follows waits until the import foo has IPs, or is not there, and measures how long its name needs to follow.
func (p *clientPod) follows(ips string, want ...string) time.Duration {
	s := p.scene
	s.t.Helper()
	s.shows(p.cluster, fmt.Sprintf("the import foo has IPs: %t", ips != ""), func(got string) bool { return strings.Contains(got, ".") == (ips != "") },
		"get", "serviceimport", "foo", "--ignore-not-found", "-o", "jsonpath={.spec.ips[*]}")
	began := time.Now()
	p.prints("dig "+s.fqdn("foo"), want...)
	took := time.Since(began)
	if took > cached {
		s.t.Errorf("the name of foo followed its import after %v, want at most %v", took, cached)
	}
	return took
}
