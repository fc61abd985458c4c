package apply

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PutLease writes the whole Lease: it removes what is no longer wanted, and keeps what others
// added.
func TestPutLease(t *testing.T) {
	d := newDesk(t)
	w := PeerWriter{d.Client}
	lease := func() *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.imp.Namespace, Name: "east", Annotations: map[string]string{"ours": "1"}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("east"), LeaseDurationSeconds: new(int32(5))},
		}
	}
	if err := w.PutLease(t.Context(), lease()); err != nil {
		t.Fatal(err)
	}
	if err := w.PutLease(t.Context(), lease()); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a Lease that is not known is written: %v", err)
	}
	there := lease()
	if err := d.Get(t.Context(), client.ObjectKeyFromObject(there), there); err != nil {
		t.Fatal(err)
	}
	stale := there.DeepCopy()
	there.Annotations = map[string]string{"theirs": "1", "mark": "1", "ours": "2"}
	if err := d.Update(t.Context(), there); err != nil {
		t.Fatal(err)
	}
	want := lease()
	want.Spec.LeaseDurationSeconds = nil
	want.ResourceVersion = stale.ResourceVersion
	if err := w.PutLease(t.Context(), want.DeepCopy(), "mark"); !apierrors.IsConflict(err) {
		t.Errorf("a Lease that others have written since it was read: %v; want a conflict", err)
	}
	want.ResourceVersion = there.ResourceVersion
	if err := w.PutLease(t.Context(), want, "mark"); err != nil {
		t.Fatal(err)
	}
	if err := d.Get(t.Context(), client.ObjectKeyFromObject(there), there); err != nil {
		t.Fatal(err)
	}
	if a := there.Annotations; len(a) != 2 || a["ours"] != "1" || a["theirs"] != "1" || there.Spec.LeaseDurationSeconds != nil || *there.Spec.HolderIdentity != "east" {
		t.Errorf("the Lease is %v, %+v", a, there.Spec)
	}
}

// DeleteLease does not delete another Lease of the same name.
func TestDeleteLease(t *testing.T) {
	d := newDesk(t)
	w := PeerWriter{d.Client}
	first := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: d.imp.Namespace, Name: "east"}}
	second := first.DeepCopy()
	if err := d.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	for range 2 { // The second time, the Lease is already gone.
		if err := w.DeleteLease(t.Context(), first.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if err := w.DeleteLease(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := d.Get(t.Context(), client.ObjectKeyFromObject(second), second); err != nil {
		t.Errorf("the second Lease: %v", err)
	}
}

// PutSecretData changes nothing but the keys that it is given, and nothing that others have written
// since the Secret was read.
func TestPutSecretData(t *testing.T) {
	d := newDesk(t)
	w := PeerWriter{d.Client}
	there := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.imp.Namespace, Name: "east", Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"b": "1"}},
		Data:       map[string][]byte{"kubeconfig": []byte("old"), "other": []byte("stays")},
	}
	if err := d.Create(t.Context(), there); err != nil {
		t.Fatal(err)
	}
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: there.Namespace, Name: there.Name, ResourceVersion: there.ResourceVersion},
		Data:       map[string][]byte{"kubeconfig": []byte("new")},
	}
	if err := w.PutSecretData(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := w.PutSecretData(t.Context(), want); !apierrors.IsConflict(err) {
		t.Errorf("a Secret that was written since it was read: %v; want a conflict", err)
	}
	if err := d.Get(t.Context(), client.ObjectKeyFromObject(there), there); err != nil {
		t.Fatal(err)
	}
	if string(there.Data["kubeconfig"]) != "new" || string(there.Data["other"]) != "stays" || len(there.Data) != 2 || there.Labels["a"] != "1" || there.Annotations["b"] != "1" {
		t.Errorf("the Secret has %q, %v, %v", there.Data, there.Labels, there.Annotations)
	}
	if err := d.Delete(t.Context(), there); err != nil {
		t.Fatal(err)
	}
	if err := w.PutSecretData(t.Context(), want); !apierrors.IsNotFound(err) {
		t.Errorf("a Secret that was deleted: %v", err)
	}
}
