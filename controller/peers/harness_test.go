package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/apply"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/internal/reflector"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// home runs the Registry, which reads east. Tests break west, one after another.
var (
	home = kube.Shared{Prepare: func(ctx context.Context, c *kube.Cluster) error {
		return errors.Join(c.InstallCRDs(ctx, kube.BothVersions), c.Apply(ctx, "", homeRole))
	}}
	east = kube.Shared{Prepare: func(ctx context.Context, c *kube.Cluster) error {
		return errors.Join(c.InstallCRDs(ctx, kube.BothVersions), applyPeerRole(ctx, c))
	}}
	west = kube.Shared{Prepare: applyPeerRole}
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(kube.Main(m, &home, &east, &west))
}

// homeRole contains the permissions of a Registry in its own cluster, except for events.
const homeRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: registry}
rules:
- {apiGroups: [""], resources: [namespaces], verbs: [list, watch]}
- {apiGroups: [""], resources: [secrets], verbs: [list, watch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list]}
`

// applyPeerRole creates the role from deploy/peer, which is for the account that reads a cluster.
func applyPeerRole(ctx context.Context, c *kube.Cluster) error {
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "peer", "clusterrole.yaml"))
	if err != nil {
		return err
	}
	role, _, _ := strings.Cut(string(text), "\n---\n") // The bindings, and the right for the announcement, are those of each test.
	return c.Apply(ctx, "", role)
}

// leaseGoes waits until a peer has no Lease.
func (r *reader) leaseGoes(id string) {
	r.t.Helper()
	kube.Eventually(r.t, "the Lease goes", func() error {
		if _, err := r.leaseOf(id); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there, or: %w", err)
		}
		return nil
	})
}

// account returns a service account with a role, in a namespace of the test.
func account(t testing.TB, c *kube.Cluster, namespace, role string) *rest.Config {
	t.Helper()
	config, _, err := c.ServiceAccount(t.Context(), namespace, "reader")
	if err != nil {
		t.Fatal(err)
	}
	applyTo(t, c, "", fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[2]s}
subjects: [{kind: ServiceAccount, name: reader, namespace: %[1]s}]
`, namespace, role))
	return config
}

func applyTo(t testing.TB, c *kube.Cluster, namespace, text string) {
	t.Helper()
	if err := c.Apply(t.Context(), namespace, text); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, c *kube.Cluster, namespace, text string) {
	t.Helper()
	if err := c.Delete(t.Context(), namespace, text); err != nil {
		t.Fatal(err)
	}
}

