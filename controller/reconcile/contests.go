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

// A field is contested if the same value had to be written again after each of several reverts
// within a window, or if a write of it has no effect. The controller then does not write the field
// during a pause, which doubles with each further revert. A write without effect is tried again
// after longestPause, then after twice as long each time: no event shows that its cause is gone.
const (
	contestWindow        = time.Minute
	contestReverts       = 3
	firstPause           = 10 * time.Second
	longestPause         = 5 * time.Minute
	longestWithoutEffect = time.Hour
)

// contests finds fields that another writer keeps reverting. The zero value is empty.
type contests struct {
	mu    sync.Mutex
	by    map[types.NamespacedName]map[contested.Field]*contest
	swept time.Time
}

// contest is the state of one field of one name.
type contest struct {
	value    string
	writes   int       // consecutive writes of this value
	began    time.Time // time of the first of these writes
	last     time.Time
	pause    time.Duration // 0 while the field is not contested
	reported bool
	noEffect bool // the last write changed nothing
}

// wrote records fields that have been written. It returns the fields that become contested.
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

// noEffect records fields whose write changed nothing. It returns the fields that are not yet
// reported.
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

// of returns the fields of a name that must not be written now, and the pause until the next check,
// 0 for never. A field that was not written during its pause and one window more is forgotten,
// because it is no longer reverted.
func (c *contests) of(name types.NamespacedName, now time.Time) (held contested.Fields, next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for field, k := range c.by[name] {
		left := min(k.pause, k.pause-now.Sub(k.last)) // last is later than now after a step of the clock
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

// gone forgets the fields of a deleted object. A new object with that name has no contests.
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

// report counts, logs and emits an event for each contested field.
func (r *serviceReconciler) report(ctx context.Context, state observed.State, fields []contested.Field) {
	for _, field := range fields {
		contestedFields.WithLabelValues(field.Kind()).Inc()
		log.FromContext(ctx).Info("another writer or the API server reverts a field; leaving it alone for some minutes", "field", field)
		if of := contestedOn(state, field); of != nil {
			r.writer.Tell(of, desired.Event{Type: corev1.EventTypeWarning, Reason: desired.ReasonContested,
				Message: string(field) + ": another writer, a webhook or the API server reverts this field, so the controller leaves it alone for some minutes. " +
					"Find the other writer with kubectl get --show-managed-fields, and stop it"})
		}
	}
}

// contestedOn returns the object of the event for a contested field, or nil.
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
