package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

func (s *scene) releaseIsUninstalled() {
	t := s.t
	from, left := s.clusters[0], s.clusters[1]
	s.deploy(from, workload{name: "web", replicas: 1})
	s.expose(from, "web", plainly)
	s.export(from, "web")
	client := s.client(left, "client")
	client.leadsTo(s.fqdn("web"), from)
	s.undo = append(s.undo, func(ctx context.Context) error { return s.installAgain(ctx, left) })
	requests := client.flow(s.fqdn("web"), 5*time.Second)

	for _, line := range linesToLeave(t) {
		t.Logf("%s $ %s", left.id, line)
		words := strings.Fields(line)
		program, at := s.set.kubectl, "--context="
		if words[0] == "helm" {
			program, at = s.helm, "--kube-context="
		}
		if _, err := s.run(t.Context(), "", program, append(words[1:], at+left.id)...); err != nil {
			t.Fatal(err)
		}
	}

	requests.goesOn(10)
	all := requests.stop()
	s.answered("the release is uninstalled", all, 10)
	s.report("longest time from the begin of one request to that of the next", longestGap(all, from))
	client.reaches(s.fqdn("web"), from.id)
	for _, gone := range []string{"deployments,serviceaccounts,services --namespace=" + system, "clusterroles", "clusterrolebindings"} {
		args := append([]string{"get", "-l", "app.kubernetes.io/instance=" + release, "-o", "name"}, strings.Fields(gone)...)
		names := strings.Fields(s.kubectl(left, args...))
		if rest := slices.DeleteFunc(names, func(name string) bool { return strings.Contains(name, "/multicluster-dns") }); len(rest) > 0 {
			t.Errorf("after the release there are still %v", rest)
		}
	}
}

func (s *scene) namespaceIsDeleted() {
	t := s.t
	from, left := s.clusters[0], s.clusters[1]
	for _, name := range []string{"web", "later"} {
		s.deploy(from, workload{name: name, replicas: 1})
		s.expose(from, name, plainly)
	}
	s.export(from, "web")
	client := s.client(left, "client")
	client.leadsTo(s.fqdn("web"), from)
	identity := func() string {
		return s.kubectl(left, "get", "serviceimport/web", "-o", "jsonpath={.metadata.uid} {.spec.ips}")
	}
	before := identity()
	installAgain := s.later(func(ctx context.Context) error { return errors.Join(left.install(ctx, bySearch), s.join(ctx)) })
	requests := client.flow(s.fqdn("web"), 5*time.Second)

	if _, err := left.kubectl(t.Context(), "delete", "namespace", system, "--timeout=2m"); err != nil {
		t.Fatal(err)
	}
	requests.goesOn(10)
	if got := identity(); got != before {
		t.Errorf("without the namespace, the import is %s; it was %s", got, before)
	}
	installAgain()
	s.export(from, "later") // shows that the new controller works
	client.leadsTo(s.fqdn("later"), from)
	if got := identity(); got != before {
		t.Errorf("after another installation, the import is %s; it was %s", got, before)
	}
	s.answered("the namespace is deleted", requests.stop(), 10)
}

// linesToLeave are those that hand the cluster's DNS on, and then those of the steps 3 and 4.
func linesToLeave(t testing.TB) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(section(t, "docs/operations/uninstall.md", "## The cluster's DNS, after `replace`")) {
		if strings.HasPrefix(line, "    ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	text, err := os.ReadFile(filepath.Join(binaries.Root(), "docs", "operations", "uninstall.md"))
	if err != nil {
		t.Fatal(err)
	}
	steps := stepsOf(string(text))
	isLine := func(code string) bool {
		return strings.HasPrefix(code, "kubectl -n multicluster-system ") || strings.HasPrefix(code, "helm ")
	}
	for _, code := range slices.Concat(steps[2], steps[3]) {
		if isLine(code) {
			lines = append(lines, code)
		}
	}
	if len(lines) != 6 || !strings.HasPrefix(lines[5], "helm uninstall ") {
		t.Fatalf("docs/operations/uninstall.md has the lines %q; this test knows of 6, of which helm uninstall is the last", lines)
	}
	return lines
}

// installAgain takes over what has been handed on, and joins the cluster once more: its peers' account went with the release.
func (s *scene) installAgain(ctx context.Context, c *cluster) error {
	if err := c.install(ctx, bySearch); err != nil { // Makes what is not there, whatever went wrong before.
		return err
	}
	for _, kept := range []string{"service/kube-dns deployment/coredns configmap/coredns serviceaccount/coredns --namespace=kube-system",
		"clusterrole/multicluster-dns clusterrole/multicluster-dns:kubernetes clusterrolebinding/multicluster-dns:coredns clusterrolebinding/multicluster-dns:kubernetes"} {
		if _, err := c.kubectl(ctx, append(append([]string{"annotate"}, strings.Fields(kept)...), "helm.sh/resource-policy-")...); err != nil {
			return err
		}
	}
	return s.join(ctx)
}
