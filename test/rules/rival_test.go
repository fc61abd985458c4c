package rules

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/test/world"
)

// TestAnotherWriterOfStatus is a regression test for what the clusterset gives to a status: another writer sets it back each time. Both wrote as fast
// as they could, and nothing told of it.
func TestAnotherWriterOfStatus(t *testing.T) {
	for what, rival := range map[string]struct {
		kind   string
		object func() client.Object
		revert func(client.Object) bool // false where there is nothing to set back
	}{
		"status.clusters of the import": {"ServiceImport", func() client.Object { return new(mcsv1beta1.ServiceImport) }, func(obj client.Object) bool {
			status := &obj.(*mcsv1beta1.ServiceImport).Status
			there := len(status.Clusters) > 0
			status.Clusters = nil
			return there
		}},
		"a condition of the export": {"ServiceExport", func() client.Object { return new(mcsv1beta1.ServiceExport) }, func(obj client.Object) bool {
			status := &obj.(*mcsv1beta1.ServiceExport).Status
			for i, c := range status.Conditions {
				if c.Type == "Ready" && c.Reason == "Ready" {
					status.Conditions[i].Status, status.Conditions[i].Reason = metav1.ConditionFalse, "Theirs"
					return true
				}
			}
			return false
		}},
		"the generation of a condition of the import": {"ServiceImport", func() client.Object { return new(mcsv1beta1.ServiceImport) }, func(obj client.Object) bool {
			return forgetGeneration(obj.(*mcsv1beta1.ServiceImport).Status.Conditions)
		}},
		"the generation of a condition of the export": {"ServiceExport", func() client.Object { return new(mcsv1beta1.ServiceExport) }, func(obj client.Object) bool {
			return forgetGeneration(obj.(*mcsv1beta1.ServiceExport).Status.Conditions)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := world.Three(t).Namespace("c1")
			s.Export("c1", world.Service("foo"), "10.9.1.1")
			s.Until("healthy", func() error {
				return errors.Join(s.Healthy("c1", "foo"), s.Imported("c1", "foo", []string{"c1"}, "10.9.1.1"))
			})
			ctx, stop := context.WithCancel(t.Context())
			reverts := make(chan int, 1)
			go func() { reverts <- revert(s, ctx, rival.object, rival.revert) }()
			s.Until("told", func() error { return told(s, "c1", rival.kind, "foo", desired.ReasonContested) })
			s.Until("left alone", func() error {
				obj := rival.object()
				err := s.Admin("c1").Get(t.Context(), s.Key("foo"), obj)
				if err == nil && rival.revert(obj) {
					err = errors.New("it is not")
				}
				return err
			})
			stop()
			if n := <-reverts; n > 8 {
				t.Errorf("written %d times before it was left alone", n)
			}
			s.Until("as it should be, when no writer sets it back any more", func() error {
				return errors.Join(s.Healthy("c1", "foo"), s.Imported("c1", "foo", []string{"c1"}, "10.9.1.1"))
			})
		})
	}
}

// forgetGeneration is false where there is none.
func forgetGeneration(conditions []metav1.Condition) bool {
	for i := range conditions {
		if c := &conditions[i]; c.Type == "Ready" && c.ObservedGeneration > 0 {
			c.ObservedGeneration = 0
			return true
		}
	}
	return false
}

// revert sets back the status of foo whenever it is written, until ctx ends; it returns how often.
func revert(s *world.Namespace, ctx context.Context, object func() client.Object, edit func(client.Object) bool) (times int) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return times
		case <-tick.C:
		}
		obj := object()
		if s.Admin("c1").Get(ctx, s.Key("foo"), obj) == nil && edit(obj) && s.Admin("c1").Status().Update(ctx, obj) == nil {
			times++
		}
	}
}

// told wants an event with a reason on an object.
func told(s *world.Namespace, id string, kind, name, reason string) error {
	var all eventsv1.EventList
	if err := s.Admin(id).List(s.Context(), &all, client.InNamespace(s.Name)); err != nil {
		return err
	}
	for _, e := range all.Items {
		if e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason && e.Type == corev1.EventTypeWarning {
			return nil
		}
	}
	return fmt.Errorf("no event %s on %s %s among %d", reason, kind, name, len(all.Items))
}
