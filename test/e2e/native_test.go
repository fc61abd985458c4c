package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// own is the own name of a Service of this scene, in a cluster.
func (s *scene) own(name string) string { return name + "." + s.namespace + ".svc.cluster.local" }

// exportNative exports a name with annotations, one in a line.
func (s *scene) exportNative(c *cluster, name string, annotations ...string) {
	s.t.Helper()
	s.apply(c, fmt.Sprintf("apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata:\n  name: %s\n  annotations:\n    %s\n", name,
		strings.Join(append(annotations, `clusterset-dns.io/native-name: "true"`, "clusterset-dns.io/return-after: 2s"), "\n    ")))
}

func (s *scene) clusterIP(c *cluster, name string) string {
	s.t.Helper()
	return s.kubectl(c, "get", "service", name, "-o", "jsonpath={.spec.clusterIP}")
}

// answered fails the test if a request had no answer, or if there were too few of them.
func (s *scene) answered(what string, all []request, atLeast int) {
	s.t.Helper()
	s.t.Logf("%s: %d requests: %v", what, len(all), tally(all))
	if failed := others(all, s.clusters...); len(failed) > 0 || len(all) < atLeast {
		s.t.Errorf("%s: %d of %d requests had no answer, want none of at least %d: %q", what, len(failed), len(all), atLeast, failed)
	}
}

func (s *scene) nativeNames() {
	t := s.t
	home, far := s.clusters[0], s.clusters[1]
	s.deploy(far, workload{name: "foo", replicas: 1})
	s.expose(far, "foo", plainly)
	s.exportNative(far, "foo")
	client, name := s.client(home, "client"), s.own("foo")
	client.leadsTo(name, far)
	s.isStock(home)
	address := s.clusterIP(home, "foo")

	// A local Service takes the name over.
	s.deploy(home, workload{name: "foo", replicas: 1, linger: linger})
	flow := client.flow(name, 5*time.Second)
	s.expose(home, "foo", plainly)
	client.leadsTo(name, home)
	s.answered("kubectl apply of a local Service", flow.stop(), 20)

	flow = client.flow(name, 5*time.Second)
	var left []time.Time
	for range rounds() {
		left = append(left, s.ready(home, "foo", false))
		client.leadsTo(name, far)
		s.ready(home, "foo", true)
		client.leadsTo(name, home)
	}
	s.median(flow.stop(), left, far)

	flows := client.flows(8, name, 5*time.Second)
	s.kubectl(home, "scale", "deployment/foo", "--replicas=0")
	client.leadsTo(name, far)
	flows[0].goesOn(200)
	s.kubectl(home, "wait", "--for=delete", "pod", "-l", "app=foo", "--timeout=2m")
	s.answered("the last local pod ends", flows.stop(), 1000)

	s.kubectl(home, "scale", "deployment/foo", "--replicas=1")
	client.leadsTo(name, home)
	s.exportNative(far, "foo", "clusterset-dns.io/prefer-clusters: any")
	client.leadsTo(name, home, far)

	// Without the annotation the name is the local Service's alone.
	s.kubectl(far, "annotate", "serviceexport/foo", "clusterset-dns.io/native-name-")
	client.leadsTo(name, home)
	s.ready(home, "foo", false)
	client.prints(get(name, 5*time.Second)+" 2>&1 || true", "curl: ")
	if now := s.clusterIP(home, "foo"); now != address {
		t.Errorf("the address was %s and is %s", address, now)
	}
}

// ready makes the one server of a workload ready or not, and returns when its pod is.
func (s *scene) ready(c *cluster, name string, is bool) time.Time {
	s.t.Helper()
	command := "touch"
	if is {
		command = "rm"
	}
	s.kubectl(c, "exec", "deployment/"+name, "--", command, "/tmp/unready")
	s.kubectl(c, "wait", fmt.Sprintf("--for=condition=Ready=%t", is), "pod", "-l", "app="+name, "--timeout=1m")
	return time.Now()
}

// median reports how long it took from each time until a cluster answered.
func (s *scene) median(all []request, since []time.Time, by *cluster) {
	s.t.Helper()
	var took []time.Duration
	for _, at := range since {
		began := time.Duration(at.UnixNano())
		i := slices.IndexFunc(all, func(r request) bool { return r.at >= began && r.who == by.id })
		if i < 0 {
			s.t.Fatalf("no answer from %s after %v", by.id, at)
		}
		took = append(took, all[i].at-began)
	}
	slices.Sort(took)
	s.t.Logf("from the last local pod that turns unready to the first answer from %s: %v", by.id, took)
	s.report(fmt.Sprintf("the last local pod turns unready, until another cluster answers (median of %d)", len(took)), took[len(took)/2])
	s.answered("a pod turns unready, and ready", all, 1)
}

// ways are how people put a Service where the controller has one, and what the program then says. Nothing means that it succeeds.
var ways = []struct{ name, says string }{
	{"kubectl create", `services "foo" already exists`},
	{"kubectl apply", ""},
	{"kubectl apply --server-side", ""},
	{"helm upgrade --install", "invalid ownership metadata"},
	{"helm upgrade --install --take-ownership", ""},
}

