package reconcile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/autoexport"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// exporting starts a controller of a cluster of its own, with the shipped rights.
func exporting(t *testing.T, mode AutoExport, grace time.Duration) *place {
	t.Helper()
	cluster := kube.New(t, kube.Options{})
	if err := prepare(t.Context(), cluster, kube.BothVersions); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "auto-export", "clusterrole.yaml"))
	if err := errors.Join(err, cluster.Apply(t.Context(), "", string(text))); err != nil {
		t.Fatal(err)
	}
	start(t, account(t, cluster), func(o *Options) {
		o.ClusterID, o.Namespace, o.ServiceGrace = "home", "multicluster-system", grace
		o.AutoExport, o.AutoExportAnnotation = mode, "kosmos.io/auto-create-mcs"
	})
	return newPlace(t, cluster)
}

func (p *place) export(name string) (*mcsv1beta1.ServiceExport, error) {
	export := new(mcsv1beta1.ServiceExport)
	return export, p.Get(p.ctx, p.key(name), export)
}

func (p *place) exported(want bool, names ...string) error {
	for _, name := range names {
		if _, err := p.export(name); (err == nil) != want || client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("ServiceExport %s: %w", name, err)
		}
	}
	return nil
}

// mark sets a label of the namespace, or an annotation of a Service; "" removes it.
func (p *place) mark(t *testing.T, service, key, value string) {
	t.Helper()
	var object client.Object = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	field := "labels"
	if service != "" {
		object, field = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: service}}, "annotations"
	}
	text := fmt.Sprintf("%q", value)
	if value == "" {
		text = "null"
	}
	if err := p.Patch(p.ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{%q:{%q:%s}}}`, field, key, text))); err != nil {
		t.Fatal(err)
	}
}

// Services are exported by the label of their namespace and their annotation, and no longer when the reason is gone. Exports of
// users, also those that a user has applied over one of the controller, derived Services and Services of other namespaces are left alone.
func TestAutoExport(t *testing.T) {
	p := exporting(t, AutoExportOn, time.Second)
	if err := p.create(plainService("foo"), plainService("kosmos"), plainService("plain"), plainService("own"),
		&mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "own"}}); err != nil {
		t.Fatal(err)
	}
	p.mark(t, "foo", autoexport.Key, "true")
	p.mark(t, "kosmos", "kosmos.io/auto-create-mcs", "true")
	p.mark(t, "", autoexport.Key, "annotated")
	until(t, "the annotated Services are exported, and imported", func() error {
		return errors.Join(p.exported(true, "foo", "kosmos"), p.served("foo"), p.served("kosmos"), p.told("foo", "AutoExport"))
	})
	if err := p.exported(false, "plain", "derived-foo"); err != nil {
		t.Error(err)
	}
	p.mark(t, "", autoexport.Key, "all")
	until(t, "all are exported", func() error { return p.exported(true, "plain") })
	p.mark(t, "kosmos", autoexport.Key, "false")
	until(t, "except one", func() error { return p.exported(false, "kosmos") })
	if err := p.exported(false, "derived-foo", "derived-plain"); err != nil {
		t.Error(err)
	}
	applied := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "applied"}}
	if err := p.create(plainService("applied")); err != nil {
		t.Fatal(err)
	}
	until(t, "a later one is exported, too", func() error { return p.exported(true, "applied") })
	text := fmt.Appendf(nil, `{"apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport", "metadata": {"namespace": %q, "name": "applied", "labels": {"team": "shop"}}}`, p.namespace)
	if err := p.Patch(p.ctx, applied, client.RawPatch(types.ApplyPatchType, text), client.FieldOwner("argocd")); err != nil {
		t.Fatal(err)
	}
	p.mark(t, "", autoexport.Key, "")
	until(t, "none is exported", func() error { return p.exported(false, "foo", "plain") })
	if err := p.exported(true, "own", "applied"); err != nil {
		t.Error("the export of a user:", err)
	}
}

func TestAutoExportModes(t *testing.T) {
	for text, ok := range map[string]bool{"on": true, "off": true, "report": true, "": false, "true": false, "On": false} {
		var mode AutoExport
		if err := mode.UnmarshalText([]byte(text)); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
