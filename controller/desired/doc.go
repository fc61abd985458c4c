// Package desired builds the objects of one name as they should be: the ServiceImport, its derived Service and its EndpointSlices. It does not
// compare them with those that exist; diff does.
//
//	observed.State, observed.Known, merge.Merged -> Build -> Desired
//
// The rules of Build, in this order:
//
//  1. No cluster exports the name, and no silent cluster did: an import of ours is withdrawn, with its slices (C22, C36).
//  2. Without the namespace there is no import (C20). An import that is being deleted stays as it is; its derived Service goes by garbage
//     collection.
//  3. An import that others made stays theirs. It gets what any import gets (see below), and no endpoints of the clusterset.
//  4. An import of ours has the content that merge gives (C11 to C19). A silent cluster takes part with what is recorded of it, and its
//     slices stay. Where nothing is recorded of it, the import's content stays as well. A cluster whose time has run out loses its slices
//     only. The import is written before anything that follows from it (ImportFirst).
//
// What any import gets, by its type and by who keeps it:
//
//  1. Karmada manages it: ips and ipFamilies follow the Service that Karmada propagates. Nothing else is written, because Karmada reverts
//     or prunes the rest (K5, K8, K10).
//  2. Headless: no ips (C25) and no derived Service. Addresses that a user had set wait in an annotation until the type is ClusterSetIP
//     again (C16).
//  3. ClusterSetIP: a derived Service, by its kind (ownership.KindOf). One of ours serves the import alone: slices of others that belong to
//     it are deleted. A foreign one gets nothing.
//  4. ips are stable for the import's life (C24): a derived Service that was lost is made again with the recorded addresses. Addresses
//     that another Service has by now leave ips at once, because DNS would lead clients to that Service.
//  5. Slices of others in an import of others are copied, not labelled (copies.go has the reason).
package desired
