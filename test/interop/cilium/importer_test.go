package cilium

import (
	"fmt"
	"slices"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/interop/beside"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world"
)

const namespace = "shop"

// importer is a cluster with imports, where our programs run.
type importer struct {
	*kube.Cluster
	api     client.Client
	servers beside.Servers
}

func newImporter(t *testing.T, c *kube.Cluster) *importer {
	t.Helper()
	return &importer{Cluster: c, api: newClient(t, c), servers: beside.StartServers(t, c)}
}

func makeNamespace(t *testing.T, api client.Client) {
	t.Helper()
	if err := api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
}

func newClient(t *testing.T, c *kube.Cluster) client.Client {
	t.Helper()
	api, err := client.New(c.Config, client.Options{Scheme: world.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// imported waits until Cilium has imported a name into the second cluster: ready, and with addresses of its derived Service, the only one.
func (w *importer) imported(t *testing.T, name string) *mcsv1beta1.ServiceImport {
	t.Helper()
	imp := new(mcsv1beta1.ServiceImport)
	kube.Eventually(t, "the import of "+name, func() error {
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, imp); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(imp.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady)) {
			return fmt.Errorf("not ready: %+v", imp.Status.Conditions)
		}
		svc, err := beside.Derived(t.Context(), w.api, namespace, name)
		if err != nil {
			return err
		}
		var want []string
		if svc.Spec.ClusterIP != corev1.ClusterIPNone {
			want = svc.Spec.ClusterIPs[:1] // the exports have endpoints of one family
		}
		if svc.Name != imp.Annotations[mcs.AnnotationDerivedService] || !slices.Equal(imp.Spec.IPs, want) {
			return fmt.Errorf("ips %v and annotations %v; Service %s has %v", imp.Spec.IPs, imp.Annotations, svc.Name, svc.Spec.ClusterIPs)
		}
		return nil
	})
	return imp
}

// testAnswers asks for the ClusterSetIP import web and the headless import db, which c1 and c2 export.
func (w *importer) testAnswers(t *testing.T) {
	web := w.imported(t, "web")
	ask := func(name string, qtype uint16, want string) beside.Question {
		return beside.Question{Name: name, Type: qtype, Want: want}
	}
	w.servers.Answer(t, namespace,
		ask("web", dns.TypeA, "NOERROR "+web.Spec.IPs[0]),
		ask("web", dns.TypeAAAA, "NOERROR"),
		ask("web", dns.TypeSRV, "NOERROR 0 100 80 web.shop.svc.clusterset.local."),
		ask("_http._tcp.web", dns.TypeSRV, "NOERROR 0 100 80 web.shop.svc.clusterset.local."),
		ask("_sql._tcp.web", dns.TypeSRV, "NXDOMAIN"),
		ask("c1.web", dns.TypeA, "NXDOMAIN"),
		ask("db", dns.TypeA, "NOERROR 10.20.1.10 10.20.1.11 10.20.2.10 10.20.2.11"),
		ask("db", dns.TypeAAAA, "NOERROR"),
		ask("db-0.c1.db", dns.TypeA, "NOERROR 10.20.1.10"),
		ask("db-1.c2.db", dns.TypeA, "NOERROR 10.20.2.11"),
		ask("db-2.c1.db", dns.TypeA, "NXDOMAIN"),
		ask("_sql._tcp.db", dns.TypeSRV, "NOERROR 0 25 5432 db-0.c1.db.shop.svc.clusterset.local. 0 25 5432 db-0.c2.db.shop.svc.clusterset.local. "+
			"0 25 5432 db-1.c1.db.shop.svc.clusterset.local. 0 25 5432 db-1.c2.db.shop.svc.clusterset.local."),
		ask("nobody", dns.TypeA, "NXDOMAIN"),
		ask("derived-web", dns.TypeA, "NXDOMAIN"),
	)
}

// notWrittenByUs fails if our controller ever wrote to an import of Cilium that is there.
func (w *importer) notWrittenByUs(t *testing.T) {
	t.Helper()
	var all mcsv1beta1.ServiceImportList
	if err := w.api.List(t.Context(), &all, client.InNamespace(namespace)); err != nil || len(all.Items) == 0 {
		t.Fatalf("%d imports: %v", len(all.Items), err)
	}
	for _, imp := range all.Items {
		for _, entry := range imp.ManagedFields {
			if entry.Manager == mcs.ControllerName && imp.GenerateName != ofUser {
				t.Errorf("our controller wrote to the import %s: %s", imp.Name, entry.FieldsV1)
			}
		}
	}
}
