// Package index contains the names and records of a clusterset zone, and answers questions from
// them.
//
// In: the trimmed values Service and Slice, stored in a State. Out: an Index, which is immutable
// and safe for concurrent use. Lookup answers a question, and Transfer lists everything that Lookup
// answers. An object's change decides which names exist, which hosts are SRV targets, and which
// addresses belong together (With). A query is one lookup, and the construction of its records.
// There is one exception: SRV records are one for each endpoint and port, a product that does not
// fit into memory. They are computed while they are written, no more than fit the message, and from a
// bounded number of targets. An Index contains neither zone nor TTL: they come with the question, so that one Index serves every
// zone and server block.
//
// The names below a zone, and their records (SPEC is the multicluster DNS specification of
// KEP-1645, schema 1.0.0):
//
//	@                                               SOA, NS; the zone's apex
//	dns-version                                     TXT "1.0.0" (SPEC 2.2)
//	ns.dns                                          A, AAAA of this server, the target of the apex' NS
//	<service>.<ns>.svc                              ClusterSetIP: A, AAAA of the import's IPs (SPEC 2.3.1)
//	                                                Headless: A, AAAA of every ready endpoint (SPEC 2.4.1)
//	                                                both: SRV of every named port, as conformance and CoreDNS have it
//	_<port>._<proto>.<service>.<ns>.svc             SRV of a named port (SPEC 2.3.2, 2.4.3)
//	<hostname>.<clusterid>.<service>.<ns>.svc       Headless: A, AAAA of one endpoint (SPEC 2.4.2); <clusterid> can contain dots
//
// A headless service that is Managed is built from its managed slices only. Other users with
// permission to write EndpointSlices add no records to it.
//
// Existence: a name exists if it has a record, or if a name below it has one. A question for
// another type is then NoData (RFC 8020). So the apex, svc, dns, each namespace with an import,
// _<proto> above a named port, and <clusterid> above its hosts exist; none of them has an address.
// Every other name is a NameError, and so is a headless service without a ready endpoint (SPEC
// 2.4.1). A ClusterSetIP import exists with or without IPs, ports and endpoints (SPEC 2.3 has no
// readiness clause).
//
// Not implemented: PTR records (SPEC 2.3.3 does not require them), names for one cluster of a
// service (SPEC 2.3.4 and 2.4.4 forbid them), a pod subtree, and SRV records of unnamed ports (SPEC
// 2.3.2). The package imports no client, logger, metric or clock.
package index
