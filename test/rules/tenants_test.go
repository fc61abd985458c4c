package rules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// Labels, as users write them.
const (
	labelService = "multicluster.kubernetes.io/service-name"
	labelCluster = "multicluster.kubernetes.io/source-cluster"
	labelLeadsTo = "kubernetes.io/service-name"
	labelManager = "endpointslice.kubernetes.io/managed-by"
	labelProxy   = "service.kubernetes.io/service-proxy-name"
	labelKeeper  = "app.kubernetes.io/managed-by"
	controller   = "multicluster-controller"
)

// beside is what runs beside c1 and c2 of world.Three for the tests of tenants.
var beside struct {
	coredns    *kube.Program // of c1
	server     string        // its address
	kubernetes []*kube.Program
}

// tenants is a namespace of c1 and c2, where somebody with rights in it alone tries what they can do to others. Tenants
// have accounts of their own, bound to Kubernetes' own roles and to what a test adds; administrators only prepare.
// docs/operations/security.md says the same in words.
type tenants struct {
	*world.Namespace
	server string // the address of a CoreDNS in c1
}

func newTenants(t *testing.T) *tenants {
	t.Helper()
	w := world.Three(t)
	startCoreDNS(w)
	startKubernetes(w)
	return &tenants{w.Namespace("c1", "c2"), beside.server}
}

func startCoreDNS(w *world.World) {
	w.Helper()
	if beside.coredns == nil {
		var err error
		beside.coredns, beside.server, err = binaries.StartCoreDNS(w.Late(), w.Cluster("c1").Cluster, "coredns", resolver.Corefile)
		w.Must(err)
	}
}

// startKubernetes runs more of Kubernetes' own controllers: one fills the roles `edit` and `admin`, the others make Endpoints and slices
// of Services, and slices of Endpoints.
func startKubernetes(w *world.World) {
	w.Helper()
	if beside.kubernetes != nil {
		return
	}
	programs, err := kube.Build(w.Late(), os.Stderr, "kube-controller-manager")
	w.Must(err)
	for _, id := range []string{"c1", "c2"} {
		filled := func(ctx context.Context) error {
			for _, name := range []string{"edit", "admin"} {
				role := new(rbacv1.ClusterRole)
				if err := w.Admin(id).Get(ctx, client.ObjectKey{Name: name}, role); err != nil || len(role.Rules) == 0 {
					return errors.Join(err, fmt.Errorf("the role %s has no rules", name))
				}
			}
			return nil
		}
		c := w.Cluster(id)
		b, err := c.Beside(w.Late(), filled, programs["kube-controller-manager"], "--kubeconfig="+c.Kubeconfig,
			"--controllers=clusterrole-aggregation-controller,endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller",
			"--leader-elect=false", "--secure-port=0")
		w.Must(err)
		beside.kubernetes = append(beside.kubernetes, b)
	}
}

// stopKubernetes is for tests that count each object: Kubernetes' controllers would add theirs.
func stopKubernetes() {
	for _, b := range beside.kubernetes {
		b.Stop()
	}
	beside.kubernetes = nil
}

// tenant is an account with a role of Kubernetes' own in the stage's namespace, and with more rights there.
func (s *tenants) tenant(in, role string, more ...rbacv1.PolicyRule) client.Client {
	s.Helper()
	by, who := s.account(in, s.Name, "tenant")
	s.Create(in, bound("ClusterRole", role, who))
	if len(more) > 0 {
		s.permit(in, "tenant", who, more...)
	}
	return by
}

// account is the client of an account of a namespace, without rights.
func (s *tenants) account(in, namespace, name string) (client.Client, rbacv1.Subject) {
	s.Helper()
	config, _, err := s.Cluster(in).ServiceAccount(s.Context(), namespace, name)
	s.Must(err)
	return s.As(config), rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// permit gives rights in the stage's namespace.
func (s *tenants) permit(in, name string, who rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	s.Helper()
	s.Create(in, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, bound("Role", name, who))
}

func bound(kind, role string, who rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(kind) + "-" + role}, Subjects: []rbacv1.Subject{who},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
	}
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

// name is one below the stage's namespace.
func (s *tenants) name(below string) string {
	return below + "." + s.Name + ".svc.clusterset.local."
}

// answers waits for the addresses of a name below the stage's namespace.
func (s *tenants) answers(below, want string) {
	s.Helper()
	s.Until("answers of "+below, func() error { return s.answered(below, want) })
}

// answered wants them now.
func (s *tenants) answered(below, want string) error {
	return resolver.Differs("udp", s.server, s.name(below)+" A", want)
}

// settled waits until all that was written before has been seen: by the controllers, which bring a new export to both clusters, and by
// CoreDNS, which answers it. Watches keep their order.
func (s *tenants) settled() {
	s.Helper()
	name := fmt.Sprintf("later-%d", time.Now().UnixNano())
	s.Export("c1", world.Service(name, world.Headless), "10.9.9.9")
	s.answers(name, "NOERROR 10.9.9.9")
	s.Until("seen in c2", func() error { return s.hasEndpoints("c2", name, "10.9.9.9") })
	s.Export("c2", world.Service(name+"-too", world.Headless), "10.9.9.8")
	s.answers(name+"-too", "NOERROR 10.9.9.8")
}

// answersOfImport waits until a name has the address of its import.
func (s *tenants) answersOfImport(name string) (address string) {
	s.Helper()
	s.Until("import "+name, func() error {
		imp, err := s.Import("c1", name)
		if err != nil || len(imp.Spec.IPs) == 0 {
			return errors.Join(err, errors.New("it has no ips"))
		}
		address = imp.Spec.IPs[0]
		return s.answered(name, "NOERROR "+address)
	})
	return address
}

// importedFromC2 exports foo from c2, and gives its address in c1, which leads there.
func (s *tenants) importedFromC2() (vip string) {
	s.Helper()
	s.Export("c2", world.Service("foo"), "10.9.2.1")
	vip = s.answersOfImport("foo")
	s.Until("foo leads to c2", s.leadsToC2)
	s.Says("c1", "foo", "Ready", "Ready", "served by")
	return vip
}

func (s *tenants) leadsToC2() error { return s.leads("c1", labelLeadsTo, "derived-foo", "10.9.2.1") }

// exportsDBAndFoo exports a headless Service and another one from c1, and gives the address of the other.
func (s *tenants) exportsDBAndFoo() (vip string) {
	s.Helper()
	s.Export("c1", world.Service("db", world.Headless), "10.9.1.1")
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.answers("db", "NOERROR 10.9.1.1")
	return s.answersOfImport("foo")
}

// hasEndpoints wants those that a cluster's controller gave to an import.
func (s *tenants) hasEndpoints(in, name string, want ...string) error {
	return s.leads(in, labelService, name, want...)
}

// leads wants the endpoints of the slices that have a label.
func (s *tenants) leads(in, label, value string, want ...string) error {
	var all discoveryv1.EndpointSliceList
	if err := s.Admin(in).List(s.Context(), &all, client.InNamespace(s.Name), client.MatchingLabels{label: value}); err != nil {
		return err
	}
	var got []string
	for _, slice := range all.Items {
		for _, e := range slice.Endpoints {
			got = append(got, e.Addresses...)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		return fmt.Errorf("%s=%s in %s has endpoints %v; want %v", label, value, in, got, want)
	}
	return nil
}

func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
