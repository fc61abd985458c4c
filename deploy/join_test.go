package deploy

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/deploy/peer"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

// joining is a machine of somebody who joins clusters: deploy/join.sh, a kubeconfig with a context for each cluster, and kubectl.
type joining struct {
	clusters map[string]*controlplane.Cluster // by context, which is also the cluster's id
	env      []string
	path     string // of env
	temp     string // for temporary files
	seen     string // all arguments of each kubectl
}

// newJoining starts two clusters, without a controller manager. Its kubectl writes down its arguments, as others on the machine could.
func newJoining(t *testing.T) *joining {
	t.Helper()
	programs, err := controlplane.Build(t.Context(), os.Stderr, "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	j := &joining{clusters: map[string]*controlplane.Cluster{}, temp: t.TempDir(), seen: filepath.Join(dir, "seen")}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	j.path = bin + ":" + os.Getenv("PATH")
	j.env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+j.path, "TMPDIR="+j.temp)
	wrapper := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$*\" >>'%s'\nexec '%s' \"$@\"\n", j.seen, programs["kubectl"])
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte(wrapper), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"member1", "member2"} {
		j.clusters[name] = controlplane.New(t, controlplane.Options{})
	}
	file := controlplane.Contexts(j.clusters)
	insecure := file.Clusters["member1"].DeepCopy()
	insecure.CertificateAuthorityData, insecure.InsecureSkipTLSVerify = nil, true
	file.Clusters["insecure"] = insecure
	file.Contexts["insecure"] = &api.Context{Cluster: "insecure", AuthInfo: "member1"}
	named := file.Clusters["member1"].DeepCopy()
	named.TLSServerName = "kubernetes.default.svc"
	file.Clusters["named"] = named
	file.Contexts["named"] = &api.Context{Cluster: "named", AuthInfo: "member1"}
	file.Clusters["dead"] = &api.Cluster{Server: "https://127.0.0.1:1", InsecureSkipTLSVerify: true}
	file.Contexts["dead"] = &api.Context{Cluster: "dead", AuthInfo: "member1"}
	if err := clientcmd.WriteToFile(*file, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return j
}

// run runs deploy/join.sh and returns its output.
func (j *joining) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "./join.sh", args...)
	cmd.Env = j.env
	out, err := cmd.CombinedOutput()
	if left, lerr := os.ReadDir(j.temp); lerr != nil || len(left) > 0 {
		t.Errorf("join.sh left files: %v, %v", left, lerr)
	}
	if strings.Contains(string(out), "Warning:") {
		t.Errorf("join.sh %s: kubectl warns, which reads like an error:\n%s", strings.Join(args, " "), out)
	}
	return string(out), err
}

