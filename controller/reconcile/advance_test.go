package reconcile

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// A new name costs six writes and no other request: the import, its Service, its slice, its addresses, its
// status, and the status of the export.
func TestANewNameIsWrittenInOnePass(t *testing.T) {
	cluster := kube.New(t, kube.Options{})
	if err := prepare(t.Context(), cluster, kube.BothVersions); err != nil {
		t.Fatal(err)
	}
	w := newWire()
	start(t, w.config(account(t, cluster)), func(o *Options) { o.ClusterID, o.Namespace, o.Version = "home", "multicluster-system", "v1" })
	p := newPlace(t, cluster)
	export := func(name string) {
		t.Helper()
		err := p.create(plainService(name), &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		kube.Eventually(t, name+" is exported", func() error {
			imp, err := p.imp(name)
			of, exportErr := p.export(name)
			return errors.Join(err, exportErr, ready(imp, metav1.ConditionTrue, "Ready"), exportReady(of))
		})
	}
	export("first")
	kube.Eventually(t, "the descriptions are announced", func() error {
		namespace := new(corev1.Namespace)
		err := p.Get(t.Context(), client.ObjectKey{Name: "multicluster-system"}, namespace)
		if got := namespace.Annotations[mcs.AnnotationTerms]; err == nil && got != "v1" {
			err = fmt.Errorf("%s is %q", mcs.AnnotationTerms, got)
		}
		return err
	})
	read := w.count(access{mcsv1beta1.GroupName, "serviceimports", "get"}) + w.count(access{"", "services", "get"})
	w.arm(p.namespace, death{})
	export("second")
	w.mu.Lock()
	writes := w.writes[p.namespace]
	w.mu.Unlock()
	if writes != 6 {
		t.Errorf("%d writes: %v", writes, w.requests)
	}
	if now := w.count(access{mcsv1beta1.GroupName, "serviceimports", "get"}) + w.count(access{"", "services", "get"}); now != read {
		t.Errorf("%d objects were read from the API server", now-read)
	}
	var slices discoveryv1.EndpointSliceList
	if err := p.List(t.Context(), &slices, client.InNamespace(p.namespace), client.MatchingLabels{mcsv1beta1.LabelServiceName: "second"}); err != nil {
		t.Fatal(err)
	}
	if len(slices.Items) != 1 || slices.Items[0].Annotations[mcs.AnnotationTerms] == "" {
		t.Errorf("slices %+v", slices.Items)
	}
	t.Run("an export that is replaced", func(t *testing.T) { replacedExportKeepsItsImport(t, newPlace(t, cluster)) })
}

// replacedExportKeepsItsImport: a ServiceExport that is deleted and created again, as by `kubectl replace --force`, costs no name its import,
// its address or its Service. One that is gone for longer does.
func replacedExportKeepsItsImport(t *testing.T, p *place) {
	t.Helper()
	exported := func() error {
		imp, err := p.imp("foo")
		of, exportErr := p.export("foo")
		return errors.Join(err, exportErr, ready(imp, metav1.ConditionTrue, "Ready"), exportReady(of))
	}
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "foo"}}
	if err := p.create(plainService("foo"), export.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "foo is exported", exported)
	before, svc, err := p.both("foo")
	if err != nil {
		t.Fatal(err)
	}
	of := export.DeepCopy()
	of.Namespace = p.namespace
	if err := errors.Join(p.Delete(t.Context(), of), p.create(export.DeepCopy())); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "foo is exported again", exported)
	after, svcAfter, err := p.both("foo")
	if err != nil || after.UID != before.UID || svcAfter.UID != svc.UID {
		t.Errorf("import and Service were replaced: %v, %v", after.UID != before.UID, err)
	}
	if err := p.Delete(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "the import goes", func() error {
		if imp, err := p.imp("foo"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("there is %+v, %w", imp.Spec, err)
		}
		return nil
	})
}

func exportReady(export *mcsv1beta1.ServiceExport) error {
	for _, condition := range export.Status.Conditions {
		if condition.Type == string(mcsv1beta1.ServiceExportConditionReady) && condition.Status == metav1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("its conditions are %v", export.Status.Conditions)
}
