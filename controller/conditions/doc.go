// Package conditions adds to the changes of one name the conditions and events of its ServiceImport and of this cluster's ServiceExport.
//
//	observed.State, desired.Desired, diff.Changes -> Set -> diff.Changes
//
// Conditions report what is, not what should be. They are therefore part of changes that write nothing else. Only what others can make again and
// again, such as slices that have to be deleted, does not hold them up. What is wrong with a ServiceExport itself is reported at once.
package conditions
