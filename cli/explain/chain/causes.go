package chain

import "github.com/clusterset-dns/multicluster/cli/output"

// StaleDNSServer is the cause that the answer of a DNS server differs from the import.
const StaleDNSServer = "StaleDNSServer"

// The causes that a chain can have. The link is the place in the documents.
var causes = map[string]string{
	// The name and the search path.
	"NotAServiceName":  search,
	"AbsoluteName":     search,
	"ClusterLocalName": search,
	"LocalService":     search,
	"PodDNS":           search,
	"NoSearchEntry":    search,
	"NDots":            search,
	// DNS of the cluster.
	"NoForwardBlock":      coredns,
	"ForwardElsewhere":    coredns,
	"NoDNSForZone":        coredns,
	"InvalidCorefile":     coredns,
	"NodeLocalNoStanza":   search,
	"PluginMissing":       coredns,
	"DNSNotReady":         coredns,
	"SecondDNSNotReady":   coredns,
	"PluginRights":        coredns,
	"CorefileNotLoaded":   coredns,
	"CorefileRefused":     coredns,
	StaleDNSServer:        coredns,
	"DNSServerFails":      coredns,
	"UnknownPort":         imports,
	"UnknownEndpoint":     imports,
	"FamilyMissing":       imports,
	"NotHeadless":         imports,
	"NoCRD":               "troubleshooting.md#7-the-controller-does-not-start-or-restarts",
	"NamespaceMissing":    imports,
	"NamespaceNotChosen":  "limits.md#import-to-some-namespaces-only",
	"ImportMissing":       imports,
	"NoController":        exports,
	"ControllerSilent":    exports,
	"ImportWithoutStatus": imports,
	// The condition Ready of the import.
	"ImportPending":        imports,
	"ForeignService":       imports,
	"IPFamilyNotSupported": imports,
	"NoPorts":              imports,
	"Contested":            imports,
	"InvalidIPs":           imports,
	"InvalidName":          imports,
	"UnknownType":          imports,
	"ImportRefused":        imports,
	"ServiceRefused":       imports,
	"ImportNotReady":       imports,
	"DerivedMissing":       imports,
	"AddressDiffers":       imports,
	"SlicesMissing":        traffic,
	"EndpointsFailProbes":  "silent-clusters.md#single-endpoints-clusterset-dnsioprobe",
	// Peers.
	"PeerMissing":           exports,
	"PeerUnauthorized":      join,
	"PeerTokenExpired":      join,
	"PeerForbidden":         join,
	"PeerNoCRD":             join,
	"PeerNoController":      join,
	"PeerControllerSilent":  join,
	"PeerWrongID":           join,
	"PeerDuplicateID":       join,
	"DuplicateID":           "join.md#the-cluster-id",
	"PeerDuplicateCluster":  join,
	"PeerInvalidID":         join,
	"PeerInvalidKubeconfig": join,
	"PeerInvalidLimits":     join,
	"PeerSecretMissing":     join,
	"PeerLeaving":           join,
	"PeerTooLarge":          join,
	"PeerStale":             join,
	"PeerUnreachable":       join,
	"PeerSyncing":           join,
	"PeerUnknownReason":     join,
	"PeerLimitNamespaces":   "limits.md#limit-a-peer",
	"PeerLimitEndpoints":    "limits.md#limit-a-peer",
	// Exports.
	"NoExport":             exports,
	"NotForThisCluster":    "limits.md#export-to-some-clusters-only",
	"NamespaceNotExported": "limits.md#export-from-some-namespaces-only",
	"NoService":            exports,
	"InvalidServiceType":   exports,
	"ExportPending":        exports,
	"ExportFailed":         exports,
	"Conflict":             exports,
	"NoPods":               traffic,
	"NoReadyEndpoints":     traffic,
	"NoEndpointPorts":      traffic,
	"OverlappingNetworks":  traffic,
}

const (
	search  = "troubleshooting.md#2-the-search-path"
	coredns = "troubleshooting.md#3-coredns"
	imports = "troubleshooting.md#4-the-import"
	exports = "troubleshooting.md#5-the-export-and-the-peer"
	traffic = "troubleshooting.md#6-traffic"
	join    = "join.md#see-whether-it-works"
)

// Causes returns the IDs of all causes, each with its place in the documents.
func Causes() map[string]string {
	all := make(map[string]string, len(causes))
	for id, link := range causes {
		all[id] = output.Docs + link
	}
	return all
}

// problem builds a problem. Fixes and advice are added by the caller.
func problem(id, what string) *output.Problem {
	return &output.Problem{ID: id, What: what, Link: output.Docs + causes[id]}
}
