package desired

import (
	"fmt"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Reasons of Ready=False beyond those of mcs-api (C27), which allows others.
const (
	// ReasonForeignService: a Service that is not ours has the derived name.
	ReasonForeignService = "ForeignService"
	// ReasonNoPorts: no port that a Service could have.
	ReasonNoPorts = "NoPorts"
	// ReasonInvalidName: no Service can have the name that the annotation gives.
	ReasonInvalidName = "InvalidName"
	// ReasonInvalidIPs: ips hold nothing that is an address, or that may be a VIP.
	ReasonInvalidIPs = "InvalidIPs"
	// ReasonContested: another writer keeps setting ips back.
	ReasonContested = "Contested"
	// ReasonUnknownType: neither ClusterSetIP nor Headless.
	ReasonUnknownType = "UnknownType"
	// ReasonImportRefused: the API server refuses the import as the clusterset gives it.
	ReasonImportRefused = "ImportRefused"
	// ReasonRefused: the API server refuses the derived Service.
	ReasonRefused = "ServiceRefused"

	ReasonReady    = string(mcsv1beta1.ServiceImportReasonReady)
	ReasonPending  = string(mcsv1beta1.ServiceImportReasonPending)
	ReasonFamilies = string(mcsv1beta1.ServiceImportReasonIPFamilyNotSupported)
)

// Ready is the Ready condition before it is compared with the one that stands.
type Ready struct {
	Reason, Message string
	Notes           []string
}

func readyFor(reason, format string, args ...any) Ready {
	return Ready{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
