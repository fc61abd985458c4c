package reconcile

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// A tenant with permissions in one namespace writes an object that the CRD accepts and the Go type
// does not. The controller continues for all other objects, with a list and with a watch. An import
// that was served before stays served, and the next write of its conditions repairs it.
func TestObjectsThatCannotBeDecodedStopNothing(t *testing.T) {
	cluster := shared.Cluster(t)
	p := newPlace(t, cluster)
	odd := func(object client.Object) {
		t.Helper()
		patch := []byte(`{"status": {"conditions": [{"type": "Odd", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2020-01-01t00:00:00z"}]}}`)
		if err := p.Status().Patch(p.ctx, object, client.RawPatch(types.MergePatchType, patch)); err == nil {
			t.Fatal("it can be decoded: this test shows nothing")
		}
	}
	bad, export := imported("bad"), &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "bad-export"}}
	if err := p.create(bad, export); err != nil {
		t.Fatal(err)
	}
	odd(bad)
	odd(export)
	start(t, account(t, cluster), func(o *Options) { o.ClusterID, o.Namespace = "home", "multicluster-system" })
	if err := p.create(imported("foo"), plainService("db"), &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "db"}}); err != nil {
		t.Fatal(err)
	}
	until(t, "a list with them", func() error {
		return errors.Join(p.served("foo"), p.served("db"))
	})
	// In a watch.
	later := imported("later")
	if err := p.create(later); err != nil {
		t.Fatal(err)
	}
	until(t, "served", func() error { return p.served("later") })
	odd(later)
	if err := p.create(imported("last")); err != nil {
		t.Fatal(err)
	}
	until(t, "a watch with one of them", func() error { return errors.Join(p.served("last"), p.served("later")) })
	if err := p.Delete(p.ctx, later); err != nil {
		t.Fatal(err)
	}
	until(t, "gone, with its Service", func() error {
		if _, err := p.imp("later"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}
