package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// Of the import that had a name before, the record is known for a minute, and no longer.
func TestFormers(t *testing.T) {
	key, began := types.NamespacedName{Namespace: "shop", Name: "foo"}, time.Unix(0, 0)
	imp := func(uid types.UID, record string) *mcsv1beta1.ServiceImport {
		all := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{UID: uid}}
		if record != "" {
			all.Annotations = map[string]string{mcs.AnnotationClusterIPs: record}
		}
		return all
	}
	type step struct {
		after time.Duration
		imp   *mcsv1beta1.ServiceImport
		want  string
	}
	for name, steps := range map[string][]step{
		"replaced":                     {{0, imp("1", "10.0.0.1"), ""}, {time.Hour, imp("2", ""), "10.0.0.1"}, {time.Hour + time.Second, imp("2", "10.0.0.1"), ""}},
		"deleted and created again":    {{0, imp("1", "10.0.0.1"), ""}, {1, nil, "10.0.0.1"}, {formerFor, imp("2", ""), "10.0.0.1"}},
		"too late":                     {{0, imp("1", "10.0.0.1"), ""}, {1, nil, "10.0.0.1"}, {formerFor + 1, nil, ""}, {formerFor + 2, imp("2", ""), ""}},
		"a record that a user removes": {{0, imp("1", "10.0.0.1"), ""}, {1, imp("1", ""), ""}, {2, imp("2", ""), ""}},
		"never seen":                   {{0, nil, ""}, {1, imp("1", ""), ""}},
		"a long text":                  {{0, imp("1", "10.0.0.1"), ""}, {1, imp("1", strings.Repeat("1", longestRecord+1)), ""}, {2, nil, ""}},
	} {
		var f formers
		for _, s := range steps {
			got, again := f.of(key, s.imp, began.Add(s.after))
			if got != s.want || (again > 0) != (got != "") {
				t.Errorf("%s, after %v: %q, again in %v; want %q", name, s.after, got, again, s.want)
			}
		}
		if last := steps[len(steps)-1]; last.want == "" && (last.imp == nil || last.imp.Annotations == nil) && len(f.all) > 0 {
			t.Errorf("%s: not forgotten: %v", name, f.all)
		}
	}
}

// An import that a user replaces by force loses its record, and the garbage collector deletes its derived
// Service. The name keeps its address. It runs several times, because the garbage collector can be earlier or
// later than the controller.
func TestAnImportReplacedByForceKeepsItsAddress(t *testing.T) {
	kube.NotShort(t)
	t.Parallel()
	cluster := kube.New(t, kube.Options{})
	if err := prepare(t.Context(), cluster, kube.BothVersions); err != nil {
		t.Fatal(err)
	}
	if err := cluster.StartControllers(t.Context()); err != nil {
		t.Fatal(err)
	}
	start(t, account(t, cluster))
	p := newPlace(t, cluster)
	manifest := fmt.Sprintf(`{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: foo, namespace: %s},
  spec: {type: ClusterSetIP, ports: [{name: http, port: 80}]}}`, p.namespace)
	if err := cluster.Apply(t.Context(), p.namespace, manifest); err != nil {
		t.Fatal(err)
	}
	address := func() (ip string, uid types.UID) {
		until(t, "the import has the address of its Service", func() error {
			imp, err := p.imp("foo")
			if err != nil {
				return err
			}
			svc, err := p.svc("derived-foo")
			if err == nil && (svc.DeletionTimestamp != nil || len(svc.OwnerReferences) != 1 || svc.OwnerReferences[0].UID != imp.UID ||
				len(imp.Spec.IPs) != 1 || imp.Spec.IPs[0] != svc.Spec.ClusterIP) {
				err = fmt.Errorf("ips %v of %s, Service %+v", imp.Spec.IPs, imp.UID, svc)
			}
			if err == nil {
				ip, uid = svc.Spec.ClusterIP, imp.UID
			}
			return err
		})
		return ip, uid
	}
	first, before := address()
	for range 5 {
		if _, err := binaries.KubectlWith(t.Context(), cluster.Kubeconfig, manifest, "replace", "--force", "--filename", "-"); err != nil {
			t.Fatal(err)
		}
		ip, after := address()
		if after == before {
			t.Fatal("the import was not replaced")
		}
		if ip != first {
			t.Fatalf("the address was %s and is %s", first, ip)
		}
		before = after
	}
}