// kubeconfig returns a configuration as a kubeconfig, with changes.
func kubeconfig(t testing.TB, config *rest.Config, change ...func(*api.Cluster, *api.AuthInfo)) []byte {
	t.Helper()
	cluster := &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	user := &api.AuthInfo{Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	for _, edit := range change {
		edit(cluster, user)
	}
	text, err := clientcmd.Write(api.Config{
		Clusters: map[string]*api.Cluster{"c": cluster}, AuthInfos: map[string]*api.AuthInfo{"u": user},
		Contexts: map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// clock is a real clock that can be set forward.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// reader is a Registry that runs in the home cluster, and a record of its callbacks and events.
type reader struct {
	*Registry
	t         testing.TB
	client    kubernetes.Interface // of an administrator of home
	namespace string
	clock     *clock
	stop      func()

	mu        sync.Mutex
	changed   map[types.NamespacedName]int
	onCall    func() // called with each change of a name; may be nil
	standings map[string]int
	events    []string
}

// place is the namespace of a reader in the home cluster.
type place struct {
	config     *rest.Config
	namespace  string
	probeEvery time.Duration
}

func newPlace(t testing.TB) place {
	t.Helper()
	c := home.Cluster(t)
	namespace := kube.Namespace(t, c)
	return place{account(t, c, namespace, "registry"), namespace, 200 * time.Millisecond} // short pauses between probes
}

// read starts a Registry, which runs until stop or the end of the test. The ID of its cluster is
// the name of the namespace.
func (p place) read(t testing.TB, change ...func(*Options)) *reader {
	t.Helper()
	r := &reader{
		t: t, client: kubernetes.NewForConfigOrDie(home.Cluster(t).Config), namespace: p.namespace, clock: &clock{},
		changed: map[types.NamespacedName]int{}, standings: map[string]int{},
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	o := p.options(ctx, r)
	for _, edit := range change {
		edit(&o)
	}
	set := New(o)
	set.probeEvery = p.probeEvery
	r.Registry = set
	set.OnChange(func(name types.NamespacedName) {
		r.mu.Lock()
		r.changed[name]++
		onCall := r.onCall
		r.mu.Unlock()
		if onCall != nil {
			onCall()
		}
	})
	set.OnState(func(cluster string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.standings[cluster]++
	})
	ended := make(chan error, 1)
	go func() { ended <- set.Start(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the Registry ended with: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the Registry does not end")
		}
	})
	t.Cleanup(r.stop)
	return r
}

// options returns options as the manager sets them. The cache runs until ctx ends.
func (p place) options(ctx context.Context, r *reader) Options {
	r.t.Helper()
	c, err := cache.New(p.config, cache.Options{NewInformer: newInformer, ByObject: map[client.Object]cache.ByObject{
		&coordinationv1.Lease{}: {Field: fields.OneTermEqualSelector("metadata.name", member.Name)},
		&corev1.Secret{}:        {Namespaces: map[string]cache.Config{p.namespace: {LabelSelector: labels.SelectorFromSet(labels.Set{mcs.LabelPeer: ""})}}},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	api, err := client.New(p.config, client.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	go func() { _ = c.Start(ctx) }()
	return Options{
		ExportsAll: true, Home: p.namespace, Namespace: p.namespace, UserAgent: "peers-test", Now: r.clock.now, Log: lastLines(r.t),
		Cache: c, Live: api, Writer: apply.PeerWriter{Client: api}, Events: r,
	}
}

// lastLines returns a log whose last lines are shown if the test fails.
func lastLines(t testing.TB) logr.Logger {
	const most = 20
	var mu sync.Mutex
	var lines []string
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if t.Failed() {
			t.Logf("the Registry logged last:\n%s", strings.Join(lines, "\n"))
		}
	})
	return funcr.New(func(_, text string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines[max(0, len(lines)-most+1):], text)
	}, funcr.Options{LogTimestamp: true, Verbosity: 1})
}

// newInformer creates informers as the manager does.
func newInformer(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(reflector.Versioned(lw), object, resync, indexers)
}

// Eventf implements events.EventRecorder.
func (r *reader) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := regarding.(*corev1.Secret)
	r.events = append(r.events, fmt.Sprintf("%s %s %s: %s", s.Name, kind, reason, fmt.Sprintf(note, args...)))
}

// told returns the reasons of the events on a peer, in order.
func (r *reader) told(id string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var reasons []string
	for _, e := range r.events {
		if of := strings.Fields(e); of[0] == id {
			reasons = append(reasons, strings.TrimSuffix(of[2], ":"))
		}
	}
	return reasons
}

func (r *reader) calls(name types.NamespacedName) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed[name]
}

// announcesItsID checks the ID that the cluster with the Registry announces.
func (r *reader) announcesItsID() error {
	got, err := announcedIn(r.t, home.Cluster(r.t), r.namespace)
	if err == nil && got.ID != r.namespace {
		err = fmt.Errorf("it announces %+v", got)
	}
	return err
}

// called waits for a call for a name. It comes a moment after the change that it is for can be seen.
func (r *reader) called(name types.NamespacedName, before int) {
	r.t.Helper()
	kube.Eventually(r.t, fmt.Sprintf("a call for %s", name), func() error {
		if r.calls(name) == before {
			return errors.New("there is none")
		}
		return nil
	})
}

// join creates or changes a peer's Secret.
func (r *reader) join(id string, kubeconfig []byte) {
	r.t.Helper()
	join(r.t, r.client, r.namespace, id, kubeconfig)
}

func join(t testing.TB, client kubernetes.Interface, namespace, id string, kubeconfig []byte) {
	t.Helper()
	secrets := client.CoreV1().Secrets(namespace)
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: id, Labels: map[string]string{mcs.LabelPeer: ""}},
		Data:       map[string][]byte{kubeconfigKey: kubeconfig},
	}
	_, err := secrets.Create(t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// leave removes a peer on purpose, as `kubectl multicluster leave` does.
func (r *reader) leave(id string) {
	r.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, annotationLeaving)
	if _, err := r.client.CoreV1().Secrets(r.namespace).Patch(r.t.Context(), id, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.lose(id)
}

// lose deletes a peer's Secret.
func (r *reader) lose(id string) {
	r.t.Helper()
	if err := r.client.CoreV1().Secrets(r.namespace).Delete(r.t.Context(), id, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *reader) leaseOf(id string) (*coordinationv1.Lease, error) {
	return r.client.CoordinationV1().Leases(r.namespace).Get(r.t.Context(), id, metav1.GetOptions{})
}

// is waits until the Lease of a peer has a condition.
func (r *reader) is(id, reason string, words ...string) {
	r.t.Helper()
	kube.Eventually(r.t, id+" is "+reason, func() error {
		l, err := r.leaseOf(id)
		if err != nil {
			return err
		}
		connected := conditionFalse
		if reason == Connected {
			connected = conditionTrue
		}
		message := l.Annotations[annotationMessage]
		if l.Labels[labelReason] != reason || l.Labels[labelConnected] != connected && reason != SecretMissing && reason != InvalidLimits && reason != Stale {
			return fmt.Errorf("%v, %q", l.Labels, message)
		}
		for _, word := range words {
			if !strings.Contains(message, word) {
				return fmt.Errorf("the message %q does not have %q", message, word)
			}
		}
		return nil
	})
}

// says waits until Snapshot returns these clusters for a name, unknown ones with a question mark:
// "east west ?north".
func (r *reader) says(name types.NamespacedName, want string) {
	r.t.Helper()
	kube.Eventually(r.t, fmt.Sprintf("%s is reported by %q", name, want), func() error {
		if got := r.said(name); got != want {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

func (r *reader) said(name types.NamespacedName) string {
	heard := r.Snapshot(name)
	var all []string
	for _, m := range heard.Active {
		all = append(all, m.Cluster)
	}
	for _, id := range heard.Unknown {
		all = append(all, "?"+id)
	}
	return strings.Join(all, " ")
}

// cluster is a namespace in a cluster that is read. The Lease in the namespace announces the cluster's ID.
type cluster struct {
	t testing.TB
	*kube.Cluster
	config        *rest.Config
	namespace, id string
}

// newCluster creates a cluster that announces an ID, unless the ID is "".
func newCluster(t testing.TB, s *kube.Shared, announced string) *cluster {
	t.Helper()
	c := &cluster{t: t, Cluster: s.Cluster(t)}
	c.namespace = kube.Namespace(t, c.Cluster)
	c.id = announced
	if announced == "own" {
		c.id = c.namespace
	}
	c.config = account(t, c.Cluster, c.namespace, "multicluster-peer")
	readsMember(t, c.Cluster, c.namespace, c.namespace)
	c.announce(c.id)
	return c
}

// announce announces an ID, or deletes the announcement for "".
func (c *cluster) announce(id string) {
	c.t.Helper()
	if id == "" {
		err := kubernetesOf(c.Config).CoordinationV1().Leases(c.namespace).Delete(c.t.Context(), member.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			c.t.Fatal(err)
		}
		return
	}
	c.announcing(func(a *member.Announcement) { a.ID = id })
}

func (c *cluster) announcing(change func(*member.Announcement)) {
	c.t.Helper()
	announceIn(c.t, c.Cluster, c.namespace, change)
}

// announceIn changes what the Lease in a namespace announces.
func announceIn(t testing.TB, c *kube.Cluster, namespace string, change func(*member.Announcement)) {
	t.Helper()
	api := kubernetesOf(c.Config)
	system, err := api.CoreV1().Namespaces().Get(t.Context(), systemNamespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leases := api.CoordinationV1().Leases(namespace)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		was, err := leases.Get(t.Context(), member.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		a := member.Read(was)
		a.UID = string(system.UID)
		change(&a)
		wanted, _ := a.Lease(namespace, time.Minute)
		if err == nil {
			wanted.ResourceVersion = was.ResourceVersion
			_, err = leases.Update(t.Context(), wanted, metav1.UpdateOptions{})
		} else {
			_, err = leases.Create(t.Context(), wanted, metav1.CreateOptions{})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// announcedIn returns what the Lease in a namespace announces.
func announcedIn(t testing.TB, c *kube.Cluster, namespace string) (member.Announcement, error) {
	t.Helper()
	l, err := kubernetesOf(c.Config).CoordinationV1().Leases(namespace).Get(t.Context(), member.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return member.Announcement{}, nil
	}
	return member.Read(l), err
}

// in returns a kubeconfig whose context has the namespace of the cluster.
func (c *cluster) in(kubeconfig []byte) []byte {
	c.t.Helper()
	text, err := clientcmd.Load(kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	text.Contexts[text.CurrentContext].Namespace = c.namespace
	out, err := clientcmd.Write(*text)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// reading returns a kubeconfig of another account with a role, which can also read the announcement.
func (c *cluster) reading(role string) []byte {
	c.t.Helper()
	namespace := kube.Namespace(c.t, c.Cluster)
	config := account(c.t, c.Cluster, namespace, role)
	readsMember(c.t, c.Cluster, c.namespace, namespace)
	return c.in(kubeconfig(c.t, config))
}

// readsMember lets an account read the announcement in a namespace.
func readsMember(t testing.TB, c *kube.Cluster, of, accounts string) {
	t.Helper()
	applyTo(t, c, of, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: member}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [multicluster-member], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: member-%[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: member}
subjects: [{kind: ServiceAccount, name: reader, namespace: %[1]s}]
`, accounts))
}

func (c *cluster) name(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.namespace, Name: name}
}

// export creates an export and a slice that describes its Service, as the cluster's own controller does.
func (c *cluster) export(version, name string) {
	c.t.Helper()
	applyTo(c.t, c.Cluster, c.namespace, fmt.Sprintf(`
apiVersion: multicluster.x-k8s.io/%[2]s
kind: ServiceExport
metadata: {name: %[1]s}
---
%[3]s`, name, version, c.slice(name, "10.1.0.1", c.id)))
}

func (c *cluster) slice(name, address, source string) string {
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: %[1]s-slice
  labels:
    multicluster.kubernetes.io/service-name: %[1]s
    multicluster.kubernetes.io/source-cluster: %[3]s
    endpointslice.kubernetes.io/managed-by: multicluster-controller
  annotations: {clusterset-dns.io/terms: '{"Type":"ClusterSetIP","Ports":[{"name":"http","protocol":"TCP","port":80}],"Affinity":"None","InternalPolicy":"Cluster"}'}
addressType: IPv4
endpoints: [{addresses: [%[2]s], nodeName: node-1, zone: zone-1, targetRef: {kind: Pod, name: p}}]
ports: [{name: http, port: 8080, protocol: TCP}]
`, name, address, source)
}

func (c *cluster) unexport(version, name string) {
	c.t.Helper()
	remove(c.t, c.Cluster, c.namespace, fmt.Sprintf("apiVersion: multicluster.x-k8s.io/%s\nkind: ServiceExport\nmetadata: {name: %s}", version, name))
}

func addresses(m merge.Member) []string {
	var all []string
	for _, s := range m.Slices {
		for _, e := range s.Endpoints {
			all = append(all, e.Addresses...)
		}
	}
	slices.Sort(all)
	return all
}

// announces checks the ID that the cluster announces.
func (c *cluster) announces(id string) error {
	got, err := announcedIn(c.t, c.Cluster, c.namespace)
	if err == nil && got.ID != id {
		err = fmt.Errorf("it announces %+v", got)
	}
	return err
}

func kubernetesOf(config *rest.Config) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(config)
}
