// Package plan runs one pass through the pure stages of the controller, for one name:
//
//	observed.Recall -> merge.Merge -> desired.Build -> diff.Compare -> conditions.Set
//
// The input is a state, and the output is changes. No stage has a client, a logger, a metric or a
// clock; the time is part of the state. The same state always gives the same changes, and a
// complete state gives none. A crash between two writes therefore has no consequences: the next
// pass starts from the existing objects. The tests of this package run whole passes in simulated
// clusters.
package plan
