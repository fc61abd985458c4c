package join_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/join"
	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
	"github.com/clusterset-dns/multicluster/deploy/peer"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/test/kube"
)

func TestMain(m *testing.M) { world.Main(m) }

const (
	elsewhere = "https://192.0.2.1:6443"
	token1    = peer.Account + "-member1"
	token2    = peer.Account + "-member2"
)

// fixture is two clusters, member1 and member2, whose controllers have announced their IDs and do not run, and contexts that lead to
// member1 in other ways, and to no cluster.
type fixture struct {
	*testing.T
	*world.World
}

func newFixture(t *testing.T) *fixture {
	w := world.New(t, "member1", "member2")
	for _, c := range []struct {
		name   string
		change func(*api.Cluster)
	}{
		{"insecure", func(c *api.Cluster) { c.CertificateAuthorityData, c.InsecureSkipTLSVerify = nil, true }},
		{"named", func(c *api.Cluster) { c.TLSServerName = "kubernetes.default.svc" }},
		{"dead", func(c *api.Cluster) { c.Server = "https://127.0.0.1:1" }},
	} {
		entry := w.Config.Clusters["member1"].DeepCopy()
		c.change(entry)
		w.Config.Clusters[c.name] = entry
		w.Config.Contexts[c.name] = &api.Context{Cluster: c.name, AuthInfo: "member1"}
	}
	w.WriteConfig()
	f := &fixture{t, w}
	f.Announce("member1", "member1")
	f.Announce("member2", "member2")
	return f
}

// in returns the fixture for a subtest.
func (f *fixture) in(t *testing.T) *fixture { return &fixture{t, f.World} }

// runs runs a command and wants a status, and each of the texts in its output.
func (f *fixture) runs(status int, args []string, says ...string) world.Result {
	f.Helper()
	r := f.World.Run(args...)
	if r.Status != status {
		f.Fatalf("%q: status %d, want %d\n%s%s", args, r.Status, status, r.Out, r.Err)
	}
	for _, text := range says {
		if !strings.Contains(r.Out+r.Err, text) {
			f.Errorf("%q: the output is\n%s%s\nwant %q", args, r.Out, r.Err, text)
		}
	}
	return r
}

func (f *fixture) kube(context string) kubernetes.Interface { return f.Clusters[context].Kube }

