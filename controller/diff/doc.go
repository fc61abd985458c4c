// Package diff compares the desired state of one name with the existing objects.
//
//	observed.State, desired.Desired -> Compare -> Changes
//
// A complete state gives no changes, so an edit without a difference is never written. Changes are
// sorted: the same state always gives the same changes. The controller's slices are compared by a
// digest, so that a cache does not have to keep their endpoints (package digest).
package diff