const fooOfUsers = `
apiVersion: v1
kind: Service
metadata: {name: foo, labels: {app: foo}}
spec:
  selector: {app: foo}
  ports: [{name: http, port: 80, targetPort: 8080}]
`

func (s *scene) handOver() {
	t := s.t
	home, far := s.clusters[0], s.clusters[1]
	s.deploy(far, workload{name: "foo", replicas: 1})
	s.expose(far, "foo", plainly)
	s.exportNative(far, "foo")
	s.deploy(home, workload{name: "foo", replicas: 1})
	client, name := s.client(home, "client"), s.own("foo")
	client.leadsTo(name, far)
	address := s.clusterIP(home, "foo")
	for _, way := range ways {
		flow := client.flow(name, 5*time.Second)
		out, err := s.give(home, way.name)
		if refused := way.says != ""; refused != (err != nil) || refused && !strings.Contains(err.Error(), way.says) {
			t.Fatalf("%s: %s: %v; want %q", way.name, out, err, way.says)
		}
		if way.says != "" {
			s.answered(way.name, flow.stop(), 10)
			continue
		}
		applied := time.Now()
		s.shows(home, "foo is handed over", equals(""), "get", "service", "foo", "-o", `jsonpath={.metadata.labels.clusterset-dns\.io/native-of}`)
		s.report("from "+way.name+" of a user's Service until the controller has handed it over", time.Since(applied))
		client.leadsTo(name, home)
		s.answered(way.name, flow.stop(), 20)
		if now := s.clusterIP(home, "foo"); now != address {
			t.Errorf("%s: the address was %s and is %s", way.name, address, now)
		}
		s.take(home, way.name)
		client.leadsTo(name, far)
		if now := s.clusterIP(home, "foo"); now != address {
			t.Errorf("after %s and a deletion, the address was %s and is %s", way.name, address, now)
		}
	}
}

// give brings a user's Service foo into a cluster.
func (s *scene) give(c *cluster, way string) (string, error) {
	words := strings.Fields(way)
	if words[0] == "kubectl" {
		return c.set.run(s.t.Context(), fooOfUsers, c.set.kubectl, append(words[1:], "--context="+c.id, "--namespace="+s.namespace, "--filename=-")...)
	}
	chart := s.t.TempDir()
	if err := errors.Join(
		os.Mkdir(filepath.Join(chart, "templates"), 0o700),
		os.WriteFile(filepath.Join(chart, "Chart.yaml"), []byte("apiVersion: v2\nname: users\nversion: 1.0.0\n"), 0o600),
		os.WriteFile(filepath.Join(chart, "templates", "foo.yaml"), []byte(fooOfUsers), 0o600),
	); err != nil {
		return "", err
	}
	return s.run(s.t.Context(), "", s.helm, append(words[1:], "foo", chart, "--kube-context="+c.id, "--namespace="+s.namespace)...)
}

// take removes it as the same person would.
func (s *scene) take(c *cluster, way string) {
	s.t.Helper()
	if !strings.HasPrefix(way, "helm") {
		s.kubectl(c, "delete", "service", "foo")
		return
	}
	if _, err := s.run(s.t.Context(), "", s.helm, "uninstall", "foo", "--kube-context="+c.id, "--namespace="+s.namespace); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) nativeNamesOfHeadless() {
	home, far := s.clusters[0], s.clusters[1]
	const spec = "clusterIP: None\nports: [{name: web, port: 8080}]"
	s.deploy(far, workload{name: "db", replicas: 1})
	s.expose(far, "db", spec)
	s.exportNative(far, "db")
	client, name := s.client(home, "client"), s.own("db")
	client.serves(name, far)
	s.deploy(home, workload{name: "db", replicas: 1})
	s.kubectl(home, "delete", "service", "db") // A Service with another clusterIP cannot be applied to the controller's. This one can.
	s.expose(home, "db", spec)
	client.serves(name, home)
	s.ready(home, "db", false)
	client.serves(name, far)
	s.ready(home, "db", true)
	client.serves(name, home)
	s.exportNative(far, "db", "clusterset-dns.io/prefer-clusters: any")
	client.serves(name, home, far)
}

// serves waits until a headless Service's name has as many addresses as there are clusters, and each leads to one of them.
func (p *clientPod) serves(name string, clusters ...*cluster) {
	p.scene.t.Helper()
	line := fmt.Sprintf(`for ip in $(dig +short %s); do curl -sS -m 5 http://$ip:8080/ || true; done`, name)
	p.scene.eventually(fmt.Sprintf("%s has pods of %v", name, ids(clusters)), func(ctx context.Context) error {
		out, err := p.exec(ctx, line)
		if err != nil {
			return err
		}
		var who []string
		for answer := range strings.Lines(out) {
			who = append(who, whose(strings.TrimSpace(answer)))
		}
		slices.Sort(who)
		if want := ids(clusters); !slices.Equal(who, want) {
			return fmt.Errorf("it has %q", out)
		}
		return nil
	})
}
