package desired

import "strings"

func (e Event) Clipped() Event {
	const limit = 1000 // The API's own is 1024 bytes.
	if len(e.Message) > limit {
		e.Message = strings.ToValidUTF8(e.Message[:limit], "")
	}
	return e
}

// Event is told on the import or the export.
type Event struct{ Type, Reason, Message string }
