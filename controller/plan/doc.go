// Package plan decides what the controller writes. It is pure: state in, changes out; no client, no logger, no metrics, no
// clock (the time comes in with the state). imports_test.go holds that wall.
//
// Import is given one ServiceImport with everything that belongs to it and returns the writes that are missing, at most one
// for each object. The caller applies them and calls again when the objects have changed; the same state always gives the
// same changes, and a state in which nothing is missing gives none. So a crash between any two writes costs nothing: the next
// plan starts from what is there.
//
// The order of its rules:
//
//  1. An import that is being deleted: nothing. Its derived Service goes by garbage collection.
//  2. An import that Karmada manages: `ips` (and `ipFamilies`) follow the Service that Karmada propagates, and nothing else
//     is written, because Karmada reverts or prunes the rest (KEP-1645 knows no such object; K5, K8, K10).
//  3. Headless: no `ips` (C25), no derived Service, no label that leads slices to it. Addresses that a user had set wait in
//     an annotation for the flip back (C16).
//  4. ClusterSetIP: the Service of the derived name is, in this order, ours, read only (Karmada's, or one that a user or
//     another controller named in the annotation), or foreign. See Kind. A foreign one gets nothing that was meant for ours.
//  5. `ips` are stable for the import's life (C24): a derived Service that was lost is made again with the addresses that
//     the annotation remembers.
//  6. Conditions come last, in a plan that has nothing else to write: they say what is, not what should be.
package plan