func (f *fixture) secret(context, name string) *corev1.Secret {
	f.Helper()
	s, err := f.kube(context).CoreV1().Secrets(system.Namespace).Get(f.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// peers and tokens are the names of the Secrets of peers, and of tokens.
func (f *fixture) peers(context string) []string {
	return f.secrets(context, metav1.ListOptions{LabelSelector: mcs.LabelPeer})
}

func (f *fixture) tokens(context string) []string {
	return f.secrets(context, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
}

func (f *fixture) secrets(context string, options metav1.ListOptions) []string {
	f.Helper()
	list, err := f.kube(context).CoreV1().Secrets(system.Namespace).List(f.Context(), options)
	if err != nil {
		f.Fatal(err)
	}
	var names []string
	for _, secret := range list.Items {
		names = append(names, secret.Name)
	}
	return names
}

// peer is how the cluster of a context would read the one with an ID.
func (f *fixture) peer(context, id string) *rest.Config {
	f.Helper()
	secret := f.secret(context, id)
	if secret == nil {
		f.Fatalf("%s has no peer %s", context, id)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	if err != nil {
		f.Fatal(err)
	}
	config.BearerToken = system.TokenOf(secret)
	return config
}

// reads wants that a reader can list what peers read.
func (f *fixture) reads(config *rest.Config) {
	f.Helper()
	client := kubernetes.NewForConfigOrDie(config)
	kube.Eventually(f.T, "the reader can read", func() error {
		_, err := client.DiscoveryV1().EndpointSlices("").List(f.Context(), metav1.ListOptions{})
		_, other := client.CoordinationV1().Leases(system.Namespace).List(f.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + member.Name})
		return errors.Join(err, other)
	})
	if _, err := client.CoreV1().Secrets(system.Namespace).List(f.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		f.Errorf("the reader lists Secrets: %v", err)
	}
}

// isVoid waits until the API server does not accept a token any longer. It caches for ten seconds that it is valid.
func (f *fixture) isVoid(config *rest.Config) {
	f.Helper()
	client := kubernetes.NewForConfigOrDie(config)
	kube.Eventually(f.T, "the token is void", func() error {
		_, err := client.DiscoveryV1().EndpointSlices("").List(f.Context(), metav1.ListOptions{})
		if apierrors.IsUnauthorized(err) {
			return nil
		}
		return errors.Join(errors.New("it can be used"), err)
	})
}

// versions are the resource versions of everything that join makes, in both clusters.
func (f *fixture) versions() map[string]string {
	f.Helper()
	all := map[string]string{}
	for name, c := range f.Clusters {
		note := func(object metav1.Object, err error) {
			if err != nil {
				f.Fatal(err)
			}
			all[fmt.Sprintf("%s %T %s", name, object, object.GetName())] = object.GetResourceVersion()
		}
		note(c.Kube.CoreV1().ServiceAccounts(system.Namespace).Get(f.Context(), peer.Account, metav1.GetOptions{}))
		note(c.Kube.RbacV1().ClusterRoles().Get(f.Context(), peer.Account, metav1.GetOptions{}))
		note(c.Kube.RbacV1().ClusterRoleBindings().Get(f.Context(), peer.Account, metav1.GetOptions{}))
		note(c.Kube.RbacV1().Roles(system.Namespace).Get(f.Context(), peer.Account, metav1.GetOptions{}))
		note(c.Kube.RbacV1().RoleBindings(system.Namespace).Get(f.Context(), peer.Account, metav1.GetOptions{}))
		secrets, err := c.Kube.CoreV1().Secrets(system.Namespace).List(f.Context(), metav1.ListOptions{})
		if err != nil || len(secrets.Items) != 2 {
			f.Fatalf("%s has %d Secrets, %v; want one of a peer and one for a peer", name, len(secrets.Items), err)
		}
		for i := range secrets.Items {
			note(&secrets.Items[i], nil)
		}
	}
	return all
}

// hasNoAccount wants that nothing of deploy/peer is left.
func (f *fixture) hasNoAccount(context string) {
	f.Helper()
	args := []string{"get", "--ignore-not-found", "--output=name", "--namespace=" + system.Namespace}
	for _, o := range peer.Objects() {
		args = append(args, o.GetKind()+"/"+o.GetName())
	}
	if out := f.Kubectl(context, args...); out != "" {
		f.Errorf("%s has %s", context, out)
	}
}

// onlyOne is a join, leave or rotate of the one direction that most tests use: member2 reads member1.
func onlyOne(command string, flags ...string) []string {
	args := append([]string{command, "member2", "--from", "member1"}, flags...)
	if command != "leave" {
		args = append(args, "--wait=0")
	}
	return args
}

// TestJoin joins two clusters, uses what came of it, and parts them, in an order in which each step needs those before it.
func TestJoin(t *testing.T) {
	f := newFixture(t)
	for _, step := range []struct {
		name string
		do   func(*fixture)
	}{
		{"errors before anything is written", (*fixture).errors},
		{"manifests write nothing", (*fixture).manifests},
		{"joined", (*fixture).joined},
		{"again", (*fixture).again},
		{"another address", (*fixture).anotherAddress},
		{"access taken back", (*fixture).accessTakenBack},
		{"a new account", (*fixture).newAccount},
		{"made by join.sh", (*fixture).madeByScript},
		{"a Secret of somebody else", (*fixture).foreignSecret},
		{"a Secret without its label", (*fixture).labelRemoved},
		{"one of two readers leaves", (*fixture).oneReaderLeaves},
		{"a Secret is marked before it is deleted", (*fixture).marked},
		{"rotated", (*fixture).rotated},
		{"the address of a ClusterProfile", (*fixture).addressOfProfile},
		{"expiring", (*fixture).expiring},
		{"a Lease from before the change", (*fixture).formerLease},
		{"formats of leave and rotate", (*fixture).formatsWrite},
		{"several contexts of one cluster", (*fixture).severalContexts},
		{"left as the document says", (*fixture).leftForGood},
		{"left", (*fixture).left},
		{"a cluster that is no more", (*fixture).deadCluster},
		{"an account of a Helm release", (*fixture).accountOfHelm},
		{"a Secret of a Helm release", (*fixture).secretOfHelm},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(f.in(t)) }) {
			t.FailNow()
		}
	}
}

func (f *fixture) errors() {
	long := strings.Repeat("a", 64)
	notPEM := filepath.Join(f.TempDir(), "not.pem")
	if err := os.WriteFile(notPEM, []byte("nothing"), 0o600); err != nil {
		f.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		id1, id2 string // that the controllers announce
		args     []string
		status   int
		says     []string
	}{
		{name: "one context", args: []string{"join", "member1"}, status: 2, says: []string{"at least two contexts"}},
		{name: "an unknown flag", args: []string{"join", "--frmo", "member1", "member2"}, status: 2, says: []string{"--frmo"}},
		{name: "an unknown context", args: []string{"join", "member1", "member3"}, status: 2, says: []string{`unknown context "member3"`, "dead, insecure, member1, member2, named"}},
		{name: "a time in words", args: onlyOne("join", "--wait=soon"), status: 2, says: []string{"soon"}},
		{name: "tokens that live too short", args: onlyOne("join", "--expiring=9m"), status: 2, says: []string{"10m"}},
		{name: "two kinds of tokens", args: onlyOne("join", "--expiring=1h", "--static"), status: 2, says: []string{"--static"}},
		{name: "a reader of itself", args: []string{"join", "member1", "--from", "member1"}, status: 2, says: []string{"member1 cannot read itself"}},
		{name: "two selections", args: []string{"join", "--mesh", "--from", "member1"}, status: 2, says: []string{"--from"}},
		{name: "an ID for no context", args: onlyOne("join", "--id=member7"), status: 2, says: []string{"CONTEXT=ID"}},
		{name: "one address for two servers", args: []string{"join", "member1", "member2", "--server", elsewhere}, status: 2, says: []string{"SOURCE=VALUE"}},
		{name: "a server without TLS", args: onlyOne("join", "--server=http://192.0.2.1:8080"), status: 2, says: []string{"http://192.0.2.1:8080", "is not an https:// URL"}},
		{name: "an invalid authority", args: onlyOne("join", "--ca="+notPEM), status: 2, says: []string{"not.pem is not a certificate in PEM"}},
		{name: "a cluster that does not answer", id2: "member2", args: []string{"join", "member2", "--from", "dead", "--wait=0"}, status: 1, says: []string{"cannot reach the cluster of context dead"}},
		{name: "an ID that is not announced", id2: "member2", args: onlyOne("join"), status: 1, says: []string{"controller in member1 does not announce", "--cluster-id", "--id member1=ID"}},
		{name: "no ID after a while", id1: "member1", args: []string{"join", "member2", "--from=member1", "--wait=1ms"}, status: 1, says: []string{"controller in member2 does not announce"}},
		{name: "another ID given than announced", id1: "member1", id2: "member2", args: onlyOne("join", "--id=member1=member7"), status: 1, says: []string{"announces the ID member1", "--id is member7"}},
		{name: "an invalid ID", id2: "member2", args: onlyOne("join", "--id=member1=Member_1"), status: 1, says: []string{`invalid cluster ID "Member_1" of member1`}},
		{name: "an ID with an empty label", id2: "member2", args: onlyOne("join", "--id=member1=a..b"), status: 1, says: []string{`invalid cluster ID "a..b" of member1`}},
		{name: "an invalid announced ID", id1: "member1", id2: "-", args: onlyOne("join"), status: 1, says: []string{`invalid cluster ID "-" of member2`}},
		{name: "an ID too long for a label", id2: "member2", args: onlyOne("join", "--id=member1="+long), status: 1, says: []string{"longer than the 63"}},
		{name: "two contexts of one cluster", id1: "member1", id2: "member2", args: []string{"join", "member1", "member2", "named", "--wait=0"}, status: 1, says: []string{"member1 and named are the same cluster, member1"}},
		{name: "a duplicate ID", id1: "member1", id2: "member1", args: onlyOne("join"), status: 1, says: []string{"member1 and member2 are two clusters with the same ID member1", "--cluster-id"}},
		{name: "no authority in the kubeconfig", id1: "member1", id2: "member2", args: []string{"join", "member2", "--from=insecure", "--wait=0"}, status: 1, says: []string{"no certificate authority for insecure", "--ca insecure=FILE"}},
	} {
		f.T.Run(c.name, func(t *testing.T) {
			f := f.in(t)
			f.Announce("member1", c.id1)
			f.Announce("member2", c.id2)
			f.runs(c.status, c.args, c.says...)
			for context := range f.Clusters {
				if names := f.secrets(context, metav1.ListOptions{}); len(names) > 0 {
					t.Errorf("%s has the Secrets %v", context, names)
				}
				f.hasNoAccount(context)
			}
		})
	}
	f.Announce("member1", "member1")
	f.Announce("member2", "member2")
}

// manifests: what is printed can be applied, once the token is in its place.
func (f *fixture) manifests() {
	r := f.runs(0, onlyOne("join", "-o=yaml"), "# Cluster member1, context member1.", "# Cluster member2, context member2.",
		"go-template={{.data.token | base64decode}}", "REPLACE-BY-THE-TOKEN", mcs.LabelPeer+": \"\"")
	for context := range f.Clusters {
		if names := f.secrets(context, metav1.ListOptions{}); len(names) > 0 {
			f.Errorf("%s has the Secrets %v", context, names)
		}
		f.hasNoAccount(context)
	}
	granting, reading, _ := strings.Cut(r.Out, "# Cluster member2")
	dir := f.TempDir()
	apply := func(context, name, text string) {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			f.Fatal(err)
		}
		f.Kubectl(context, "apply", "--server-side", "--validate=strict", "-f", file)
	}
	apply("member1", "granting.yaml", granting)
	var token string
	kube.Eventually(f.T, "the Secret has a token", func() error {
		token = string(f.secret("member1", token2).Data["token"])
		if token == "" {
			return errors.New("it has none")
		}
		return nil
	})
	apply("member2", "reading.yaml", "#"+strings.ReplaceAll(reading, "REPLACE-BY-THE-TOKEN", token))
	f.reads(f.peer("member2", "member1"))
	before := f.secret("member2", "member1").ResourceVersion
	f.runs(0, onlyOne("join"), "unchanged")
	if after := f.secret("member2", "member1").ResourceVersion; after != before {
		f.Error("join changed a Secret that has everything")
	}
	var sets []struct {
		Context string
		Objects []struct{ Object struct{ Kind string } }
	}
	if err := json.Unmarshal([]byte(f.runs(0, []string{"join", "member1", "member2", "--wait=0", "-o=json"}).Out), &sets); err != nil || len(sets) != 2 || len(sets[0].Objects) != 7 {
		f.Errorf("-o json: %v, %+v", err, sets)
	}
	f.runs(0, []string{"leave", "member1", "member2"})
}