// succeed runs it, and wants each of the texts in its output.
func (j *joining) succeed(t *testing.T, args []string, says ...string) {
	t.Helper()
	out, err := j.run(t, args...)
	if err != nil {
		t.Fatalf("join.sh %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, text := range says {
		if !strings.Contains(out, text) {
			t.Errorf("join.sh %s: the output is\n%s\nwant %q", strings.Join(args, " "), out, text)
		}
	}
}

func (j *joining) client(name string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(j.clusters[name].Config)
}

// announce does what a controller does with its id; an empty one is taken back.
func (j *joining) announce(t *testing.T, context, id string) {
	t.Helper()
	value := `"` + id + `"`
	if id == "" {
		value = "null"
	}
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, mcs.AnnotationClusterID, value)
	_, err := j.client(context).CoreV1().Namespaces().Patch(t.Context(), system, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// peers are the Secrets from which a controller in that cluster would learn of its peers.
func (j *joining) peers(t *testing.T, context string) map[string]corev1.Secret {
	t.Helper()
	list, err := j.client(context).CoreV1().Secrets(system).List(t.Context(), metav1.ListOptions{LabelSelector: mcs.LabelPeer})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]corev1.Secret{}
	for _, secret := range list.Items {
		all[secret.Name] = secret
	}
	return all
}

// peer is how the cluster of a context would read the one with an id.
func (j *joining) peer(t *testing.T, context, id string) *rest.Config {
	t.Helper()
	secret, ok := j.peers(t, context)[id]
	if !ok {
		t.Fatalf("%s has no peer %s", context, id)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// tokens are the names of the Secrets with tokens in that cluster.
func (j *joining) tokens(t *testing.T, context string) []string {
	t.Helper()
	list, err := j.client(context).CoreV1().Secrets(system).List(t.Context(), metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, secret := range list.Items {
		names = append(names, secret.Name)
	}
	return names
}

// versions are the resource versions of everything that join.sh makes, in both clusters.
func (j *joining) versions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name := range j.clusters {
		client, note := j.client(name), func(object metav1.Object, err error) {
			if err != nil {
				t.Fatal(err)
			}
			all[fmt.Sprintf("%s %T %s", name, object, object.GetName())] = object.GetResourceVersion()
		}
		note(client.CoreV1().ServiceAccounts(system).Get(t.Context(), peerAccount, metav1.GetOptions{}))
		note(client.RbacV1().ClusterRoles().Get(t.Context(), peerAccount, metav1.GetOptions{}))
		note(client.RbacV1().ClusterRoleBindings().Get(t.Context(), peerAccount, metav1.GetOptions{}))
		secrets, err := client.CoreV1().Secrets(system).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(secrets.Items) != 2 {
			t.Fatalf("%s has %d Secrets, %v; want one of a peer and one for a peer", name, len(secrets.Items), err)
		}
		for i := range secrets.Items {
			note(&secrets.Items[i], nil)
		}
	}
	return all
}

// TestJoin joins two clusters, uses what came of it, and parts them, in an order in which each step needs those before it.
func TestJoin(t *testing.T) {
	j := newJoining(t)
	t.Run("it explains itself", func(t *testing.T) {
		j.succeed(t, []string{"--help"}, "join.sh [OPTION]... FROM TO", "--leave", "--server URL")
	})
	t.Run("without a controller in FROM", func(t *testing.T) {
		j.refuses(t, []string{"member1", "member2"}, "no namespace multicluster-system in member1", "kubectl --context member1 apply -k deploy/controller")
	})
	for _, c := range j.clusters {
		kubectl(t, c, "apply", "-k", "deploy/crd")
		kubectl(t, c, "apply", "-k", "deploy/controller")
	}
	t.Run("errors", j.errors)
	t.Run("without a token controller", func(t *testing.T) {
		j.refuses(t, []string{"--timeout", "1", "member1", "member2"}, "has no token after 1 s", "serviceaccount-token-controller")
		if peers := j.peers(t, "member2"); len(peers) > 0 {
			t.Errorf("there is a peer without a token: %v", peers)
		}
	})
	for _, c := range j.clusters {
		if err := c.StartControllers(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("joined", j.joined)
	t.Run("again", j.again)
	t.Run("another address", j.anotherAddress)
	t.Run("access taken back", j.accessTakenBack)
	t.Run("a new account", j.newAccount)
	t.Run("a Secret of somebody else", j.foreignSecret)
	t.Run("one of two readers leaves", j.oneReaderLeaves)
	t.Run("one of two clusters leaves for good", j.leftForGood)
	t.Run("a Secret is marked before it is deleted", j.marked)
	t.Run("left", j.left)
	t.Run("a cluster that is no more", j.deadCluster)
	t.Run("an account of the chart", j.accountOfTheChart)
}

// refuses runs it, and wants an error that has all the texts.
func (j *joining) refuses(t *testing.T, args []string, says ...string) {
	t.Helper()
	out, err := j.run(t, args...)
	if err == nil {
		t.Fatalf("join.sh %s succeeded:\n%s", strings.Join(args, " "), out)
	}
	for _, text := range says {
		if !strings.Contains(out, text) {
			t.Errorf("join.sh %s: the output is\n%s\nwant %q", strings.Join(args, " "), out, text)
		}
	}
}

// errors are all before anything is written (C34, C51, C53).
func (j *joining) errors(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, c := range []struct {
		name, id1, id2 string // ids that the controllers announce
		args           []string
		says           []string
	}{
		{name: "one context", args: []string{"member1"}, says: []string{"FROM and TO"}},
		{name: "three contexts", args: []string{"member1", "member2", "member3"}, says: []string{"member3"}},
		{name: "an unknown option", args: []string{"--frmo", "member1", "member2"}, says: []string{"unknown option --frmo", "--help"}},
		{name: "an option without its value", args: []string{"member1", "member2", "--id"}, says: []string{"--id needs a value"}},
		{name: "a timeout in words", args: []string{"--timeout", "soon", "member1", "member2"}, says: []string{"seconds", "soon"}},
		{name: "an unknown context", args: []string{"member1", "member3"}, says: []string{"no context «member3»", "it has: dead insecure member1 member2 named"}},
		{name: "a cluster that does not answer", args: []string{"dead", "member2"}, says: []string{"cannot reach the cluster of context dead"}},
		{name: "FROM's id not announced", args: []string{"member1", "member2"}, says: []string{"controller in member1 does not announce", "--cluster-id", "set the ID with --id"}},
		{name: "TO's id not announced", id1: "member1", args: []string{"member1", "member2"}, says: []string{"controller in member2 does not announce", "set the ID with --to-id"}},
		{name: "another id given than announced", id1: "member1", id2: "member2", args: []string{"--id", "member7", "member1", "member2"}, says: []string{"announces the ID member1", "--id is member7"}},
		{name: "an invalid ID", id2: "member2", args: []string{"--id", "Member_1", "member1", "member2"}, says: []string{"invalid cluster ID «Member_1» of member1"}},
		{name: "an id with an empty label", id2: "member2", args: []string{"--id", "a..b", "member1", "member2"}, says: []string{"invalid cluster ID «a..b» of member1"}},
		{name: "an invalid announced ID", id1: "member1", id2: "-", args: []string{"member1", "member2"}, says: []string{"invalid cluster ID «-» of member2"}},
		{name: "an id too long for a label", id2: "member2", args: []string{"--id", long, "member1", "member2"}, says: []string{"has 64 characters", "the limit is 63"}},
		{name: "a cluster and itself", id1: "member1", args: []string{"member1", "member1"}, says: []string{"are the same cluster, member1"}},
		{name: "a cluster and itself by another context", id1: "member1", args: []string{"member1", "insecure"}, says: []string{"are the same cluster, member1"}},
		{name: "a duplicate id", id1: "member1", id2: "member1", args: []string{"member1", "member2"}, says: []string{"two clusters with the same ID member1", "--cluster-id"}},
		{name: "no authority in the kubeconfig", id1: "member1", id2: "member2", args: []string{"insecure", "member2"}, says: []string{"no certificate authority for insecure", "--ca"}},
		{name: "an invalid authority", id1: "member1", id2: "member2", args: []string{"--ca", "README.md", "insecure", "member2"}, says: []string{"README.md is not a certificate in PEM"}},
		{name: "a server without TLS", id1: "member1", id2: "member2", args: []string{"--server", "http://192.0.2.1:8080", "member1", "member2"}, says: []string{"http://192.0.2.1:8080", "is not an https:// URL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j.announce(t, "member1", c.id1)
			j.announce(t, "member2", c.id2)
			j.refuses(t, c.args, c.says...)
			for context := range j.clusters {
				if peers, tokens := j.peers(t, context), j.tokens(t, context); len(peers)+len(tokens) > 0 {
					t.Errorf("%s has the peers %v and the tokens %v", context, peers, tokens)
				}
			}
		})
	}
	j.announce(t, "member1", "member1")
	j.announce(t, "member2", "member2")
}

// joined: one line each way, and each reads of the other what it needs, and nothing else.
func (j *joining) joined(t *testing.T) {
	const warning = "is an address of this machine"
	j.succeed(t, []string{"member1", "member2"}, warning, "member2 reads member1", "kubectl --context member2 get leases")
	j.succeed(t, []string{"member2", "member1"}, warning, "member1 reads member2", "kubectl --context member1 get leases")
	for to, from := range map[string]string{"member2": "member1", "member1": "member2"} {
		if names := slices.Collect(maps.Keys(j.peers(t, to))); !slices.Equal(names, []string{from}) {
			t.Errorf("%s has the peers %v", to, names)
		}
		if names := j.tokens(t, from); !slices.Equal(names, []string{"multicluster-peer-" + to}) {
			t.Errorf("%s has the tokens %v", from, names)
		}
		config := j.peer(t, to, from)
		if config.Host != j.clusters[from].Config.Host {
			t.Errorf("the peer %s of %s is at %s", from, to, config.Host)
		}
		reads(t, config)
		isRefused(t, config)
		j.keepsItsSecret(t, to, from, config.BearerToken)
		j.makesTheSecretOfThePackage(t, from, to)
	}
}

// makesTheSecretOfThePackage: the Secret with the token is that of peer.TokenSecret, so it does not matter who made it.
func (j *joining) makesTheSecretOfThePackage(t *testing.T, from, to string) {
	t.Helper()
	want, err := peer.TokenSecret(to)
	if err != nil {
		t.Fatal(err)
	}
	got, err := j.client(from).CoreV1().Secrets(want.GetNamespace()).Get(t.Context(), want.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account := got.Annotations[corev1.ServiceAccountNameKey]
	if got.Labels[peer.LabelReader] != want.GetLabels()[peer.LabelReader] || account != want.GetAnnotations()[corev1.ServiceAccountNameKey] {
		t.Errorf("the Secret of %s has the labels %v, the annotations %v", to, got.Labels, got.Annotations)
	}
}

// keepsItsSecret: the token stands in the Secret's data, and nowhere else.
func (j *joining) keepsItsSecret(t *testing.T, to, from, token string) {
	t.Helper()
	if token == "" {
		t.Fatal("there is no token")
	}
	seen, err := os.ReadFile(j.seen)
	if err != nil {
		t.Fatal(err)
	}
	again, err := j.run(t, from, to)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(seen), token) || strings.Contains(again, token) {
		t.Error("the token was an argument, or was printed")
	}
	if !strings.Contains(string(seen), "apply --server-side") {
		t.Errorf("kubectl was not looked at: %s", seen)
	}
	if annotations := j.peers(t, to)[from].Annotations; len(annotations) > 0 {
		t.Errorf("annotations %v; the token may be in one", annotations)
	}
}

func (j *joining) again(t *testing.T) {
	before := j.versions(t)
	j.succeed(t, []string{"member1", "member2"})
	j.succeed(t, []string{"member2", "member1"})
	if after := j.versions(t); !maps.Equal(before, after) {
		t.Errorf("changed, without need: %v, formerly %v", after, before)
	}
}

// anotherAddress: --server and --ca go into the peer's kubeconfig, as does the name that a certificate is checked for, and a warning is
// given for an address of loopback only.
func (j *joining) anotherAddress(t *testing.T) {
	const elsewhere = "https://192.0.2.1:6443"
	config := j.clusters["member1"].Config
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, config.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := j.run(t, "--server", elsewhere, "--ca", ca, "insecure", "member2")
	if err != nil || strings.Contains(out, "warning") {
		t.Fatalf("%v: %s", err, out)
	}
	peer := j.peer(t, "member2", "member1")
	if peer.Host != elsewhere || string(peer.CAData) != string(config.CAData) {
		t.Errorf("the peer is at %s, with the authority %s", peer.Host, peer.CAData)
	}
	j.succeed(t, []string{"named", "member2"})
	if peer := j.peer(t, "member2", "member1"); peer.Host != config.Host || peer.ServerName != "kubernetes.default.svc" {
		t.Errorf("the peer is at %s, with the name %q", peer.Host, peer.ServerName)
	}
	reads(t, j.peer(t, "member2", "member1"))
	j.succeed(t, []string{"member1", "member2"})
	if peer := j.peer(t, "member2", "member1"); peer.Host != config.Host || peer.ServerName != "" {
		t.Errorf("the peer is at %s, with the name %q", peer.Host, peer.ServerName)
	}
}

// accessTakenBack: deleting the Secret in FROM voids the token; joining again gives another.
func (j *joining) accessTakenBack(t *testing.T) {
	former := j.peer(t, "member2", "member1")
	err := j.client("member1").CoreV1().Secrets(system).Delete(t.Context(), "multicluster-peer-member2", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	isVoid(t, former)
	j.succeed(t, []string{"member1", "member2"})
	reads(t, j.peer(t, "member2", "member1"))
	reads(t, j.peer(t, "member1", "member2"))
}

// isVoid waits until the API server takes a token no longer: it goes by what it knew for ten seconds.
func isVoid(t *testing.T, config *rest.Config) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(config)
	controlplane.Eventually(t, "the token is void", func() error {
		_, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
		if apierrors.IsUnauthorized(err) {
			return nil
		}
		return errors.Join(errors.New("it can be used"), err)
	})
}

// newAccount: a token is the one account's only, not that of another of its name.
func (j *joining) newAccount(t *testing.T) {
	kubectl(t, j.clusters["member1"], "delete", "-k", peerBase)
	j.succeed(t, []string{"member1", "member2"})
	controlplane.Eventually(t, "read with the new account's token", func() error {
		_, err := kubernetes.NewForConfigOrDie(j.peer(t, "member2", "member1")).CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
		return err
	})
}

// foreignSecret: one that has the name by chance stays as it is, and stays when leaving.
func (j *joining) foreignSecret(t *testing.T) {
	secrets := j.client("member2").CoreV1().Secrets(system)
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "member3"}, StringData: map[string]string{"kubeconfig": "mine"}}
	mine, err := secrets.Create(t.Context(), mine, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	j.announce(t, "member1", "member3")
	j.refuses(t, []string{"member1", "member2"}, "a Secret multicluster-system/member3 without the label "+mcs.LabelPeer)
	if _, err := j.run(t, "--leave", "--id", "member3", "--to-id", "nobody", "member1", "member2"); err != nil {
		t.Error(err)
	}
	still, err := secrets.Get(t.Context(), "member3", metav1.GetOptions{})
	if err != nil || still.ResourceVersion != mine.ResourceVersion {
		t.Errorf("%v, %v; want it as it was", still, err)
	}
	j.announce(t, "member1", "member1")
	if err := secrets.Delete(t.Context(), "member3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// oneReaderLeaves: each reader has a token of its own, and the account is there for the others.
func (j *joining) oneReaderLeaves(t *testing.T) {
	first := j.peer(t, "member2", "member1")
	j.announce(t, "member2", "member3")
	j.succeed(t, []string{"member1", "member2"}, "multicluster-peer-member3")
	reads(t, j.peer(t, "member2", "member1"))
	j.succeed(t, []string{"--leave", "member1", "member2"}, "The token of member3 is no longer valid")
	if names := j.tokens(t, "member1"); !slices.Equal(names, []string{"multicluster-peer-member2"}) {
		t.Errorf("member1 has the tokens %v", names)
	}
	reads(t, first)
	j.announce(t, "member2", "member2")
	j.succeed(t, []string{"member1", "member2"})
}

// leaveLine is one that uninstall.md shows.
var leaveLine = regexp.MustCompile(`(?m)^ +deploy/join\.sh (--leave .*)$`)

// leftForGood: by the lines that uninstall.md shows nothing of the one cluster remains in the other, its credential above all, and nothing of
// the other in the one.
func (j *joining) leftForGood(t *testing.T) {
	const this, other = "member1", "member2"
	former := j.peer(t, this, other)
	reads(t, former)
	text, err := os.ReadFile("../docs/operations/uninstall.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range leaveLine.FindAllStringSubmatch(string(text), -1) {
		j.succeed(t, strings.Fields(strings.NewReplacer("<this>", this, "<other>", other).Replace(line[1])))
	}
	for context := range j.clusters {
		if peers, tokens := j.peers(t, context), j.tokens(t, context); len(peers)+len(tokens) > 0 {
			t.Errorf("%s has the peers %v and the tokens %v", context, peers, tokens)
		}
		j.hasNoAccount(t, context)
	}
	isVoid(t, former)
	j.succeed(t, []string{this, other})
	j.succeed(t, []string{other, this})
}

// marked: the controller takes a Secret that is deleted without the mark for an accident. Who joins again takes the mark away.
func (j *joining) marked(t *testing.T) {
	secrets := j.client("member2").CoreV1().Secrets(system)
	patch := []byte(`{"metadata": {"annotations": {"clusterset-dns.io/leaving": "true"}}}`)
	if _, err := secrets.Patch(t.Context(), "member1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	leases := j.client("member2").CoordinationV1().Leases(system)
	_, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "member1", Labels: map[string]string{mcs.LabelPeer: ""}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	onLease := func(want string) {
		t.Helper()
		if lease, err := leases.Get(t.Context(), "member1", metav1.GetOptions{}); err != nil || lease.Annotations["clusterset-dns.io/leaving"] != want {
			t.Errorf("the Lease has the annotations %v, want the mark %q: %v", lease.Annotations, want, err)
		}
	}
	j.succeed(t, []string{"member1", "member2"})
	joined := j.peers(t, "member2")["member1"]
	if len(joined.Annotations) > 0 {
		t.Errorf("joined again, the Secret has the annotations %v", joined.Annotations)
	}
	watched, err := secrets.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=member1", ResourceVersion: joined.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	j.succeed(t, []string{"--leave", "member1", "member2"})
	onLease("true")
	for event := range watched.ResultChan() {
		if event.Type != watch.Deleted {
			continue
		}
		if got := event.Object.(*corev1.Secret).Annotations["clusterset-dns.io/leaving"]; got != "true" {
			t.Errorf("the Secret was deleted with the mark %q", got)
		}
		break
	}
	j.succeed(t, []string{"member1", "member2"})
	onLease("")
	if err := leases.Delete(t.Context(), "member1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (j *joining) hasNoAccount(t *testing.T, context string) {
	t.Helper()
	for _, kind := range []string{"serviceaccount", "clusterrole", "clusterrolebinding"} {
		args := []string{"get", kind, "--ignore-not-found", "--output=name", "--namespace=" + system, peerAccount}
		if out := kubectl(t, j.clusters[context], args...); out != "" {
			t.Errorf("%s has %s", context, out)
		}
	}
}

// left: nothing remains of the one direction; the other still works, and the controllers' namespaces stand.
func (j *joining) left(t *testing.T) {
	const kinds = "serviceaccounts,roles,rolebindings,clusterrolebindings"
	applied(t, j.clusters["member1"], readerObjects(t, "member4")...)
	j.succeed(t, []string{"--leave", "member1", "member2"}, "member2 no longer reads member1", "The token of member2 is no longer valid")
	kubectl(t, j.clusters["member1"], "get", "clusterrole", peerAccount) // member4 needs it
	kubectl(t, j.clusters["member1"], "delete", kinds, "-n", system, "-l", peer.LabelReader)
	j.succeed(t, []string{"--leave", "member1", "member2"}, "the account multicluster-peer is deleted")
	if peers, tokens := j.peers(t, "member2"), j.tokens(t, "member1"); len(peers)+len(tokens) > 0 {
		t.Errorf("peers %v and tokens %v are left", peers, tokens)
	}
	j.hasNoAccount(t, "member1")
	reads(t, j.peer(t, "member1", "member2"))
	j.succeed(t, []string{"--leave", "member1", "member2"}) // where there is nothing left
	kubectl(t, j.clusters["member1"], "get", "namespace", system)
}

// deadCluster: who leaves a cluster that is no more tidies up the side that is there, and hears of the other.
func (j *joining) deadCluster(t *testing.T) {
	j.refuses(t, []string{"--leave", "dead", "member1"}, "cannot reach the cluster of context dead")
	j.refuses(t, []string{"--leave", "--id", "member2", "dead", "member1"}, "member1 no longer reads member2",
		"kubectl --context dead delete secret -n multicluster-system multicluster-peer-member1")
	if peers := j.peers(t, "member1"); len(peers) > 0 {
		t.Errorf("member1 has the peers %v", peers)
	}
	former := j.tokens(t, "member2")
	j.refuses(t, []string{"--leave", "--to-id", "member1", "member2", "dead"}, "The token of member1 is no longer valid",
		"kubectl --context dead delete secret -n multicluster-system member2")
	if tokens := j.tokens(t, "member2"); len(former) != 1 || len(tokens) > 0 {
		t.Errorf("member2 has the tokens %v, formerly %v", tokens, former)
	}
}

// accountOfTheChart: where a Helm release has brought the account, it is left to that, and stays; what is missing of it comes back.
func (j *joining) accountOfTheChart(t *testing.T) {
	j.installChart(t, "member1")
	accounts := j.client("member1").CoreV1().ServiceAccounts(system)
	before, err := accounts.Get(t.Context(), peerAccount, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	isAsBefore := func(when string) {
		t.Helper()
		after, err := accounts.Get(t.Context(), peerAccount, metav1.GetOptions{})
		if err != nil || after.ResourceVersion != before.ResourceVersion {
			t.Errorf("%s the account is %v, %v; want it as Helm made it: %v", when, after, err, before)
		}
	}
	j.succeed(t, []string{"member1", "member2"}, "member2 reads member1")
	isAsBefore("joined,")
	reads(t, j.peer(t, "member2", "member1"))
	j.succeed(t, []string{"--leave", "member1", "member2"}, "The token of member2 is no longer valid")
	isAsBefore("left,")
	j.succeed(t, []string{"member1", "member2"})
	j.without(t, "get -k", func() {
		j.refuses(t, []string{"--leave", "member1", "member2"}, "The token of member2 is no longer valid", "--leave again, for the account multicluster-peer in member1")
	})
	isAsBefore("left, and not asked for it,")
	j.without(t, "get -k", func() {
		j.refuses(t, []string{"member1", "member2"}, "cannot read the account multicluster-peer in the cluster of context member1")
	})
	isAsBefore("not joined,")

	kubectl(t, j.clusters["member1"], "delete", "clusterrolebinding", peerAccount)
	cmd := exec.CommandContext(t.Context(), "./join.sh", "member1", "member2") // kubectl warns of what it takes over, once
	cmd.Env = j.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	reads(t, j.peer(t, "member2", "member1"))

	stays := func(kinds ...string) {
		t.Helper()
		j.succeed(t, []string{"--leave", "member1", "member2"})
		for _, kind := range kinds {
			kubectl(t, j.clusters["member1"], "get", kind, "--namespace="+system, peerAccount)
		}
		if after, err := accounts.Get(t.Context(), peerAccount, metav1.GetOptions{}); err != nil || after.UID != before.UID {
			t.Errorf("left, the account is %v, %v; want the chart's", after, err)
		}
	}
	stays("serviceaccount", "clusterrole", "clusterrolebinding") // the last one is kubectl's by now
	kubectl(t, j.clusters["member1"], "delete", "clusterrole,clusterrolebinding", peerAccount)
	stays("serviceaccount")
}

// without runs something while a part of kubectl fails.
func (j *joining) without(t *testing.T, command string, run func()) {
	t.Helper()
	bin, env := t.TempDir(), j.env
	script := "#!/bin/sh\ncase \" $* \" in *\" " + command + " \"*) exit 1 ;; esac\nPATH=${PATH#*:}\nexec kubectl \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	j.env = append(slices.Clone(env), "PATH="+bin+":"+j.path)
	run()
	j.env = env
}

// installChart has Helm take over what kubectl has applied.
func (j *joining) installChart(t *testing.T, name string) {
	t.Helper()
	helm, err := binaries.Helm()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), helm, "install", "multicluster", "charts/multicluster", "--kubeconfig="+j.clusters[name].Kubeconfig,
		"--namespace="+system, "--take-ownership", "--force-conflicts", "--set=cluster.id="+name, "--set=dns.mode=none")
	install.Env = append(os.Environ(), "HELM_CONFIG_HOME="+dir, "HELM_CACHE_HOME="+dir, "HELM_DATA_HOME="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
