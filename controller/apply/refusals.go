package apply

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// firstPause is the pause after the first refusal. It doubles with each further one, up to longestPause. The API
	// server releases an address a moment after its Service is gone, and a quota stays for hours.
	firstPause, longestPause = 100 * time.Millisecond, time.Minute
)

// Refusals are the writes of one name that the API server has refused, over several passes. Until the next try, an
// equal write gets the same answer without a request. So neither the events of a name nor an answer whose text differs
// each time, such as one with the ID of the request, cause a request and an edit of a condition each. The zero value has
// none. Only one pass at a time uses it.
type Refusals struct{ by map[[sha256.Size]byte]refusal } // by what was sent

// refusal is the last answer to a write, and the time of the next try.
type refusal struct {
	answer error
	pause  time.Duration
	until  time.Time
}

// Over returns a client that asks Refusals first. Next is the pause until the earliest further try of what it did not
// send, or was refused, 0 for none.
func (r *Refusals) Over(w client.Writer, now time.Time) *Cautious {
	// Most refusals end because something else is sent.
	maps.DeleteFunc(r.by, func(_ [sha256.Size]byte, old refusal) bool { return now.Sub(old.until).Abs() > longestPause })
	if r.by == nil {
		r.by = map[[sha256.Size]byte]refusal{}
	}
	return &Cautious{Writer: w, by: r.by, now: now}
}

// Cautious is a client for the writes of one pass.
type Cautious struct {
	client.Writer
	by   map[[sha256.Size]byte]refusal
	now  time.Time
	Next time.Duration
}

// Create implements client.Writer.
func (c *Cautious) Create(ctx context.Context, object client.Object, o ...client.CreateOption) error {
	return c.try("create", object, func() any { return object }, func() error { return c.Writer.Create(ctx, object, o...) })
}

// Update implements client.Writer.
func (c *Cautious) Update(ctx context.Context, object client.Object, o ...client.UpdateOption) error {
	return c.try("update", object, func() any { return object }, func() error { return c.Writer.Update(ctx, object, o...) })
}

// Patch implements client.Writer.
func (c *Cautious) Patch(ctx context.Context, object client.Object, patch client.Patch, o ...client.PatchOption) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	return c.try("patch", object, func() any { return json.RawMessage(data) }, func() error { return c.Writer.Patch(ctx, object, patch, o...) })
}

// Apply implements client.Writer.
func (c *Cautious) Apply(ctx context.Context, object runtime.ApplyConfiguration, o ...client.ApplyOption) error {
	return c.try("apply", nil, func() any { return object }, func() error { return c.Writer.Apply(ctx, object, o...) })
}

// try sends what was not refused a moment ago.
func (c *Cautious) try(verb string, object client.Object, body func() any, send func() error) error {
	key, known := [sha256.Size]byte{}, len(c.by) > 0
	if known { // Otherwise nothing has to be computed.
		key = keyOf(verb, object, body())
		last := c.by[key]
		if left := min(last.until.Sub(c.now), last.pause); left > 0 { // The clock can have been set back.
			c.wait(left)
			return last.answer
		}
	}
	err := send()
	if !isRefusal(err) {
		delete(c.by, key)
		return err
	}
	if !known {
		key = keyOf(verb, object, body())
	}
	pause := min(max(2*c.by[key].pause, firstPause), longestPause)
	c.by[key] = refusal{err, pause, c.now.Add(pause)}
	c.wait(pause)
	return err
}

func (c *Cautious) wait(pause time.Duration) {
	if c.Next == 0 || pause < c.Next {
		c.Next = pause
	}
}

// keyOf identifies a write. The resourceVersion does not count: the edit of a condition changes it.
func keyOf(verb string, object client.Object, body any) [sha256.Size]byte {
	// The objects of the API always marshal.
	text, _ := json.Marshal(body)
	var content map[string]any
	if json.Unmarshal(text, &content) == nil {
		if m, ok := content["metadata"].(map[string]any); ok {
			delete(m, "resourceVersion")
		}
		text, _ = json.Marshal(content)
	}
	name := ""
	if object != nil {
		name = fmt.Sprintf("%T %s/%s", object, object.GetNamespace(), object.GetName())
	}
	return sha256.Sum256(fmt.Appendf(nil, "%s %s %s", verb, name, text))
}
