package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// TestEachFormOfTheCRD installs the forms of the CRD that clusters have, one after another: none,
// Karmada's, only v1alpha1, both versions, and none again. The controller works with each form. It
// stops when the form is no longer the one that it was started for (A4, A5, K10; cilium#47793
// treats a missing version as an empty set).
func TestEachFormOfTheCRD(t *testing.T) {
	cluster := kube.New(t, kube.Options{ServiceCIDRs: smallDualStack})
	known, err := discovery.NewDiscoveryClientForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Discover(known, false); !errors.Is(err, ErrNoCRD) {
		t.Fatalf("without the CRD: %v", err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := WaitForCRD(t.Context(), cluster.Config, false, 10*time.Millisecond, logr.Discard())
		waited <- err
	}()
	var former <-chan error
	for _, form := range []struct {
		name    string
		form    kube.CRDs
		version string
		want    observed.CRD
		test    func(*testing.T, *place)
	}{
		{"Karmada's", kube.OldKarmada, "v1alpha1", observed.CRD{APIVersion: "multicluster.x-k8s.io/v1alpha1", MaxIPs: 1}, onKarmadasCRD},
		{"v1alpha1 alone", kube.OnlyV1Alpha1, "v1alpha1",
			observed.CRD{APIVersion: "multicluster.x-k8s.io/v1alpha1", MaxIPs: 2, IPFamilies: true, Conditions: true, EndpointSliceObjects: true, Policies: true}, onAnyCRD},
		{"both versions", kube.BothVersions, "v1beta1",
			observed.CRD{APIVersion: "multicluster.x-k8s.io/v1beta1", MaxIPs: 2, IPFamilies: true, Conditions: true, EndpointSliceObjects: true, Policies: true}, onAnyCRD},
	} {
		if err := cluster.InstallCRDs(t.Context(), form.form); err != nil {
			t.Fatal(err)
		}
		kube.Eventually(t, form.name, func() error {
			got, err := Discover(known, false)
			if err == nil && got != form.want {
				err = fmt.Errorf("got %+v, want %+v", got, form.want)
			}
			return err
		})
		if former != nil {
			ends(t, former)
		}
		former = startOn(t, cluster, form.want)
		t.Run(form.name, func(t *testing.T) { form.test(t, newPlaceOf(t, cluster, form.version)) })
	}
	if err := cluster.RemoveCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	ends(t, former)
	if err := <-waited; err != nil {
		t.Errorf("the CRD came late: %v", err)
	}
}

// startOn starts a controller that checks the CRD often.
func startOn(t *testing.T, cluster *kube.Cluster, crd observed.CRD) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	mgr, err := NewManager(ctx, cluster.Config, Options{CRD: crd, MetricsAddress: "0", Poll: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return ended
}

func ends(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrCRDChanged) {
			t.Errorf("the CRD has changed, and the controller ended with: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the CRD has changed, and the controller goes on")
	}
}

func onAnyCRD(t *testing.T, p *place) {
	if err := p.create(imported("foo", families(corev1.IPv4Protocol, corev1.IPv6Protocol)), endpoints("foo-c2", "foo")); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return errors.Join(p.has("foo", 2), p.served("foo"), p.label("foo-c2", "derived-foo")) })
}

// onKarmadasCRD checks that an import of Karmada gets one address of Karmada's Service, in any
// order of creation. The controller writes nothing else, and nothing repeatedly. It also serves an
// import that a user created.
func onKarmadasCRD(t *testing.T, p *place) {
	svc := plainService("derived-foo")
	svc.Labels = map[string]string{mcs.LabelKarmadaManaged: "true"}
	svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
	foo := imported("foo", func(imp *mcsv1beta1.ServiceImport) {
		imp.Labels = map[string]string{mcs.LabelKarmadaManaged: "true"}
		imp.Annotations = map[string]string{mcs.AnnotationKarmadaWork: "work"}
	})
	slice := endpoints("foo-c2", "foo")
	if err := p.create(foo, slice, imported("byhand"), svc); err != nil {
		t.Fatal(err)
	}
	until(t, "filled", func() error { return p.has("foo", 1) })
	imp, err := p.imp("foo")
	if err != nil {
		t.Fatal(err)
	}
	if imp.Spec.IPs[0] != svc.Spec.ClusterIPs[0] || len(svc.Spec.ClusterIPs) != 2 || len(imp.Spec.IPFamilies)+len(imp.Status.Conditions) > 0 ||
		!maps.Equal(imp.Annotations, foo.Annotations) || !maps.Equal(imp.Labels, foo.Labels) || imp.Generation != 2 {
		t.Errorf("the import is %+v; Karmada's Service has %v", imp, svc.Spec.ClusterIPs)
	}
	until(t, "the import made by hand", func() error {
		imp, err := p.imp("byhand")
		svc, err2 := p.svc("derived-byhand")
		if err == nil && err2 == nil && !slices.Equal(imp.Spec.IPs, svc.Spec.ClusterIPs) {
			err = fmt.Errorf("ips are %v, the Service has %v", imp.Spec.IPs, svc.Spec.ClusterIPs)
		}
		return errors.Join(err, err2)
	})
	// The same objects again, after a reconcile that is caused by an edit.
	done := reconciles(t)
	if err := p.edit("foo", func(imp *mcsv1beta1.ServiceImport) { imp.Labels["round"] = "1" }); err != nil {
		t.Fatal(err)
	}
	until(t, "reconciled", func() error {
		if reconciles(t) == done {
			return errors.New("not yet")
		}
		return nil
	})
	if again, err := p.imp("foo"); err != nil || again.Generation != 2 {
		t.Errorf("generation %d, %v: written again", again.Generation, err)
	}
	after, err := p.svc("derived-foo")
	if err != nil || after.ResourceVersion != svc.ResourceVersion {
		t.Errorf("Karmada's Service was written: %+v, %v", after, err)
	}
	if err := p.label("foo-c2", ""); err != nil {
		t.Error(err)
	}
	until(t, "one event of foo", func() error { return p.told("foo", desired.ReasonReady) })
	onKarmadasSlices(t, p)
}

