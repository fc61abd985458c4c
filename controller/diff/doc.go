// Package diff compares what is desired of one name with what exists.
//
//	observed.State, desired.Desired -> Compare -> Changes
//
// A state in which nothing is missing gives no changes, so a change that changes nothing is never written. Changes are sorted: the same
// state always gives the same ones. Slices of ours are compared by a digest, so that a cache need not keep their endpoints (KeepDigest).
package diff