// joined: each reads of the other what it needs, and nothing else.
func (f *fixture) joined() {
	r := f.runs(0, []string{"join", "member1", "member2", "--wait=0"}, "created")
	for to, from := range map[string]string{"member2": "member1", "member1": "member2"} {
		if names := f.peers(to); !slices.Equal(names, []string{from}) {
			f.Errorf("%s has the peers %v", to, names)
		}
		if names := f.tokens(from); !slices.Equal(names, []string{"multicluster-peer-" + to}) {
			f.Errorf("%s has the tokens %v", from, names)
		}
		config := f.peer(to, from)
		if config.Host != f.Clusters[from].Config.Host {
			f.Errorf("the peer %s of %s is at %s", from, to, config.Host)
		}
		f.reads(config)
		if text := string(f.secret(to, from).Data["kubeconfig"]); !strings.Contains(text, "namespace: "+system.Namespace) {
			f.Errorf("the kubeconfig for %s does not contain where %s announces itself", to, from)
		}
		if config.BearerToken == "" || strings.Contains(r.Out+r.Err, config.BearerToken) {
			f.Error("there is no token, or it was printed")
		}
		if annotations := f.secret(to, from).Annotations; len(annotations) > 0 {
			f.Errorf("annotations %v; the token may be in one", annotations)
		}
	}
}

// again: the second time, nothing is sent that could change something.
func (f *fixture) again() {
	before := f.versions()
	f.runs(0, []string{"join", "member1", "member2", "--wait=0"}, "unchanged")
	if after := f.versions(); !maps.Equal(before, after) {
		f.Errorf("changed, without need: %v, formerly %v", after, before)
	}
	var writes atomic.Int32
	a, b := f.counted("member1", &writes), f.counted("member2", &writes)
	report, err := join.Join(f.Context(), []*join.Link{{From: a, To: b}, {From: b, To: a}}, join.Options{})
	if err != nil || report.Wrong() || writes.Load() > 0 {
		f.Errorf("%d writes, %v, %+v", writes.Load(), err, report)
	}
	if _, err := f.kube("member1").CoreV1().ServiceAccounts(system.Namespace).Patch(f.Context(), peer.Account, types.MergePatchType,
		[]byte(`{"automountServiceAccountToken": true}`), metav1.PatchOptions{}); err != nil {
		f.Fatal(err)
	}
	a, b = f.counted("member1", &writes), f.counted("member2", &writes)
	if _, err := join.Join(f.Context(), []*join.Link{{From: a, To: b}, {From: b, To: a}}, join.Options{}); err != nil || writes.Load() != 1 {
		f.Errorf("%d writes, %v; want one, which repairs the account", writes.Load(), err)
	}
}

