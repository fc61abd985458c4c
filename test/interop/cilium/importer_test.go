package cilium

import (
	"fmt"
	"slices"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/interop/beside"
	"github.com/clusterset-dns/multicluster/test/kube"
)

const namespace = "shop"

// makeNamespace is the text of that namespace.
const makeNamespace = "{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}"

// importer is a cluster with imports, where our programs run.
type importer struct{ *beside.Importer }

func newImporter(t *testing.T, c *kube.Cluster) *importer {
	t.Helper()
	return &importer{beside.NewImporter(t, c, namespace, "v1beta1")}
}

// imported waits until Cilium has imported a name into the second cluster: ready, and with addresses of its derived Service, the only one.
func (w *importer) imported(t *testing.T, name string) *mcsv1beta1.ServiceImport {
	t.Helper()
	return w.Served(t, name, func(imp *mcsv1beta1.ServiceImport, svc *corev1.Service) error {
		if !meta.IsStatusConditionTrue(imp.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady)) {
			return fmt.Errorf("not ready: %+v", imp.Status.Conditions)
		}
		var want []string
		if svc.Spec.ClusterIP != corev1.ClusterIPNone {
			want = svc.Spec.ClusterIPs[:1] // the exports have endpoints of one family
		}
		if !slices.Equal(imp.Spec.IPs, want) {
			return fmt.Errorf("ips %v; Service %s has %v", imp.Spec.IPs, svc.Name, svc.Spec.ClusterIPs)
		}
		return nil
	})
}

// testAnswers asks for the ClusterSetIP import web and the headless import db, which c1 and c2 export.
func (w *importer) testAnswers(t *testing.T) {
	web := w.imported(t, "web")
	ask := func(name string, qtype uint16, want string) beside.Question {
		return beside.Question{Name: name, Type: qtype, Want: want}
	}
	w.Answers(t,
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
	if err := w.API.List(t.Context(), &all, client.InNamespace(namespace)); err != nil || len(all.Items) == 0 {
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
