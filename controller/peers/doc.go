// Package peers reads the other clusters of the clusterset.
//
// Input, from the manager's cache: two Namespaces and the announcements of this cluster, and one Secret for each peer.
// The Secret is named after the peer's cluster ID and contains a kubeconfig, or only a token: then a
// ClusterProfile of this cluster contains the address. Input from each peer:
// its ServiceExports, the EndpointSlices that its controller created for its exports, which also describe
// the exported Services, and the Lease with its announcement (package internal/member). Output: Snapshot, which is what the peers export under one name, and callbacks with
// the names whose Snapshot has changed.
//
//	Secret -> peer -> connection -> three reflectors -> trimmed tables -> contents -> Snapshot
//	                     `---> probe, announcement -> condition -> Lease, event, metric
//	                                                   `-----> PeerState
//
// The rules, in this order:
//
//  1. Data of a peer is used only after all of it has been read, and only while the peer's
//     identity is correct: the peer announces the ID that its Secret is named after (C45,
//     C51), and it is not this cluster (C53). When the identity becomes wrong, the data read
//     before stays, as for a peer that cannot be reached.
//  2. Absent is not empty. Data that was read stays, whatever fails later, until the peer's
//     time has run out, or connections to its endpoints prove that it is dead. The time counts from the last moment when the peer was connected. A
//     Lease keeps that moment over restarts. Time during which no controller runs does not
//     count.
//  3. A changed Secret, or a changed address in its ClusterProfile, causes a new connection, unless
//     only the token is a new one of the same account. The old contents stay until the new ones are
//     complete. A ClusterProfile that is deleted, wrong or unreadable leaves the last address in use.
//  4. A peer whose Secret or label is deleted leaves after a minute, or at once if the Secret
//     was marked before. Until then all its data stays. A Secret that is created again is an
//     update. At the start, a Lease without a Secret is such a peer. The Lease of a peer that
//     has left is deleted when the last import from the peer is deleted.
//  5. No peer leaves while the controller's own namespace is being deleted.
//  6. A peer that disconnects and reconnects too often must stay connected for a while before
//     it is active (PeerRecord).
//  7. A token that expires is renewed at two thirds of its life, if the Secret asks for it. The new
//     token reaches the connection through the Secret, and the connection continues. What another
//     writer writes to the Secret stays.
//  8. The Registry stops when the Lease in the controller's namespace announces another ID than this
//     cluster's. At its start it also stops if nothing is announced and a peer's
//     Secret has this cluster's ID. Nothing is written before both checks, and only the announcement before
//     it is certain that no older installation runs in this cluster.
//
// The life of a peer:
//
//	no Secret at the start -> adopted --(ten minutes)---------------.
//	                             | Secret                           v
//	Secret ------------------> joined <-- Secret -- missing -----> left
//	                             |                    ^             ^
//	                             |-- Secret deleted --'             |
//	                             '-- marked Secret deleted ---------'
//
//	missing -> left: after a minute, or at once if the Lease is marked
//	left:            Lease «Leaving» -> no import records the peer -> Lease deleted
//
// The package uses controller/apply to write the Leases of peers, renewed tokens, and the Lease
// that announces this cluster. It also emits events on the Secrets. It only reads from peers, and
// requests tokens for its own account there.
package peers