// counted is a member whose writes are counted.
func (f *fixture) counted(context string, writes *atomic.Int32) *join.Member {
	return f.member(context, func(r *http.Request) error {
		if r.Method != http.MethodGet {
			writes.Add(1)
		}
		return nil
	})
}

// member is one whose requests are checked, and fail with the error.
func (f *fixture) member(context string, check func(*http.Request) error) *join.Member {
	f.Helper()
	config := rest.CopyConfig(f.Clusters[context].Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if err := check(r); err != nil {
				return nil, err
			}
			return next.RoundTrip(r)
		})
	})
	c, err := clusters.New(context, config)
	if err != nil {
		f.Fatal(err)
	}
	return &join.Member{Context: context, Cluster: c, Entry: f.Config.Clusters[context]}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// anotherAddress: --server and --ca go into the kubeconfig, and stay there.
func (f *fixture) anotherAddress() {
	config := f.Clusters["member1"].Config
	ca := filepath.Join(f.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, config.CAData, 0o600); err != nil {
		f.Fatal(err)
	}
	is := func(host, name string) {
		f.Helper()
		got := f.peer("member2", "member1")
		if got.Host != host || got.ServerName != name || string(got.CAData) != string(config.CAData) {
			f.Errorf("the peer is at %s, with the name %q, and the authority %s", got.Host, got.ServerName, got.CAData)
		}
	}
	// The last form wins, wherever it stands.
	f.runs(0, []string{"join", "member2", "--from=insecure", "--wait=0", "--ca", ca, "--server", "member2,insecure=" + elsewhere, "--server", "insecure=https://192.0.2.9"}, "updated")
	is(elsewhere, "")
	f.runs(0, onlyOne("join"), "unchanged", "keeps the address "+elsewhere)
	is(elsewhere, "")
	f.runs(0, []string{"join", "member2", "--from=insecure", "--wait=0"}, "unchanged")
	is(elsewhere, "")
	f.runs(0, onlyOne("join", "--server="+config.Host), "updated")
	is(config.Host, "")
	f.runs(0, []string{"join", "member2", "--from=named", "--wait=0"}, "updated")
	is(config.Host, "kubernetes.default.svc")
	f.reads(f.peer("member2", "member1"))
	f.runs(0, onlyOne("join"), "updated")
	is(config.Host, "")
}

// accessTakenBack: deleting the Secret in the granting cluster voids the token. Joining again gives another.
func (f *fixture) accessTakenBack() {
	former := f.peer("member2", "member1")
	if err := f.kube("member1").CoreV1().Secrets(system.Namespace).Delete(f.Context(), token2, metav1.DeleteOptions{}); err != nil {
		f.Fatal(err)
	}
	f.isVoid(former)
	f.runs(0, onlyOne("join"), "updated")
	f.reads(f.peer("member2", "member1"))
	f.reads(f.peer("member1", "member2"))
}

// newAccount: a token belongs to one account, not to a later one of its name.
func (f *fixture) newAccount() {
	root, err := kube.Root()
	if err != nil {
		f.Fatal(err)
	}
	f.Kubectl("member1", "delete", "-k", filepath.Join(root, "deploy", "peer"))
	f.runs(0, onlyOne("join"), "updated")
	f.reads(f.peer("member2", "member1"))
}

// madeByScript: a link that the former deploy/join.sh made is recognized.
func (f *fixture) madeByScript() {
	secret := f.secret("member2", "member1")
	config := f.peer("member2", "member1")
	kubeconfig := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters:\n  - name: \"member1\"\n    cluster:\n      server: \"%s\"\n      certificate-authority-data: \"%s\"\n"+
		"users:\n  - name: multicluster-peer\n    user: {token: \"%s\"}\ncontexts:\n  - name: \"member1\"\n    context: {cluster: \"member1\", user: multicluster-peer}\n"+
		"current-context: \"member1\"\n", config.Host, base64.StdEncoding.EncodeToString(config.CAData), config.BearerToken)
	secret.Data["kubeconfig"] = []byte(kubeconfig)
	if _, err := f.kube("member2").CoreV1().Secrets(system.Namespace).Update(f.Context(), secret, metav1.UpdateOptions{FieldManager: "join.sh"}); err != nil {
		f.Fatal(err)
	}
	f.runs(0, onlyOne("join"), "unchanged")
	if got := string(f.secret("member2", "member1").Data["kubeconfig"]); got != kubeconfig {
		f.Errorf("the kubeconfig is now\n%s", got)
	}
}

// foreignSecret: one that has the name by chance stays as it is, and stays when leaving.
func (f *fixture) foreignSecret() {
	secrets := f.kube("member2").CoreV1().Secrets(system.Namespace)
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "member3"}, StringData: map[string]string{"kubeconfig": "mine"}}
	mine, err := secrets.Create(f.Context(), mine, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Announce("member1", "member3")
	f.runs(1, onlyOne("join"), "a Secret multicluster-system/member3 without the label "+mcs.LabelPeer, "kubectl multicluster join member2 --from member1")
	f.runs(0, onlyOne("leave"))
	still, err := secrets.Get(f.Context(), "member3", metav1.GetOptions{})
	if err != nil || still.ResourceVersion != mine.ResourceVersion {
		f.Errorf("%v, %v; want it as it was", still, err)
	}
	f.Announce("member1", "member1")
	if err := secrets.Delete(f.Context(), "member3", metav1.DeleteOptions{}); err != nil {
		f.Fatal(err)
	}
	f.runs(0, onlyOne("join"), "updated") // the token of member2 is gone
}

