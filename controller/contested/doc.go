// Package contested contains the fields that another writer can set back: a controller such as
// Karmada's, a mutating webhook, or an API server that does not know the field. The controller
// leaves a field that is set back repeatedly alone for a while, so that no other write waits for
// it, and so that two writers do not overwrite each other endlessly. The package reconcile detects
// these fields; see controller/README.md.
//
// Fields that a tenant could use to take over a Service's traffic are never left alone: the
// Service's selector, its externalIPs, the type ExternalName, and all fields of EndpointSlices.
package contested
