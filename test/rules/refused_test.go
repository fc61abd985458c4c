package rules

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/test/world"
)

// versionsOf changes with each write of an import and its derived Service.
func versionsOf(s *world.Namespace, id, name string) string {
	s.Helper()
	return s.MustImport(id, name).ResourceVersion + " " + world.Live(s, id, new(corev1.Service), "derived-"+name).ResourceVersion
}

// TestAnotherWriterOfStatus is a regression test for the status of an export: another writer sets it back each time. Both wrote as fast as they
// could, and nothing told of it. The story mutated is for that of an import.
func TestAnotherWriterOfStatus(t *testing.T) {
	for what, setBack := range map[string]func(*metav1.Condition){
		"a condition":    func(c *metav1.Condition) { c.Status, c.Reason = metav1.ConditionFalse, "Theirs" },
		"its generation": func(c *metav1.Condition) { c.ObservedGeneration = 0 },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := world.Three(t).Namespace("c1")
			s.Export("c1", world.Service("foo"), "10.9.1.1")
			s.Until("well", func() error { return s.Healthy("c1", "foo") })
			ours := func(export *mcsv1beta1.ServiceExport) *metav1.Condition {
				c := meta.FindStatusCondition(export.Status.Conditions, "Ready")
				if c == nil || c.Reason != "Ready" || c.ObservedGeneration == 0 {
					return nil
				}
				return c
			}
			ctx, stop := context.WithCancel(t.Context())
			reverts := make(chan int, 1)
			go func() {
				times := 0
				for tick := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-tick.C {
					export := new(mcsv1beta1.ServiceExport)
					_ = s.Admin("c1").Get(ctx, s.Key("foo"), export)
					if c := ours(export); c != nil {
						setBack(c)
						if s.Admin("c1").Status().Update(ctx, export) == nil {
							times++
						}
					}
				}
				reverts <- times
			}()
			s.Until("told", func() error { return told(s, "c1", "ServiceExport", "foo", desired.ReasonContested) })
			alone := func(export *mcsv1beta1.ServiceExport) bool { return ours(export) == nil }
			world.Becomes(s, "c1", new(mcsv1beta1.ServiceExport), "foo", "left alone", alone)
			stop()
			if n := <-reverts; n > 8 {
				t.Errorf("written %d times before it was left alone", n)
			}
			s.Until("as it should be, when no writer sets it back any more", func() error { return s.Healthy("c1", "foo") })
		})
	}
}

// told wants an event with a reason on an object.
func told(s *world.Namespace, id, kind, name, reason string) error {
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
