package rbac

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/miekg/dns"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
	"github.com/clusterset-dns/multicluster/test/rules"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if err := two.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the clusters:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// two are the clusters c1 and c2, joined, with a CoreDNS in c1.
var two world

type world struct {
	once   sync.Once
	c1, c2 *rules.Cluster
	beside []*controlplane.Beside // what runs beside c1
	server string                 // the address of its CoreDNS
	err    error
}

// corefile is of the cluster's own CoreDNS, without its zones.
const corefile = `
clusterset.local:{{.Port}} {
    bind 127.0.0.1
    errors
    multicluster {
        kubeconfig {{.Kubeconfig}}
    }
}`

func (w *world) start(t *testing.T) *world {
	t.Helper()
	controlplane.NotShort(t)
	w.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 15*time.Minute)
		defer cancel()
		w.err = w.startAll(ctx, context.WithoutCancel(t.Context()))
	})
	if w.err != nil {
		t.Fatalf("start two clusters: %v", w.err)
	}
	return w
}

func (w *world) startAll(ctx, life context.Context) (err error) {
	if w.c1, err = rules.Start(ctx, "c1", controlplane.Options{ServiceCIDRs: "10.1.0.0/16"}); err != nil {
		return err
	}
	if w.c2, err = rules.Start(ctx, "c2", controlplane.Options{ServiceCIDRs: "10.2.0.0/16"}); err != nil {
		return err
	}
	err = errors.Join(w.c1.Join(ctx, "c2", w.c2.ReaderKubeconfig), w.c2.Join(ctx, "c1", w.c1.ReaderKubeconfig), w.c1.Run(life, allowingNativeNames), w.c2.Run(life))
	for _, c := range []*rules.Cluster{w.c1, w.c2} {
		err = errors.Join(err, w.startKubernetes(ctx, c))
	}
	if err != nil {
		return err
	}
	dns, address, err := binaries.StartCoreDNS(ctx, w.c1.Cluster, "coredns", corefile)
	w.beside, w.server = append(w.beside, dns), address
	return err
}

// startKubernetes runs more of Kubernetes' own controllers: one fills the roles `edit` and `admin`, the others make Endpoints and slices
// of Services, and slices of Endpoints.
func (w *world) startKubernetes(ctx context.Context, c *rules.Cluster) error {
	programs, err := controlplane.Build(ctx, os.Stderr, "kube-controller-manager")
	if err != nil {
		return err
	}
	filled := func(ctx context.Context) error {
		for _, name := range []string{"edit", "admin"} {
			role := new(rbacv1.ClusterRole)
			if err := c.Admin.Get(ctx, client.ObjectKey{Name: name}, role); err != nil || len(role.Rules) == 0 {
				return errors.Join(err, fmt.Errorf("the role %s has no rules", name))
			}
		}
		return nil
	}
	b, err := c.Beside(ctx, filled, programs["kube-controller-manager"], "--kubeconfig="+c.Kubeconfig,
		"--controllers=clusterrole-aggregation-controller,endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller",
		"--leader-elect=false", "--secure-port=0")
	w.beside = append(w.beside, b)
	return err
}

func (w *world) stop() error {
	for _, b := range w.beside {
		b.Stop()
	}
	var failed []error
	for _, c := range []*rules.Cluster{w.c1, w.c2} {
		if c != nil {
			failed = append(failed, c.Stop())
		}
	}
	return errors.Join(failed...)
}

