package reconcile

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The new names that have waited longest come next, oldest first, a few at a time. Names that are
// handled meanwhile are removed.
func TestNamesThatWaitLongComeNext(t *testing.T) {
	name := func(i int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(i)} }
	began := time.Unix(0, 0)
	var w waiting
	for i := range 5 {
		w.add(name(i), began.Add(time.Duration(i)*time.Second))
		w.add(name(i), began.Add(time.Hour)) // keeps its age
	}
	w.forget(name(1))
	for _, test := range []struct {
		after time.Duration
		want  string
	}{
		{raiseAfter - time.Second, "[]"},
		{raiseAfter + 3*time.Second, "[/0 /2]"},
		{raiseAfter + 3*time.Second, "[/3]"},
		{raiseAfter + 3*time.Second, "[]"},
		{raiseAfter + 4*time.Second, "[/4]"},
	} {
		if got := fmt.Sprint(w.take(2, began.Add(test.after))); got != test.want {
			t.Errorf("after %v: %s; want %s", test.after, got, test.want)
		}
	}
	if len(w.since) > 0 {
		t.Errorf("not forgotten: %v", w.since)
	}
}
