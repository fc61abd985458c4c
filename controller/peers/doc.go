// Package peers knows what the clusters of the clusterset say: the endpoints of the own one, and what its peers export.
//
// In: EndpointSlices and Namespaces of the own cluster; one Secret for each peer, named after its cluster id, with a kubeconfig; and of
// each peer its ServiceExports, Services, Namespaces and those EndpointSlices that its controller wrote of its own exports. Out: Gather,
// which gives what the peers that count say of one name, and the callbacks that tell of which names that has changed.
//
//	Secret -> peer -> link -> four follows -> stores of trimmed values -> view -> Gather
//	                   `---> probe, Namespaces -> condition -> Lease, event, metric
//	                                                 `-----> standing (package plan)
//
// The rules, in order:
//
//  1. Nothing of a peer is used before all that it says has been heard, and its identity is right: it announces the id that its Secret
//     is named after (C45, C51), and it is no other member, nor the own cluster (C53). When its identity turns wrong, what it said before
//     stays as it is, as of a peer that cannot be reached.
//  2. Absent is not empty. What has been heard stays as it is whatever fails later, until the peer's time has run out, counted from the
//     moment when it was connected last; a Lease remembers that over restarts. Time during which no controller looked does not count.
//  3. A changed Secret leads to a new connection. The old view stays until the new one is complete.
//  4. A peer whose Secret or label is gone leaves after a minute, and at once where the Secret was marked before. Until then everything
//     of it stays. A Secret that comes back is an update. At the start, a Lease without a Secret is such a peer.
//  5. No peer leaves while the controller's own namespace is being deleted.
//  6. A peer that goes and comes back too often has to stay for a while before it counts (PeerRecord).
//  7. Nothing is written, and the Set ends, where the controller's namespace announces another id than the own, or where it announces none
//     and a peer's Secret bears the own.
//
// Written are: the Leases of peers, the annotation by which the own cluster announces its id, and events on the Secrets. Peers are
// only read.
package peers