// labelRemoved: join gives the Secret of a peer its label again, if the controller remembers the peer.
func (f *fixture) labelRemoved() {
	f.Kubectl("member2", "label", "-n", system.Namespace, "secret/member1", mcs.LabelPeer+"-")
	f.runs(1, onlyOne("join"), "ForeignSecret")
	leases := f.kube("member2").CoordinationV1().Leases(system.Namespace)
	_, err := leases.Create(f.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "member1", Labels: map[string]string{mcs.LabelPeer: ""}}}, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.runs(0, onlyOne("join"), "updated")
	if names := f.peers("member2"); !slices.Equal(names, []string{"member1"}) {
		f.Errorf("member2 has the peers %v", names)
	}
	f.reads(f.peer("member2", "member1"))
	if err := leases.Delete(f.Context(), "member1", metav1.DeleteOptions{}); err != nil {
		f.Fatal(err)
	}
}

// oneReaderLeaves: each reader has a token of its own, and the account is there for the others.
func (f *fixture) oneReaderLeaves() {
	first := f.peer("member2", "member1")
	f.Announce("member2", "member3")
	f.runs(0, onlyOne("join"))
	f.reads(f.peer("member2", "member1"))
	f.runs(0, onlyOne("leave"), "deleted")
	if names := f.tokens("member1"); !slices.Equal(names, []string{token2}) {
		f.Errorf("member1 has the tokens %v", names)
	}
	f.reads(first)
	f.Announce("member2", "member2")
	f.runs(0, onlyOne("join"), "created")
}

// marked: the controller takes a Secret that is deleted without the mark for an accident. Joining again removes the mark.
func (f *fixture) marked() {
	secrets := f.kube("member2").CoreV1().Secrets(system.Namespace)
	patch := []byte(`{"metadata": {"annotations": {"clusterset-dns.io/leaving": "true"}}}`)
	if _, err := secrets.Patch(f.Context(), "member1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		f.Fatal(err)
	}
	leases := f.kube("member2").CoordinationV1().Leases(system.Namespace)
	_, err := leases.Create(f.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "member1", Labels: map[string]string{mcs.LabelPeer: ""}}}, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	onLease := func(want string) {
		f.Helper()
		if lease, err := leases.Get(f.Context(), "member1", metav1.GetOptions{}); err != nil || lease.Annotations[system.AnnotationLeaving] != want {
			f.Errorf("the Lease has the annotations %v, want the mark %q: %v", lease.Annotations, want, err)
		}
	}
	f.runs(0, onlyOne("join"), "updated")
	joined := f.secret("member2", "member1")
	if len(joined.Annotations) > 0 {
		f.Errorf("joined again, the Secret has the annotations %v", joined.Annotations)
	}
	watched, err := secrets.Watch(f.Context(), metav1.ListOptions{FieldSelector: "metadata.name=member1", ResourceVersion: joined.ResourceVersion})
	if err != nil {
		f.Fatal(err)
	}
	defer watched.Stop()
	f.runs(0, onlyOne("leave"), "deleted")
	onLease("true")
	for event := range watched.ResultChan() {
		if event.Type != watch.Deleted {
			continue
		}
		if got := event.Object.(*corev1.Secret).Annotations[system.AnnotationLeaving]; got != "true" {
			f.Errorf("the Secret was deleted with the mark %q", got)
		}
		break
	}
	f.runs(0, onlyOne("join"), "created")
	onLease("")
	if err := leases.Delete(f.Context(), "member1", metav1.DeleteOptions{}); err != nil {
		f.Fatal(err)
	}
}

// rotated: the former token is void, and the other direction keeps its token.
func (f *fixture) rotated() {
	former, other := f.peer("member2", "member1"), f.secret("member1", "member2").ResourceVersion
	r := f.runs(0, onlyOne("rotate"), "updated")
	now := f.peer("member2", "member1")
	if now.BearerToken == former.BearerToken || strings.Contains(r.Out+r.Err, now.BearerToken) {
		f.Error("the token is the former one, or was printed")
	}
	f.reads(now)
	f.isVoid(former)
	if f.secret("member1", "member2").ResourceVersion != other {
		f.Error("the other direction was changed")
	}
}

// addressOfProfile: a Secret with a token and without a kubeconfig stays so. --server replaces the address of the ClusterProfile.
func (f *fixture) addressOfProfile() {
	secrets := f.kube("member2").CoreV1().Secrets(system.Namespace)
	joined, config := f.secret("member2", "member1"), f.peer("member2", "member1")
	if err := secrets.Delete(f.Context(), "member1", metav1.DeleteOptions{}); err != nil {
		f.Fatal(err)
	}
	profiled := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "member1", Labels: joined.Labels}, StringData: map[string]string{"token": config.BearerToken + "\n"}}
	if _, err := secrets.Create(f.Context(), profiled, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
	token := func() string {
		f.Helper()
		data := f.secret("member2", "member1").Data
		if len(data) != 1 {
			f.Errorf("the Secret has %d keys, want the token only", len(data))
		}
		return string(data["token"])
	}
	f.runs(0, onlyOne("join"), "unchanged")
	f.runs(0, onlyOne("join", "-o=yaml"), "token: REPLACE-BY-THE-TOKEN")
	f.runs(0, onlyOne("rotate"), "updated")
	now := rest.CopyConfig(config)
	if now.BearerToken = token(); now.BearerToken == config.BearerToken {
		f.Error("the token is the former one")
	}
	f.reads(now)
	f.runs(0, onlyOne("join", "--expiring=1h"), "updated")
	if token() == now.BearerToken || f.secret("member2", "member1").Annotations[system.AnnotationRenew] != "true" {
		f.Error("the token does not expire")
	}
	f.runs(0, onlyOne("join", "--static"), "updated")
	now.BearerToken = token()
	f.reads(now)
	f.runs(0, onlyOne("join", "--server="+config.Host), "updated")
	if got := f.peer("member2", "member1"); got.Host != config.Host {
		f.Errorf("the peer is at %s", got.Host)
	}
	f.reads(f.peer("member2", "member1"))
}

