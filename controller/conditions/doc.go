// Package conditions adds the conditions and events of a name's ServiceImport, and of this
// cluster's ServiceExport, to the changes for that name.
//
//	observed.State, desired.Desired, diff.Changes -> Set -> diff.Changes
//
// Conditions report the actual state, not the desired state. They are therefore only part of
// changes that write nothing else. Changes that other users can cause again and again, such as the
// deletion of unexpected slices, are an exception: they do not delay the conditions. Problems of a
// ServiceExport itself are reported at once.
package conditions
