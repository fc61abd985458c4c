// Package contested knows the fields that another writer may set back: a controller such as Karmada's, a mutating webhook, or an API server
// that does not know the field. A field that keeps coming back is left alone for a while, so that nothing else waits for it, and two writers
// do not overwrite each other without end. reconcile finds out which fields those are; see controller/README.md.
//
// Fields by which a tenant could take a Service's traffic are never left alone: its selector, its externalIPs, the type ExternalName, and
// all of EndpointSlices.
package contested
