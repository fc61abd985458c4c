package peers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/merge"
)

// A peer cannot make an export older than this cluster knows it to be. Everything that an honest cluster does keeps its age.
func TestAnExportIsNotOlderThanItsAppearance(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	start := now
	c := newContents()
	table := aged{c.exports, &c.watched, func() time.Time { return now }}
	put := func(name string, age time.Duration) {
		table.put(types.NamespacedName{Name: name}, &merge.Export{Created: metav1.NewTime(now.Add(-age))}, nil)
	}
	pass := func(d time.Duration, read bool) {
		for end := now.Add(d); now.Before(end); now = now.Add(idle) {
			c.watched.note(read, now)
		}
	}
	is := func(name, why string, created time.Time) {
		t.Helper()
		if got := c.exports[types.NamespacedName{Name: name}].Created.Time; !got.Equal(created) {
			t.Errorf("%s: %s is from %v, %v before the first list", why, name, got, start.Sub(got))
		}
	}
	put("listed", 100*time.Hour)
	is("listed", "the first list is believed", now.Add(-100*time.Hour))
	put("listed", 1000*time.Hour)
	is("listed", "it gets no older", now.Add(-100*time.Hour))

	pass(time.Hour, true)
	put("forged", 50*time.Hour)
	is("forged", "it appears now", now)
	seen := now
	pass(time.Minute, true)
	put("forged", 51*time.Hour) // the same object, with another label
	is("forged", "it keeps its age", seen)
	put("new", 0)
	is("new", "it is new", now)
	put("behind", 4*time.Minute)
	is("behind", "the peer's clock is behind", now.Add(-4*time.Minute))
	put("ahead", -time.Hour)
	is("ahead", "the peer's clock is ahead", now.Add(time.Hour))

	lost := now
	pass(10*time.Hour, false)
	pass(time.Minute, true)
	put("meanwhile", 9*time.Hour)
	is("meanwhile", "it was created while the peer could not be read", now.Add(-9*time.Hour))
	put("before", now.Sub(lost)+time.Hour)
	is("before", "it was not there then", now)
	now = now.Add(10 * time.Hour) // this process was suspended
	pass(time.Minute, true)
	put("suspended", 5*time.Hour)
	is("suspended", "it was created while this process was suspended", now.Add(-5*time.Hour))
	table.drop(types.NamespacedName{Name: "listed"}, nil)
	put("listed", 200*time.Hour)
	is("listed", "it was deleted, and is created again", now)
}
