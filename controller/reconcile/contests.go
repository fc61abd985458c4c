package reconcile

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset-dns/multicluster/controller/apply"
	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/observed"
)

// A field is contested when one value of it had to be written again after each of several reverts within a window, or when a write of it
// has no effect. It is then left alone for a pause, which doubles with each further revert. A write without effect is tried again after
// longestPause, then after twice as long each time: no event tells that its reason has gone.
const (
	contestWindow        = time.Minute
	contestReverts       = 3
	firstPause           = 10 * time.Second
	longestPause         = 5 * time.Minute
	longestWithoutEffect = time.Hour
)

// contests finds fields that another writer keeps setting back. The zero value is empty.
type contests struct {
	mu    sync.Mutex
	by    map[types.NamespacedName]map[contested.Field]*contest
	swept time.Time
}

// contest is what is known of one field of one name.
type contest struct {
	value    string
	writes   int       // of this value, in a row
	began    time.Time // when the first of these was made
	last     time.Time
	pause    time.Duration // 0 while the field is not contested
	reported bool
	noEffect bool // nothing changed by the last write
}

// wrote notes fields that have been written. It returns those that are contested from now on.
func (c *contests) wrote(name types.NamespacedName, fields contested.Fields, now time.Time) (news []contested.Field) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweepLocked(now)
	for field, value := range fields {
		k := c.atLocked(name, field)
		if k.value != value || k.pause == 0 && now.Sub(k.began) > contestWindow {
			*k = contest{value: value, began: now}
		}
		k.writes++
		k.last = now
		switch {
		case k.pause > 0:
			k.pause = min(2*k.pause, longestPause)
		case k.writes > contestReverts:
			k.pause = firstPause
		}
		if k.pause > 0 && !k.reported {
			k.reported = true
			news = append(news, field)
		}
	}
	return news
}

// noEffect notes fields whose write changed nothing. It returns those that were not known to be so.
func (c *contests) noEffect(name types.NamespacedName, fields contested.Fields, now time.Time) (news []contested.Field) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for field, value := range fields {
		k := c.atLocked(name, field)
		if k.value != value || !k.reported {
			news = append(news, field)
		}
		pause := longestPause
		if k.noEffect && k.value == value {
			pause = min(2*k.pause, longestWithoutEffect)
		}
		*k = contest{value: value, writes: k.writes, began: now, last: now, pause: pause, reported: true, noEffect: true}
	}
	return news
}

func (c *contests) atLocked(name types.NamespacedName, field contested.Field) *contest {
	if c.by == nil {
		c.by = map[types.NamespacedName]map[contested.Field]*contest{}
	}
	if c.by[name] == nil {
		c.by[name] = map[contested.Field]*contest{}
	}
	if c.by[name][field] == nil {
		c.by[name][field] = &contest{}
	}
	return c.by[name][field]
}

// of are the fields of a name that are not written for now, and after how long to look again; 0 for never. What has not been written for a
// pause and a window more is forgotten: nobody sets it back any longer.
func (c *contests) of(name types.NamespacedName, now time.Time) (held contested.Fields, next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for field, k := range c.by[name] {
		left := k.pause - now.Sub(k.last)
		switch {
		case left > 0:
			if held == nil {
				held = contested.Fields{}
			}
			held[field] = k.value
			if next == 0 || left < next {
				next = left
			}
		case now.Sub(k.last) > k.pause+contestWindow:
			delete(c.by[name], field)
		}
	}
	if len(c.by[name]) == 0 {
		delete(c.by, name)
	}
	return held, next
}

// gone forgets what belongs to an object that is not there: the next one of its name is another.
func (c *contests) gone(name types.NamespacedName, belongs func(contested.Field) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.by[name], func(field contested.Field, _ *contest) bool { return belongs(field) })
	if len(c.by[name]) == 0 {
		delete(c.by, name)
	}
}

func ofExport(field contested.Field) bool { return field == contested.FieldExport }

func ofImport(field contested.Field) bool { return !ofExport(field) }

// sweepLocked forgets, once in a window, all fields that have not been written for long.
func (c *contests) sweepLocked(now time.Time) {
	if now.Sub(c.swept) < contestWindow {
		return
	}
	c.swept = now
	for name, fields := range c.by {
		maps.DeleteFunc(fields, func(_ contested.Field, k *contest) bool { return now.Sub(k.last) > k.pause+contestWindow })
		if len(fields) == 0 {
			delete(c.by, name)
		}
	}
}

// report tells of contested fields, once for each.
func (r *serviceReconciler) report(ctx context.Context, state observed.State, fields []contested.Field) {
	for _, field := range fields {
		contestedFields.WithLabelValues(field.Kind()).Inc()
		log.FromContext(ctx).Info("another writer or the API server undoes what this controller writes to a field: it is left alone for some minutes at a time", "field", field)
		if of := contestedOn(state, field); of != nil {
			r.writer.Tell(of, desired.Event{Type: corev1.EventTypeWarning, Reason: desired.ReasonContested,
				Message: string(field) + ": another writer, a webhook or the API server undoes what this controller writes, so it is left alone for some minutes at a time. " +
					"metadata.managedFields of the object names the writers"})
		}
	}
}

// contestedOn is the object to tell of a contested field on; nil where there is none.
func contestedOn(state observed.State, field contested.Field) runtime.Object {
	switch {
	case ofExport(field) && state.Clusterset != nil && state.Clusterset.Export != nil:
		return state.Clusterset.Export
	case state.Import != nil:
		return state.Import
	}
	return nil
}

// learnNoEffect adds fields to the state whose write had no effect.
func (r *serviceReconciler) learnNoEffect(ctx context.Context, key types.NamespacedName, state *observed.State, noEffect *apply.NoEffectError) {
	r.report(ctx, *state, r.contests.noEffect(key, noEffect.Fields, r.now()))
	state.Contested, _ = r.contests.of(key, r.now())
}