// stage is a namespace of both clusters.
type stage struct {
	*testing.T
	*world
	namespace string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	w := two.start(t)
	s := &stage{t, w, controlplane.Namespace(t, w.c1.Cluster)}
	if err := w.c2.Admin.Create(t.Context(), namespaceOf(s.namespace)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

// create creates objects in the stage's namespace, as the given actor.
func (s *stage) create(by client.Client, objects ...client.Object) {
	s.Helper()
	for _, object := range objects {
		if err := s.try(by, object); err != nil {
			s.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

// try is create where it may fail.
func (s *stage) try(by client.Client, object client.Object) error {
	if object.GetNamespace() == "" {
		object.SetNamespace(s.namespace)
	}
	return by.Create(s.Context(), object)
}

func (s *stage) until(what string, condition func() error) {
	s.Helper()
	controlplane.Eventually(s.T, what, condition)
}

// tenant is an account with a role of Kubernetes' own in the stage's namespace, and with more rights there.
func (s *stage) tenant(in *rules.Cluster, role string, more ...rbacv1.PolicyRule) client.Client {
	s.Helper()
	const name = "tenant"
	config, _, err := in.ServiceAccount(s.Context(), s.namespace, name)
	if err != nil {
		s.Fatal(err)
	}
	who := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: name}}
	bound := func(kind, role string) *rbacv1.RoleBinding {
		b := &rbacv1.RoleBinding{Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}}
		b.Name = strings.ToLower(kind) + "-" + role
		return b
	}
	s.create(in.Admin, bound("ClusterRole", role))
	if len(more) > 0 {
		own := &rbacv1.Role{Rules: more}
		own.Name = name
		s.create(in.Admin, own, bound("Role", name))
	}
	by, err := client.New(config, client.Options{Scheme: rules.Scheme})
	if err != nil {
		s.Fatal(err)
	}
	return by
}

// may is all verbs of some resources of a group.
func may(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"*"}}
}

// The rights that administrators may add to those of Kubernetes' own roles.
var (
	slicesToo  = may("discovery.k8s.io", "endpointslices")
	importsToo = may("multicluster.x-k8s.io", "serviceimports")
	exportsToo = may("multicluster.x-k8s.io", "serviceexports")
)

// ask gives a reply's rcode, and the data of its answers in a fixed order.
func ask(server, name string, qtype uint16) (string, error) {
	return askOver("udp", server, name, qtype)
}

func askOver(network, server, name string, qtype uint16) (string, error) {
	client := &dns.Client{Net: network, Timeout: 5 * time.Second}
	m, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, qtype), server)
	if err != nil {
		return "", err
	}
	var data []string
	for _, rr := range m.Answer {
		data = append(data, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(data)
	return strings.Join(append([]string{dns.RcodeToString[m.Rcode]}, data...), " "), nil
}

// name is one below the stage's namespace.
func (s *stage) name(below string) string {
	return below + "." + s.namespace + ".svc.clusterset.local."
}

// answers waits for the addresses of a name below the stage's namespace.
func (s *stage) answers(below, want string) {
	s.Helper()
	s.until("answers of "+below, func() error { return s.answered(below, dns.TypeA, want) })
}

// answered wants an answer now.
func (s *stage) answered(below string, qtype uint16, want string) error {
	got, err := ask(s.server, s.name(below), qtype)
	if err == nil && got != want {
		err = fmt.Errorf("%s has %q; want %q", below, got, want)
	}
	return err
}

// settled waits until all that was written before has been seen: by the controllers, which bring a new export to both clusters, and by
// CoreDNS, which answers it. Watches keep their order.
func (s *stage) settled() {
	s.Helper()
	name := fmt.Sprintf("later-%d", time.Now().UnixNano())
	s.export(s.c1, headless(name), "10.9.9.9")
	s.answers(name, "NOERROR 10.9.9.9")
	s.until("seen in c2", func() error { return s.hasEndpoints(s.c2, name, "10.9.9.9") })
	s.export(s.c2, headless(name+"-too"), "10.9.9.8")
	s.answers(name+"-too", "NOERROR 10.9.9.8")
}

// ready is the condition Ready of an import, as reason and message.
func (s *stage) ready(in *rules.Cluster, name string) (string, error) {
	imp, err := s.imp(in, name)
	if err != nil {
		return "", err
	}
	c := meta.FindStatusCondition(imp.Status.Conditions, "Ready")
	if c == nil {
		return "", fmt.Errorf("import %s has no condition Ready", name)
	}
	return c.Reason + ": " + c.Message, nil
}

// says waits for words in the condition Ready.
func (s *stage) says(in *rules.Cluster, name, words string) {
	s.Helper()
	s.until("the import says "+words, func() error {
		said, err := s.ready(in, name)
		if err == nil && !strings.Contains(said, words) {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	})
}
