package karmada

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/clusterset-dns/multicluster/test/clusters"
	"github.com/clusterset-dns/multicluster/test/clusters/images"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// member is a cluster with pods, whose CoreDNS has the plugin, and which runs our controller.
type member struct {
	place
	cluster *clusters.Cluster
}

// The images' names: deploy/controller has the second one.
const (
	coreDNS    = "registry.invalid/clusterset-dns/coredns:latest"
	controller = "registry.invalid/clusterset-dns/multicluster-controller:latest"
)

// startMembers starts member1 and member2. The names of the clusters on this machine differ, so that no other test's are removed.
func startMembers(t *testing.T) []*member {
	t.Helper()
	indexes, err := clusters.FreeIndexes(t.Context(), 2, func(int) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var archives [2]string
	var members [2]*member
	all, ctx := errgroup.WithContext(t.Context())
	for i, image := range []struct{ name, program string }{{coreDNS, "coredns"}, {controller, "multicluster-controller"}} {
		program, err := binaries.Program(image.program)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = filepath.Join(dir, image.program+".tar")
		all.Go(func() error { return images.OfProgram(ctx, archives[i], image.name, program) })
	}
	for i, index := range indexes {
		all.Go(func() error {
			c, err := clusters.Start(ctx, clusters.Options{Name: fmt.Sprintf("karmada%d", i+1), Index: index})
			if err == nil {
				members[i] = &member{place{fmt.Sprintf("member%d", i+1), c.Kubeconfig}, c}
			}
			return err
		})
	}
	err = all.Wait()
	for _, m := range members {
		if m != nil {
			t.Cleanup(func() { m.end(t) })
		}
	}
	for _, m := range members {
		for _, archive := range archives {
			if err == nil {
				err = m.cluster.Load(t.Context(), archive)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return members[:]
}

func (m *member) end(t *testing.T) {
	if t.Failed() {
		ctx := context.WithoutCancel(t.Context())
		for _, args := range [][]string{
			{"get", "pods,services,serviceexports,serviceimports,endpointslices,events", "--output", "wide"},
			{"get", "pods", "--all-namespaces"},
			{"logs", "--namespace=multicluster-system", "--selector=app.kubernetes.io/name=multicluster-controller", "--tail=15"},
			{"logs", "--namespace=kube-system", "--selector=k8s-app=kube-dns", "--tail=15"},
		} {
			out, err := m.try(ctx, args...)
			t.Logf("%s $ kubectl %s\n%s%v", m.name, strings.Join(args, " "), out, err)
		}
	}
	if err := m.cluster.Stop(); err != nil {
		t.Error(err)
	}
}

// install brings CoreDNS with the plugin, as the cluster's own, and the controller.
func (m *member) install(t *testing.T) {
	t.Helper()
	corefile, err := os.ReadFile(filepath.Join(binaries.Root(), "corefile-examples", "alias.Corefile"))
	if err != nil {
		t.Fatal(err)
	}
	m.kubectl(t, "apply", "--kustomize", "deploy/plugin/cluster-coredns")
	m.kubectl(t, "apply", "--kustomize", "deploy/controller")
	m.apply(t, binaries.KubeadmCoreDNS(m.cluster.DNS, coreDNS, string(corefile)))
}

// join lets Karmada's control plane write to the member, as `karmadactl join` does.
func (m *member) join(t *testing.T, h *host) {
	t.Helper()
	m.apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: karmada-cluster}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: karmada, namespace: karmada-cluster}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: karmada}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: karmada, namespace: karmada-cluster}]
`)
	token := strings.TrimSpace(m.kubectl(t, "create", "token", "karmada", "--namespace=karmada-cluster", "--duration=24h"))
	uid := m.kubectl(t, "get", "namespace", "kube-system", "--output=jsonpath={.metadata.uid}")
	h.apply(t, strings.NewReplacer("NAME", m.name, "TOKEN", token, "UID", uid, "HOST", m.cluster.Config.Host).Replace(`
apiVersion: v1
kind: Secret
metadata: {name: NAME, namespace: karmada-cluster}
stringData: {token: TOKEN}
---
apiVersion: v1
kind: Secret
metadata: {name: NAME-impersonator, namespace: karmada-cluster}
stringData: {token: TOKEN}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: NAME}
spec:
  id: UID
  syncMode: Push
  apiEndpoint: HOST
  insecureSkipTLSVerification: true
  secretRef: {namespace: karmada-cluster, name: NAME}
  impersonatorSecretRef: {namespace: karmada-cluster, name: NAME-impersonator}
`))
}

// awaitPods waits until CoreDNS and the controller are ready.
func (m *member) awaitPods(t *testing.T) {
	t.Helper()
	for _, deployment := range []string{"kube-system/coredns", "multicluster-system/multicluster-controller"} {
		namespace, name, _ := strings.Cut(deployment, "/")
		m.kubectl(t, "rollout", "status", "deployment/"+name, "--namespace="+namespace, "--timeout=2m")
	}
}

// wantNone reports an error if there is such an object.
func (p place) wantNone(ctx context.Context, object string) error {
	name, err := p.get(ctx, object, "{.metadata.name}")
	if err == nil && name != "" {
		err = errors.New(p.name + " has the " + object)
	}
	return err
}
