// Package oracle records what was true when, and checks answers against it. It sends no requests
// and has no clock: instants are times since the beginning of a run, which the caller reads.
//
// In: for each API object its states, each with the instant before its write was sent and the
// instant after the API server confirmed it; questions, and their replies. Out: an error for every
// reply that fits no state of its objects that could be true.
//
// Every state has its own number, which is part of all its answers: of an import's addresses and
// ports; of a slice's ports, and together with the endpoint's position of each address. So a reply
// shows its state, a reply that mixes two states shows both, and a reply that lacks an endpoint
// shows its position.
//
// A reply may show a state if all of these are true:
//
// 1. The state's write had begun before the reply came. 2. No question that had been answered
// before this one was asked showed a later state: answers do not go back. 3. Its successor did not
// exist yet at the last fence. A fence is a write to one more object of the same resource, which is
// known to be answered: the API server orders all writes, and a watch delivers them in that order,
// so that every write before the fence must be answered too. Thus a lost change shows, also while
// the changes continue.
//
// A write that was sent and is not confirmed yet may show or not. The same is true for a change
// that the plugin cannot have received yet.
package oracle
