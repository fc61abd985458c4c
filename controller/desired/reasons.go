package desired

import (
	"fmt"
	"strings"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// These are reasons of Ready=False in addition to those of mcs-api (C27), which allows others.
const (
	// ReasonForeignService means that a Service of another owner has the derived name.
	ReasonForeignService = "ForeignService"
	// ReasonNoPorts means that the import has no port that a Service can have.
	ReasonNoPorts = "NoPorts"
	// ReasonInvalidName means that no Service can have the name in the annotation.
	ReasonInvalidName = "InvalidName"
	// ReasonInvalidIPs means that ips contain no valid address, or none that can be a VIP.
	ReasonInvalidIPs = "InvalidIPs"
	// ReasonContested means that another writer keeps setting ips back.
	ReasonContested = "Contested"
	// ReasonUnknownType means that the type is neither ClusterSetIP nor Headless.
	ReasonUnknownType = "UnknownType"
	// ReasonImportRefused means that the API server refuses the content that the clusterset gives.
	ReasonImportRefused = "ImportRefused"
	// ReasonRefused means that the API server refuses the derived Service.
	ReasonRefused = "ServiceRefused"

	ReasonReady    = string(mcsv1beta1.ServiceImportReasonReady)
	ReasonPending  = string(mcsv1beta1.ServiceImportReasonPending)
	ReasonFamilies = string(mcsv1beta1.ServiceImportReasonIPFamilyNotSupported)
)

// Ready is the condition Ready before it is compared with the current one.
type Ready struct {
	Reason, Message string
	Notes           []string
}

func readyFor(reason, format string, args ...any) Ready {
	return Ready{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

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
