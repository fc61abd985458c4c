package desired

import "strings"

// Event is emitted for the import or the export.
type Event struct{ Type, Reason, Message string }

// Clipped returns the event with a message that fits the API's limit.
func (e Event) Clipped() Event {
	const limit = 1000 // The API's limit is 1024 bytes.
	if len(e.Message) > limit {
		e.Message = strings.ToValidUTF8(e.Message[:limit], "")
	}
	return e
}

// Reasons of events.
const (
	// EventAddressChanged means that the derived Service could not get its former addresses again.
	EventAddressChanged = "AddressChanged"
	// EventEndpointsTaken means that slices of others belonged to the derived Service.
	EventEndpointsTaken = "EndpointsTakenAway"
	// EventPartlyServed means that the import is ready, but a part of it was left out.
	EventPartlyServed = "PartlyServed"
)
