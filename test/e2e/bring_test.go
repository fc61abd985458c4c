package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/clusterset-dns/multicluster/test/e2e/dnsload"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// program builds one of the project's programs for the node that the pod runs on, and gives its file.
func (p *clientPod) program(pkg string) string {
	s := p.scene
	s.t.Helper()
	node := s.kubectl(p.cluster, "get", "pod", p.name, "-o", "jsonpath={.spec.nodeName}")
	arch := s.kubectl(p.cluster, "get", "node", node, "-o", "jsonpath={.status.nodeInfo.architecture}")
	file := filepath.Join(s.dir, "program-"+arch)
	if _, err := s.run(s.t.Context(), "", "env", "CGO_ENABLED=0", "GOFLAGS="+kube.Flags, "GOOS=linux", "GOARCH="+arch, "go", "build", "-o", file, pkg); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// bring copies a program into the pod.
func (p *clientPod) bring(file, to string) {
	p.scene.t.Helper()
	program, err := os.ReadFile(file)
	if err != nil {
		p.scene.t.Fatal(err)
	}
	if _, err := p.feed(p.scene.t.Context(), string(program), "sh", "-c", fmt.Sprintf("cat >%s && chmod +x %[1]s", to)); err != nil {
		p.scene.t.Fatal(err)
	}
}

// feed runs a program in the pod, with something to read, and gives its output.
func (p *clientPod) feed(ctx context.Context, stdin string, command ...string) (string, error) {
	s := p.scene
	args := []string{"--context=" + p.cluster.id, "exec", "--stdin", p.name, "--namespace=" + s.namespace, "--"}
	return s.run(ctx, stdin, s.set.kubectl, append(args, command...)...)
}

// blast asks the questions for some time in a pod, or until it is enough. It gives way to all else that runs on the node: a probe that comes
// too late, because the clients are busy, says nothing of a server.
func (l *load) blast(ctx context.Context, asker *clientPod, d time.Duration) (r dnsload.Result, err error) {
	questions, err := json.Marshal(l.questions)
	if err != nil {
		return r, err
	}
	out, err := asker.feed(ctx, string(questions), "sh", "-c",
		fmt.Sprintf("echo $$ >/tmp/dnsload.pid; exec nice -n 19 /tmp/dnsload --server=%s --for=%s", l.server, d))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return r, fmt.Errorf("read the result of the questions: %w: %s", err, out)
	}
	return r, nil
}

// reportValue adds what was measured, of whatever kind it is, to the scene's line in the report.
func (s *scene) reportValue(what, value string) {
	line := fmt.Sprintf("  %s\t%s\n", what, value)
	s.t.Log(line)
	s.measured = append(s.measured, line)
}
