// Package plan decides what the controller writes. It is pure: state in, changes out; no client, no logger, no metrics, no
// clock (the time comes in with the state). imports_test.go holds that wall.
//
// Plan is given one name, with what each cluster says of it and everything that belongs to its ServiceImport here, and returns the
// writes that are missing, at most one for each object. Merge makes one import of all exports, and Mirror its slices; Import is about
// what every import needs, whoever made it. The caller applies them and calls again when the objects have changed; the same state always gives the
// same changes, and a state in which nothing is missing gives none. So a crash between any two writes costs nothing: the next
// plan starts from what is there.
//
// The order of Plan's rules:
//
//  1. Nobody exports the name, and nobody that has not been heard yet did: what is ours goes (C22, C36).
//  2. Without the namespace there is no import (C20).
//  3. An import that others made stays theirs: rules of Import only, and no slice of ours.
//  4. An import of ours: the merge of all exports (C11 to C19). A cluster that it has something of and that has not been heard yet takes
//     part with what the import records of it, and its slices stay: absent is not empty. Where there is no record, the import's content
//     stays as well. A cluster whose time has run out loses its slices only. The import is written before anything that follows from
//     it. No Service uses slices of others that bear its name.
//  5. The conditions of this cluster's ServiceExport come last (C7 to C10).
//
// The order of Import's rules:
//
//  1. An import that is being deleted: nothing. Its derived Service goes by garbage collection.
//  2. An import that Karmada manages: `ips` (and `ipFamilies`) follow the Service that Karmada propagates, and nothing else
//     is written, because Karmada reverts or prunes the rest (KEP-1645 knows no such object; K5, K8, K10).
//  3. Headless: no `ips` (C25), no derived Service, and slices that belong to none. Addresses that a user had set wait in
//     an annotation for the flip back (C16).
//  4. ClusterSetIP: the Service of the derived name is, in this order, ours, read only (Karmada's, or one that a user or
//     another controller named in the annotation), or foreign. See Kind. A foreign one gets nothing that was meant for ours.
//     To ours of an import of ours nothing belongs but the import's slices: all others are deleted. The label by which a slice
//     belongs to a Service never changes (slices.go). Slices of an import of others are copied, not labelled.
//  5. `ips` are stable for the import's life (C24): a derived Service that was lost is made again with the addresses that
//     the annotation remembers. Those that another Service has by now are taken back at once: DNS would lead to that one.
//  6. Conditions come last, in a plan that has nothing else to write but slices to delete that others lead to our Service: they say
//     what is, not what should be. Others must not be able to keep them from being said.
package plan
