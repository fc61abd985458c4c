// Package plan is one pass over the pure stages of the controller, for one name:
//
//	observed.Recall -> merge.Merge -> desired.Build -> diff.Compare -> conditions.Set
//
// State in, changes out. No stage has a client, a logger, a metric or a clock; the time is part of the state. The same state always gives the
// same changes, and a state in which nothing is missing gives none. So a crash between any two writes costs nothing: the next pass starts from
// what is there. The tests of this package run whole passes in simulated clusters.
package plan
