package desired

import "strings"

// Event is emitted for the import or the export.
type Event struct{ Type, Reason, Message string }

// Clipped is the event with a message that the API takes.
func (e Event) Clipped() Event {
	const limit = 1000 // The API's own is 1024 bytes.
	if len(e.Message) > limit {
		e.Message = strings.ToValidUTF8(e.Message[:limit], "")
	}
	return e
}

// Reasons of events.
const (
	// EventAddressChanged: the derived Service could not get its former addresses again.
	EventAddressChanged = "AddressChanged"
	// EventEndpointsTaken: slices of others belonged to the derived Service.
	EventEndpointsTaken = "EndpointsTakenAway"
	// EventPartlyServed: Ready, but something in the import was left out.
	EventPartlyServed = "PartlyServed"
)
