// Package peers reads the other clusters of the clusterset.
//
// In: the Namespaces of this cluster, and one Secret for each peer, named after its cluster id, with a kubeconfig, both from the manager's
// cache; and of each peer its ServiceExports, Services, Namespaces, and the EndpointSlices that its controller made of its exports. Out: Snapshot, which is
// what the peers export under one name, and callbacks with the names for which that has changed.
//
//	Secret -> peer -> connection -> four reflectors -> tables of trimmed values -> contents -> Snapshot
//	                     `---> probe, Namespaces -> condition -> Lease, event, metric
//	                                                   `-----> PeerState
//
// The rules, in this order:
//
//  1. Nothing of a peer is used before all of it has been read, and before its identity is right: it announces the id that its Secret is
//     named after (C45, C51), and it is not this cluster (C53). When its identity becomes wrong, what was read before stays, as it does for a
//     peer that cannot be reached.
//  2. Absent is not empty. What was read stays, whatever fails later, until the peer's time has run out. That is counted from the moment
//     when it was connected last; a Lease remembers it over restarts. Time in which no controller ran does not count.
//  3. A changed Secret leads to a new connection. The old contents stay until the new ones are complete.
//  4. A peer whose Secret or label is gone leaves after a minute, and at once if the Secret was marked before. Until then everything of it
//     stays. A Secret that comes back is an update. At the start, a Lease without a Secret is such a peer. The Lease of a peer that has
//     left goes when the last import of it is gone.
//  5. No peer leaves while the controller's own namespace is being deleted.
//  6. A peer that goes and comes back too often must stay for a while before it is active (PeerRecord).
//  7. The Registry ends when the controller's namespace announces another id than this cluster's. At its start it also ends where the namespace
//     announces none and a peer's Secret has this cluster's id. Until both are checked, nothing is written.
//
// The life of a peer, by the fields that hold it:
//
//	no Secret at the start -> adopted --(ten minutes)-----------------------------------.
//	                             | Secret                                               v
//	Secret ------------------> joined <-- Secret -- missing --(a minute, or marked)--> left -> Lease «Leaving» -> no import remembers it -> gone
//	                             |                    ^                                 ^
//	                             |----- no Secret ----'                                 |
//	                             '----- the Secret was marked, and goes ----------------'
//
// Through apply it writes the Leases of peers and the annotation that announces this cluster's id; and events on the Secrets. Peers are only
// read.
package peers