// expiring: a token of an account of its own, which is kept, rotated, and given up again.
func (f *fixture) expiring() {
	static := f.peer("member2", "member1")
	f.runs(0, onlyOne("join", "--expiring=1h"), "updated")
	first := f.peer("member2", "member1")
	f.reads(first)
	f.isVoid(static)
	if got := f.secret("member2", "member1").Annotations; got[system.AnnotationRenew] != "true" || len(got) > 1 {
		f.Errorf("annotations %v", got)
	}
	if names := f.tokens("member1"); len(names) > 0 {
		f.Errorf("member1 has the tokens %v", names)
	}
	f.runs(0, onlyOne("join", "--expiring=1h"), "unchanged")
	if f.peer("member2", "member1").BearerToken != first.BearerToken {
		f.Error("the token was replaced early in its life")
	}
	f.runs(0, onlyOne("rotate"), "updated")
	second := f.peer("member2", "member1")
	f.reads(second)
	f.isVoid(first)
	f.runs(0, onlyOne("join"), "unchanged")
	f.runs(0, onlyOne("join", "-o=yaml"), "--duration 1h0m0s", system.AnnotationRenew)
	if f.peer("member2", "member1").BearerToken != second.BearerToken {
		f.Error("joining without a kind of token replaced the token")
	}
	f.anotherLife()
	f.runs(0, onlyOne("join", "--static"), "updated")
	f.reads(f.peer("member2", "member1"))
	f.isVoid(second)
	if got := f.secret("member2", "member1").Annotations; len(got) > 0 {
		f.Errorf("annotations %v", got)
	}
	if out := f.Kubectl("member1", "get", "serviceaccounts,roles,rolebindings", "-n", system.Namespace, "-l", peer.LabelReader, "-o=name") +
		f.Kubectl("member1", "get", "clusterrolebindings", "-l", peer.LabelReader, "-o=name"); out != "" {
		f.Errorf("the account of the reader is left: %s", out)
	}
	f.runs(0, onlyOne("join", "--expiring=1h"), "updated")
}

// anotherLife: --expiring with another life replaces the token, unless the server gives no other life.
func (f *fixture) anotherLife() {
	f.Helper()
	second := f.peer("member2", "member1").BearerToken
	f.runs(0, onlyOne("join", "--expiring=2h"), "updated")
	third := f.peer("member2", "member1").BearerToken
	if third == second {
		f.Error("a token of an hour was kept for one of two hours")
	}
	f.runs(0, onlyOne("join"), "unchanged")

	var requests atomic.Int32
	from := f.member("member1", func(r *http.Request) error {
		if !strings.HasSuffix(r.URL.Path, "/token") {
			return nil
		}
		requests.Add(1)
		body := `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}`
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
		return nil
	})
	shortened := &join.Link{From: from, To: f.member("member2", func(*http.Request) error { return nil })}
	report, err := join.Join(f.Context(), []*join.Link{shortened}, join.Options{Expiring: 4 * time.Hour})
	if err != nil || report.Wrong() || report.Links[0].Change != join.Unchanged || requests.Load() != 1 {
		f.Errorf("%v, %+v after %d requests of a token; want a link that is unchanged", err, report, requests.Load())
	}
	if f.peer("member2", "member1").BearerToken != third {
		f.Error("the token was replaced by one with the same life")
	}
}

// severalContexts: --mesh and --all use one context of each cluster. A context that the user names comes first.
func (f *fixture) severalContexts() {
	contexts := f.Config.Contexts
	defer func() {
		f.Config.Contexts = contexts
		f.WriteConfig()
	}()
	f.Config.Contexts = map[string]*api.Context{"member1": contexts["member1"], "member2": contexts["member2"], "named": contexts["named"]}
	f.WriteConfig()
	links := func(r world.Result, member1 string) {
		f.Helper()
		if got := strings.Count(r.Out, member1+" "); got != 2 || strings.Count(r.Out, "\n") != 3 {
			f.Errorf("want the two links of %s\n%s%s", member1, r.Out, r.Err)
		}
	}
	const note = "note: the context named is left out: it leads to the same cluster as member1"
	links(f.runs(0, []string{"join", "--mesh", "--wait=0"}, note), "member1")
	links(f.runs(0, []string{"rotate", "--mesh", "--wait=0"}, note), "member1")
	links(f.runs(0, []string{"join", "--mesh", "--wait=0", "--id=named=member1"}, "the context member1 is left out"), "named")
	links(f.runs(0, []string{"leave", "named", "--all"}, "deleted", "the context member1 is left out"), "named")
	links(f.runs(0, []string{"join", "--mesh", "--wait=0"}, "created"), "member1")
	links(f.runs(0, []string{"leave", "member2", "--all"}, "deleted", note), "member1")
	f.runs(1, []string{"join", "--mesh", "member1", "named", "member2", "--wait=0"}, "member1 and named are the same cluster")
	delete(f.Config.Contexts, "member2")
	f.WriteConfig()
	f.runs(1, []string{"join", "--mesh", "--wait=0"}, "all contexts lead to one cluster, member1")
	f.Config.Contexts = contexts
	f.WriteConfig()
	f.runs(0, []string{"join", "member1", "member2", "--wait=0"}, "created")
	f.runs(0, onlyOne("join", "--expiring=1h"), "updated")
}

