package apply

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"time"

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

// forget forgets what was not tried for long: most refusals end because something else is sent.
func (r *Refusals) forget(now time.Time) {
	maps.DeleteFunc(r.by, func(_ [sha256.Size]byte, old refusal) bool { return now.Sub(old.until).Abs() > longestPause })
}

// try sends a write, unless it was refused a moment ago.
func (w *Writer) try(verb string, object client.Object, body any, send func() error) error {
	all, key := w.Refusals.by, [sha256.Size]byte{}
	if len(all) > 0 { // Otherwise nothing has to be computed.
		key = keyOf(verb, object, body)
		last := all[key]
		if left := min(last.until.Sub(w.Now), last.pause); left > 0 { // The clock can have been set back.
			w.again(left)
			return last.answer
		}
	}
	err := send()
	if !isRefusal(err) {
		delete(all, key)
		return err
	}
	if all == nil {
		all = map[[sha256.Size]byte]refusal{}
		w.Refusals.by = all
	}
	key = keyOf(verb, object, body) // a write that was refused has changed nothing of it
	pause := min(max(2*all[key].pause, firstPause), longestPause)
	all[key] = refusal{err, pause, w.Now.Add(pause)}
	w.again(pause)
	return err
}

// again makes Next not longer than a pause.
func (w *Writer) again(pause time.Duration) {
	if w.Next == 0 || pause < w.Next {
		w.Next = pause
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
	return sha256.Sum256(fmt.Appendf(nil, "%s %T %s/%s %s", verb, object, object.GetNamespace(), object.GetName(), text))
}
