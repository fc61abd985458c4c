// Package preference chooses the clusters that get the traffic of one name in this cluster, from an
// ordered list in an annotation. It computes values from values.
//
//	Texts (annotations) -> Resolve -> Policy -> Choose -> Choice
//
// A list has these entries:
//
//	local                             this cluster
//	topology.kubernetes.io/region     clusters with this cluster's value of a property
//	topology.kubernetes.io/region=eu  clusters with this value of the property
//	cluster=member2                   one cluster
//	any                               all clusters
//
// The rules, in this order:
//
//  1. An entry is sufficient if its clusters together have min-ready ready endpoints. An endpoint
//     counts once, also with addresses of two families.
//  2. The first sufficient entry is used. Leaving an entry for a later one does not wait.
//  3. Returning to an earlier entry waits until it has been sufficient for return-after, without an
//     interruption that was seen. If the entry in use is no longer sufficient, and no later one is,
//     the return does not wait.
//  4. If no entry is sufficient, all clusters of the list get the traffic. Each of them can have
//     fewer ready endpoints than min-ready, or endpoints that are ending and still serve.
//  5. Traffic never goes to a cluster that no entry of the list contains.
//  6. For a user's Service with its own name, the clusters of the next sufficient entry are in
//     reserve: kube-proxy uses them as soon as no endpoint is ready.
//
// The clusters that are not chosen stay connected until the chosen ones are (package desired), so
// there is no moment without ready endpoints.
package preference
