package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// workload is a Deployment or StatefulSet of servers, each of which answers with its pod and its cluster.
type workload struct {
	name     string
	kind     string // Deployment unless given
	replicas int
	linger   time.Duration // how long a server continues after SIGTERM
}

// template is a server's pod. It is ready unless there is a file /tmp/unready. Its probe
// starts no program in the pod: with many pods, that takes much of a small machine.
const template = `
  replicas: REPLICAS
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: GRACE
      containers:
        - name: serve
          image: IMAGE
          imagePullPolicy: IfNotPresent
          command: [serve, --http, "8080,8081", --udp, "5300", --linger, LINGER]
          env: [{name: CLUSTER_ID, value: WHERE}]
          ports: [{name: web, containerPort: 8080}]
          readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
`

// deploy runs servers, and returns once all are ready.
func (s *scene) deploy(c *cluster, w workload) {
	s.t.Helper()
	head := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: NAME}\nspec:"
	if w.kind == "StatefulSet" {
		head = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: NAME}\nspec:\n  serviceName: NAME"
	}
	s.apply(c, strings.NewReplacer("NAME", w.name, "REPLICAS", fmt.Sprint(w.replicas), "GRACE", fmt.Sprint(int(w.linger.Seconds())+10),
		"LINGER", w.linger.String(), "IMAGE", s.images["tools"], "WHERE", c.id).Replace(head+template))
	kind := w.kind
	if kind == "" {
		kind = "Deployment"
	}
	s.kubectl(c, "rollout", "status", kind+"/"+w.name, "--timeout=5m")
}

// plainly is the Service of a workload: port 80 to the servers' 8080, of one family.
const plainly = "ports: [{name: http, port: 80, targetPort: 8080}]"

// expose makes the Service of a workload; spec is what it has beside its selector.
func (s *scene) expose(c *cluster, name, spec string) {
	s.t.Helper()
	s.apply(c, fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec:\n  selector: {app: %[1]s}\n  %s\n", name,
		strings.ReplaceAll(spec, "\n", "\n  ")))
}

func (s *scene) export(c *cluster, name string) {
	s.t.Helper()
	s.apply(c, fmt.Sprintf("apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: %s}\n", name))
}

// clientPod is one to run commands in.
type clientPod struct {
	scene   *scene
	cluster *cluster
	name    string
	begun   atomic.Int32 // flows
}

// client is a pod that does nothing of its own. Its resolver is as every pod's, with more search entries if any are given.
func (s *scene) client(c *cluster, name string, searches ...string) *clientPod {
	s.t.Helper()
	return s.clientWith(c, name, fmt.Sprintf("dnsConfig: {searches: [%s]}", strings.Join(searches, ", ")))
}

// clientWith is one whose resolver is as its spec says, in lines of YAML.
func (s *scene) clientWith(c *cluster, name, resolver string) *clientPod {
	s.t.Helper()
	s.apply(c, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 0
  %s
  containers: [{name: client, image: "%s", imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
`, name, strings.ReplaceAll(resolver, "\n", "\n  "), s.images["tools"]))
	s.kubectl(c, "wait", "--for=condition=Ready", "pod/"+name, "--timeout=5m")
	return &clientPod{scene: s, cluster: c, name: name}
}

// exec runs a shell's line in the pod, and gives all that it prints. Where a program fails, what it printed is in the error.
func (p *clientPod) exec(ctx context.Context, line string) (string, error) {
	out, err := p.cluster.kubectl(ctx, "exec", p.name, "--namespace="+p.scene.namespace, "--", "sh", "-c", line+" 2>&1")
	return strings.TrimSpace(out), err
}

// prints waits until a line prints all of want, and none of what follows a dash: that is what it must not print.
func (p *clientPod) prints(line string, want ...string) {
	p.scene.t.Helper()
	p.scene.eventually(fmt.Sprintf("%s in %s prints %q", line, p.cluster.id, want), func(ctx context.Context) error {
		return p.printsNow(ctx, line, want...)
	})
}

func (p *clientPod) printsNow(ctx context.Context, line string, want ...string) error {
	out, err := p.exec(ctx, line)
	if err != nil {
		return err
	}
	for _, text := range want {
		unwanted, no := strings.CutPrefix(text, "-")
		if no && strings.Contains(out, unwanted) || !no && !strings.Contains(out, text) {
			return fmt.Errorf("it printed %q", out)
		}
	}
	return nil
}

// fetch asks a name over HTTP so many times, each time anew, and counts the answers by cluster. An error is an answer as well.
func (p *clientPod) fetch(ctx context.Context, name string, times int) (answers, error) {
	out, err := p.exec(ctx, fmt.Sprintf(`for i in $(seq %d); do curl -sS -m 10 http://%s/ || true; done`, times, name))
	return count(out), err
}

// answers counts answers by the cluster that gave them. Any other text is counted under itself.
type answers map[string]int

// count takes lines such as «foo-7d9c c1».
func count(lines string) answers {
	all := answers{}
	for line := range strings.Lines(lines) {
		if who := whose(strings.TrimSpace(line)); who != "" {
			all[who]++
		}
	}
	return all
}

// whose is the cluster that gave an answer, or what else the answer is: of curl's, the number of the error alone.
func whose(answer string) string {
	if strings.HasPrefix(answer, "curl: (") {
		number, _, _ := strings.Cut(answer, ")")
		return number + ")"
	}
	if words := strings.Fields(answer); len(words) == 2 {
		return words[1]
	}
	return answer
}

// only reports whether exactly these clusters have answered.
func (a answers) only(clusters ...string) error {
	for _, c := range clusters {
		if a[c] == 0 || len(a) != len(clusters) {
			return fmt.Errorf("answers came from %v, and not from %s alone", a, strings.Join(clusters, " and "))
		}
	}
	return nil
}

func ids(clusters []*cluster) []string {
	var all []string
	for _, c := range clusters {
		all = append(all, c.id)
	}
	return all
}

// reaches waits until a cluster answers to a name that exists already, and then wants many more answers, of it alone.
func (p *clientPod) reaches(name, cluster string) (since time.Time) {
	p.scene.t.Helper()
	what := fmt.Sprintf("%s in %s leads to %s", name, p.cluster.id, cluster)
	p.scene.eventually(what, func(ctx context.Context) error {
		got, err := p.fetch(ctx, name, 1)
		if err != nil {
			return err
		}
		return got.only(cluster)
	})
	since = time.Now()
	got, err := p.fetch(p.scene.t.Context(), name, 20)
	if err != nil {
		p.scene.t.Fatalf("%s: %v", what, err)
	}
	if err := got.only(cluster); err != nil {
		p.scene.t.Errorf("%s: then %v", what, err)
	}
	return since
}

// leadsTo waits until exactly these clusters answer to a name, many times in a row. While something changes, others answer too, and a server
// that was asked before it knew the name keeps its denial for some seconds.
func (p *clientPod) leadsTo(name string, clusters ...*cluster) {
	p.scene.t.Helper()
	p.scene.eventually(fmt.Sprintf("%s in %s leads to %v alone", name, p.cluster.id, ids(clusters)), func(ctx context.Context) error {
		got, err := p.fetch(ctx, name, 10+10*len(clusters))
		if err != nil {
			return err
		}
		return got.only(ids(clusters)...)
	})
}
