// Package index holds what a clusterset zone answers, and answers from it.
//
// In: the trimmed values Service and Slice, kept in a State. Out: an Index, which never changes once it is made and may be read by
// any number of goroutines, with its Lookup, and Transfer, which lists all that Lookup answers. What exists, who is whose target, and
// which addresses belong together is decided when an object changes (With); a query is one lookup and the writing down of its records.
// There is one exception: SRV records are one for each endpoint and port, a product for which there is no memory. They are found while
// they are written, and no more of them than the message has room for.
// An Index knows no zone and no TTL: they come with the question, so that one Index serves every zone and server block.
//
// The names below a zone, and what they have (SPEC is the multicluster DNS specification of KEP-1645, schema 1.0.0):
//
//	@                                               SOA, NS; the zone's apex
//	dns-version                                     TXT "1.0.0" (SPEC 2.2)
//	ns.dns                                          A, AAAA of this server, the target of the apex' NS
//	<service>.<ns>.svc                              ClusterSetIP: A, AAAA of the import's IPs (SPEC 2.3.1)
//	                                                Headless: A, AAAA of every ready endpoint (SPEC 2.4.1)
//	                                                both: SRV of every named port, as conformance and CoreDNS have it
//	_<port>._<proto>.<service>.<ns>.svc             SRV of a named port (SPEC 2.3.2, 2.4.3)
//	<hostname>.<clusterid>.<service>.<ns>.svc       Headless: A, AAAA of one endpoint (SPEC 2.4.2); <clusterid> may have dots
//
// A headless service that is Managed is made of its managed slices alone: whoever else may write slices adds no records to it.
//
// Existence: a name that has a record, or a name below it that has one, exists: a question for another type is NoData (RFC 8020).
// So exist the apex, svc, dns, each namespace with an import, _<proto> above a named port, and <clusterid> above its hosts; none of
// these has an address. Every other name is a NameError, and so is a headless service without any ready endpoint (SPEC 2.4.1). A
// ClusterSetIP import exists whether it has IPs, ports or endpoints, or not (SPEC 2.3 has no readiness clause).
//
// What it will not do: PTR records (SPEC 2.3.3 does not ask for them), names that pick one cluster of a service (SPEC 2.3.4 and
// 2.4.4 forbid them), a pod subtree, SRV for unnamed ports (SPEC 2.3.2). It imports no client, logger, metric or clock.
package index