// formerLease: a Lease that the controller renews while the token is made does not describe the new Secret.
func (f *fixture) formerLease() {
	leases := f.kube("member2").CoordinationV1().Leases(system.Namespace)
	labels := map[string]string{mcs.LabelPeer: "", "clusterset-dns.io/connected": "True", "clusterset-dns.io/reason": "Connected"}
	if _, err := leases.Create(f.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "member1", Labels: labels}}, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
	var renewals atomic.Int32
	from := f.member("member1", func(r *http.Request) error {
		if r.Method == http.MethodGet {
			return nil
		}
		patch := fmt.Appendf(nil, `{"spec": {"leaseTransitions": %d}}`, renewals.Add(1))
		_, err := leases.Patch(r.Context(), "member1", types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	link := &join.Link{From: from, To: f.member("member2", func(*http.Request) error { return nil })}
	report, err := join.Rotate(f.Context(), []*join.Link{link}, join.Options{Wait: time.Second})
	if err != nil || renewals.Load() == 0 || report.Links[0].Change != join.Updated || report.Links[0].State != "Unknown" {
		f.Errorf("%v, %+v after %d renewals; want a link whose state is not known", err, report, renewals.Load())
	}
	if err := leases.Delete(f.Context(), "member1", metav1.DeleteOptions{}); err != nil {
		f.Fatal(err)
	}
}

// formatsWrite: leave and rotate do their work also with -o yaml, and join does not.
func (f *fixture) formatsWrite() {
	former := f.peer("member2", "member1").BearerToken
	f.runs(0, onlyOne("rotate", "-o=yaml"), "change: updated")
	if f.peer("member2", "member1").BearerToken == former {
		f.Error("rotate -o yaml kept the token")
	}
	f.runs(0, onlyOne("leave", "-o=yaml"), "change: deleted")
	f.runs(0, onlyOne("join", "-o=yaml"), "kind: Secret")
	if names := f.peers("member2"); len(names) > 0 {
		f.Errorf("member2 has the peers %v", names)
	}
	f.runs(0, onlyOne("join"), "created")
}

// leaveLine is one that uninstall.md shows.
var leaveLine = regexp.MustCompile(`(?m)^ +kubectl multicluster (leave .*)$`)

// leftForGood: by the lines that uninstall.md shows, nothing of one cluster remains in the other, and the other way round.
func (f *fixture) leftForGood() {
	root, err := kube.Root()
	if err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations", "uninstall.md"))
	if err != nil {
		f.Fatal(err)
	}
	former := f.peer("member1", "member2")
	lines := leaveLine.FindAllStringSubmatch(string(text), -1)
	if len(lines) != 2 {
		f.Fatalf("uninstall.md has the lines %q", lines)
	}
	for _, line := range lines {
		f.runs(0, strings.Fields(strings.NewReplacer("<this>", "member1", "<other>", "member2").Replace(line[1])), "deleted")
	}
	for context := range f.Clusters {
		if names := f.secrets(context, metav1.ListOptions{}); len(names) > 0 {
			f.Errorf("%s has the Secrets %v", context, names)
		}
		f.hasNoAccount(context)
	}
	f.isVoid(former)
	f.runs(0, []string{"join", "member1", "member2", "--wait=0"}, "created")
}

// left: nothing remains, of either kind of credential, and the namespace stands.
func (f *fixture) left() {
	former := f.peer("member2", "member1")
	f.runs(0, onlyOne("leave"), "deleted", "the account multicluster-peer in member1 is deleted")
	f.hasNoAccount("member1")
	f.isVoid(former)
	f.reads(f.peer("member1", "member2"))
	f.runs(0, []string{"leave", "member1", "member2"}, "deleted", "the account multicluster-peer in member2 is deleted")
	for context := range f.Clusters {
		if names := f.secrets(context, metav1.ListOptions{}); len(names) > 0 {
			f.Errorf("%s has the Secrets %v", context, names)
		}
		f.hasNoAccount(context)
		f.Kubectl(context, "get", "namespace", system.Namespace)
	}
	r := f.runs(0, []string{"leave", "member1", "member2"}, "unchanged")
	if strings.Contains(r.Out, "deleted") {
		f.Errorf("where nothing is left, the output is\n%s", r.Out)
	}
	f.runs(1, onlyOne("rotate"), "not joined", "no link was rotated")
	if names := f.secrets("member1", metav1.ListOptions{}); len(names) > 0 {
		f.Errorf("rotate made the Secrets %v", names)
	}
}

// deadCluster: the side that is there is cleaned, and the commands for the other one are printed.
func (f *fixture) deadCluster() {
	f.runs(0, []string{"join", "member1", "member2", "--wait=0"})
	f.runs(1, []string{"leave", "member1", "--from=dead"}, "cannot reach the cluster of context dead", "--id dead=ID")
	f.runs(2, []string{"leave", "member1", "--from=gone"}, `unknown context "gone"`)
	f.runs(1, []string{"leave", "member1", "--from=gone", "--id=gone=member2"},
		"kubectl --context gone delete --ignore-not-found secret/multicluster-peer-member1 serviceaccount/multicluster-peer-member1")
	if names := f.peers("member1"); len(names) > 0 {
		f.Errorf("member1 has the peers %v", names)
	}
	f.runs(1, []string{"leave", "dead", "--from=member2", "--id=dead=member1"},
		"kubectl --context dead delete secrets -n multicluster-system -l clusterset-dns.io/peer --field-selector metadata.name=member2")
	if names := f.tokens("member2"); len(names) > 0 {
		f.Errorf("member2 has the tokens %v", names)
	}
	// One cluster that does not answer does not stop the others.
	r := f.runs(1, []string{"join", "member1", "member2", "dead", "--wait=0"}, "cannot reach the cluster of context dead")
	if got := strings.Count(r.Out, "failed"); got != 4 {
		f.Errorf("%d links have failed, want the 4 of one cluster:\n%s", got, r.Out)
	}
	f.reads(f.peer("member1", "member2"))

	// A cluster that no context leads to is reported, and the printed commands clean this side.
	contexts := f.Config.Contexts
	f.Config.Contexts = map[string]*api.Context{"member1": contexts["member1"], "dead": contexts["dead"]}
	f.WriteConfig()
	r = f.runs(1, []string{"leave", "member1", "--all", "--id=dead=member9"}, "member1 still reads member2", "member1 still has a token for member2")
	commands := regexp.MustCompile(`(?m)^ +kubectl multicluster (leave .*)$`).FindAllStringSubmatch(r.Out, -1)
	if len(commands) != 2 {
		f.Fatalf("the commands are %q", commands)
	}
	for _, c := range commands {
		f.runs(1, strings.Fields(c[1]), "cannot reach the cluster of context member2")
	}
	if names := f.secrets("member1", metav1.ListOptions{}); len(names) > 0 {
		f.Errorf("member1 has the Secrets %v", names)
	}
	f.Config.Contexts = contexts
	f.WriteConfig()
	f.runs(0, []string{"leave", "member1", "member2"}, "deleted")
}

// accountOfHelm: an account of a Helm release is left to Helm, and stays. What is missing of it comes back.
func (f *fixture) accountOfHelm() {
	f.runs(0, onlyOne("join"))
	f.Kubectl("member1", "label", "-n", system.Namespace, "serviceaccount/"+peer.Account, mcs.LabelManagedBy+"=Helm")
	f.Kubectl("member1", "label", "clusterrole/"+peer.Account, "clusterrolebinding/"+peer.Account, mcs.LabelManagedBy+"=Helm")
	f.Kubectl("member1", "patch", "-n", system.Namespace, "serviceaccount/"+peer.Account, "-p", `{"automountServiceAccountToken": true}`)
	accounts := f.kube("member1").CoreV1().ServiceAccounts(system.Namespace)
	before, err := accounts.Get(f.Context(), peer.Account, metav1.GetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	isAsBefore := func(when string) {
		f.Helper()
		after, err := accounts.Get(f.Context(), peer.Account, metav1.GetOptions{})
		if err != nil || after.ResourceVersion != before.ResourceVersion {
			f.Errorf("%s the account is %v, %v; want it as Helm made it: %v", when, after, err, before)
		}
	}
	f.runs(0, onlyOne("join"))
	isAsBefore("joined,")
	f.runs(0, onlyOne("leave"), "deleted")
	isAsBefore("left,")

	f.runs(0, onlyOne("join"))
	f.Kubectl("member1", "label", "-n", system.Namespace, "secret/"+token2, mcs.LabelManagedBy+"=Helm") // as of peerAccount.readers
	f.runs(1, onlyOne("leave"), "BelongsToHelm", "peerAccount.readers")
	f.runs(0, onlyOne("join"), "created")
	f.runs(1, onlyOne("rotate"), "BelongsToHelm", "upgrade the release")
	f.reads(f.peer("member2", "member1"))
	f.Kubectl("member1", "label", "-n", system.Namespace, "secret/"+token2, mcs.LabelManagedBy+"-")
	unread := func(what string) *join.Link {
		return &join.Link{To: f.member("member2", func(*http.Request) error { return nil }), From: f.member("member1", func(r *http.Request) error {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, what) {
				return errors.New("cut off")
			}
			return nil
		})}
	}
	report, err := join.Leave(f.Context(), []*join.Link{unread("/secrets")})
	if err != nil || len(report.Problems()) != 1 || report.Problems()[0].ID != "AccountNotRemoved" || len(f.tokens("member1")) > 0 {
		f.Errorf("%v, %+v, tokens %v", err, report, f.tokens("member1"))
	}
	isAsBefore("left, and not read,")
	report, err = join.Join(f.Context(), []*join.Link{unread("/serviceaccounts/" + peer.Account)}, join.Options{})
	if err != nil || len(report.Problems()) != 1 || !strings.Contains(report.Problems()[0].What, "cannot read the account multicluster-peer in the cluster of context member1") {
		f.Errorf("%v, %+v", err, report)
	}
	isAsBefore("not joined,")

	f.Kubectl("member1", "delete", "clusterrolebinding", peer.Account)
	f.runs(0, onlyOne("join"))
	f.reads(f.peer("member2", "member1"))
	f.runs(0, onlyOne("leave")) // the binding is not of Helm by now
	f.Kubectl("member1", "get", "clusterrolebinding", peer.Account)
	f.Kubectl("member1", "delete", "clusterrole,clusterrolebinding", peer.Account)
	f.runs(0, onlyOne("join"))
	f.runs(0, onlyOne("leave"))
	if after, err := accounts.Get(f.Context(), peer.Account, metav1.GetOptions{}); err != nil || after.UID != before.UID {
		f.Errorf("left, the account is %v, %v; want that of Helm", after, err)
	}
}

// secretOfHelm: a peer's Secret of a Helm release is neither changed nor deleted, and what it can be used with is not revoked.
func (f *fixture) secretOfHelm() {
	f.runs(0, onlyOne("join"))
	f.Kubectl("member2", "label", "-n", system.Namespace, "secret/member1", mcs.LabelManagedBy+"=Helm")
	before, token := f.secret("member2", "member1"), f.secret("member1", token2)
	f.runs(0, onlyOne("join"), "unchanged")
	for _, args := range [][]string{onlyOne("join", "--server="+elsewhere), onlyOne("join", "--expiring=1h"), onlyOne("rotate"), onlyOne("leave")} {
		f.runs(1, args, "BelongsToHelm", "Secret multicluster-system/member1 in member2", "existingSecret")
		after, has := f.secret("member2", "member1"), f.secret("member1", token2)
		if after == nil || after.ResourceVersion != before.ResourceVersion || has == nil || has.UID != token.UID {
			f.Fatalf("%q: the Secret is %v, and the token is %v; want both as before", args, after, has)
		}
	}
	f.reads(f.peer("member2", "member1"))
	f.Kubectl("member2", "label", "-n", system.Namespace, "secret/member1", mcs.LabelManagedBy+"-")
	f.runs(0, onlyOne("leave"), "deleted")
}
