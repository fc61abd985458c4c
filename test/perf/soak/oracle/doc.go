// Package oracle knows what was true when, and checks answers by it. It asks nobody and has no clock: instants are times since the
// begin of a run, which the caller reads.
//
// In: for each API object its states, each with the instant before its write was sent and the one after the API server had said that it
// was done; questions, and their replies. Out: an error for every reply that fits no state of its objects that could be true.
//
// Every state has a number of its own, which is in all that is answered of it: in an import's addresses and ports; in a slice's ports,
// and together with the endpoint's place in each address. So a reply shows which state it is of, one that mixes two states shows both,
// and one that lacks an endpoint shows its place.
//
// A reply may show a state if all of these are so:
//
//  1. The state's write had begun before the reply came.
//  2. No question that had been answered before this one was asked showed a later state: answers do not go back.
//  3. Its successor was not there yet at the last fence. A fence is a write to one more object of the same resource, which is known
//     to be answered: the API server gives all writes one order, and a watch brings them in that order, so that whatever was done before
//     the fence was sent has to be answered too. Thus a change that was lost shows, also while the changes go on.
//
// What was sent but not yet acknowledged may be so or not; so may a change that the plugin cannot have heard of yet.
package oracle