// onKarmadasSlices checks that a slice without the label of the import is copied for a headless
// import, and follows its changes (K14).
func onKarmadasSlices(t *testing.T, p *place) {
	db := imported("db", ofType(mcsv1beta1.Headless), func(imp *mcsv1beta1.ServiceImport) { imp.Labels = map[string]string{mcs.LabelKarmadaManaged: "true"} })
	theirs := endpoints("imported-member1-db-x7k2p", "", discoveryv1.LabelServiceName, "derived-db", discoveryv1.LabelManagedBy, mcs.KarmadaSlices)
	delete(theirs.Labels, mcsv1beta1.LabelServiceName)
	delete(theirs.Labels, mcsv1beta1.LabelSourceCluster)
	theirs.Endpoints[0].Hostname = new("db-0")
	if err := p.create(db, theirs); err != nil {
		t.Fatal(err)
	}
	copied := func(address string) error {
		var all discoveryv1.EndpointSliceList
		err := p.List(p.ctx, &all, client.InNamespace(p.namespace), client.MatchingLabels{
			mcsv1beta1.LabelServiceName: "db", mcsv1beta1.LabelSourceCluster: "member1", discoveryv1.LabelManagedBy: mcs.ControllerName})
		if err == nil && (len(all.Items) != 1 || all.Items[0].Endpoints[0].Addresses[0] != address || *all.Items[0].Endpoints[0].Hostname != "db-0" ||
			all.Items[0].Labels[discoveryv1.LabelServiceName] != "" || len(all.Items[0].OwnerReferences) != 1) {
			err = fmt.Errorf("there are %+v", all.Items)
		}
		return err
	}
	until(t, "copied", func() error { return copied("10.9.9.9") })
	theirs.Endpoints[0].Addresses[0] = "10.9.9.10"
	if err := p.Update(p.ctx, theirs); err != nil {
		t.Fatal(err)
	}
	until(t, "copied again", func() error { return copied("10.9.9.10") })
	after := new(discoveryv1.EndpointSlice)
	if err := p.Get(p.ctx, p.key(theirs.Name), after); err != nil || after.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("Karmada's slice was written: %+v, %v", after, err)
	}
}

// A write of the controller keeps fields of a newer CRD that the controller's types do not have.
func TestFieldsThatOurTypesDoNotKnowSurvive(t *testing.T) {
	cluster := kube.New(t, kube.Options{})
	if err := cluster.InstallCRDs(t.Context(), kube.BothVersions); err != nil {
		t.Fatal(err)
	}
	addField(t, cluster, "spec", "future")
	addField(t, cluster, "status", "future")
	p := newPlace(t, cluster)
	imp := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": mcsv1beta1.GroupVersion.String(), "kind": "ServiceImport", "metadata": map[string]any{"name": "foo"},
		"spec": map[string]any{"type": "ClusterSetIP", "ports": []any{map[string]any{"port": int64(80)}}, "future": "kept"},
	}}
	imp.SetNamespace(p.namespace)
	until(t, "the field is served", func() error {
		try := imp.DeepCopy()
		err := p.Create(p.ctx, try, client.DryRunAll)
		if future, _, _ := unstructured.NestedString(try.Object, "spec", "future"); future != "kept" {
			err = errors.Join(err, errors.New("pruned"))
		}
		return err
	})
	if err := p.create(imp); err != nil {
		t.Fatal(err)
	}
	imp.Object["status"] = map[string]any{"future": "kept", "clusters": []any{map[string]any{"cluster": "c2"}}}
	if err := p.Status().Update(p.ctx, imp); err != nil {
		t.Fatal(err)
	}
	start(t, cluster.Config)
	until(t, "served", func() error { return p.served("foo") })
	if err := p.Patch(p.ctx, imported("foo", inNamespace(p.namespace)), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"type":"Headless"}}`))); err != nil {
		t.Fatal(err)
	}
	until(t, "headless", func() error { return p.gone("foo") })
	if err := p.Get(p.ctx, p.key("foo"), imp); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"spec", "status"} {
		if got, _, _ := unstructured.NestedString(imp.Object, part, "future"); got != "kept" {
			t.Errorf("%s.future is %q", part, got)
		}
	}
}

func addField(t *testing.T, cluster *kube.Cluster, part, name string) {
	t.Helper()
	definitions := apiextensions.NewForConfigOrDie(cluster.Config).ApiextensionsV1().CustomResourceDefinitions()
	until(t, "the CRD with a new field", func() error {
		crd, err := definitions.Get(t.Context(), mcsv1beta1.ServiceImportFullName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties[part].Properties[name] = apiextensionsv1.JSONSchemaProps{Type: "string"}
		}
		_, err = definitions.Update(t.Context(), crd, metav1.UpdateOptions{})
		return err
	})
}
