// Package desired builds the desired objects of one name: the ServiceImport, its derived Service
// and its EndpointSlices. It does not compare them with the existing objects; package diff does.
//
//	observed.State, observed.Known, merge.Merged -> Build -> Desired
//
// Build applies these rules, in this order:
//
//  1. If no cluster exports the name, and no silent cluster did, an import that the controller owns
//     is withdrawn with its slices (C22, C36).
//  2. Without the namespace there is no import (C20). An import that is being deleted stays
//     unchanged; the garbage collector deletes its derived Service.
//  3. An import that another user made stays under that user's control. It gets what any import
//     gets (see below), and no endpoints of the clusterset.
//  4. An import that the controller owns has the content that merge gives (C11 to C19). A silent
//     cluster counts with what is recorded of it, and its slices stay. If nothing is recorded of
//     it, the import's content stays as well. A cluster whose time has run out loses only its
//     slices. The import is written before anything that follows from it (ImportFirst).
//
// Any import gets the following, depending on its type and on who manages it:
//
//  1. Karmada manages it: ips and ipFamilies follow the Service that Karmada propagates. Nothing
//     else of it is written, because Karmada reverts or prunes the rest (K5, K8, K10). If it is
//     headless, Karmada's slices are copied, because they lack the label of the import.
//  2. Headless: no ips (C25) and no derived Service. Addresses that a user set are saved in an
//     annotation until the type is ClusterSetIP again (C16).
//  3. ClusterSetIP: a derived Service, depending on its kind (ownership.KindOf). A Service of the
//     controller serves only the import: slices of others that belong to it are deleted. A foreign
//     Service gets nothing.
//  4. ips are stable for the import's life (C24): a lost derived Service is created again with the
//     recorded addresses. Addresses that another Service has by now leave ips at once, because DNS
//     would send clients to that Service.
//  5. In an import that the controller does not own, slices of others are copied, not labelled
//     (copies.go explains why).
package desired
