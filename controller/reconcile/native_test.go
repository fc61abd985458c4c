package reconcile

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// A name is left alone for a moment after its Service was deleted by anybody else. Names that nobody asks for again leave nothing
// in memory.
func TestDeletedServicesLeaveTheirNameForAMoment(t *testing.T) {
	n, key, now := new(natives), types.NamespacedName{Namespace: "default", Name: "foo"}, time.Unix(1e9, 0)
	users := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "foo"}}
	ours := users.DeepCopy()
	ours.Labels = map[string]string{mcs.LabelNativeOf: "foo"}
	for i, step := range []struct {
		svc    *corev1.Service
		active bool
		after  time.Duration
		want   time.Duration
	}{
		{nil, false, 0, 0},   // nothing is there
		{users, false, 0, 0}, // a user's Service without a native name
		{nil, false, 0, 0},
		{users, true, 0, 0},
		{nil, true, time.Second, replaceGrace},
		{nil, true, time.Second, replaceGrace - time.Second},
		{users, true, time.Second, 0}, // created again
		{nil, true, time.Second, replaceGrace},
		{nil, true, replaceGrace, 0}, // it is not
		{nil, true, 0, 0},
		{ours, true, 0, 0},
		{nil, false, 0, replaceGrace}, // headless or without endpoints, nothing else is left
		{ours, false, 0, 0},
		{nil, false, 0, 0},
	} {
		now = now.Add(step.after)
		if got := n.vacant(key, step.svc, step.active, now); got != step.want {
			t.Errorf("step %d: it is left alone for %v, want %v", i, got, step.want)
		}
	}
	for _, svc := range []*corev1.Service{ours, nil} {
		if svc == nil {
			n.forget(key)
		}
		if left := n.vacant(key, svc, true, now); left > 0 {
			t.Errorf("after a deletion by the controller, it is left alone for %v", left)
		}
	}

	for i := range 1000 { // a peer that exports names and withdraws them
		now = now.Add(time.Second)
		gone := types.NamespacedName{Namespace: "default", Name: fmt.Sprint("name-", i)}
		n.vacant(gone, ours, true, now)
		n.vacant(gone, nil, false, now)
	}
	if len(n.deleted) > 10 {
		t.Errorf("%d names are kept", len(n.deleted))
	}
}
