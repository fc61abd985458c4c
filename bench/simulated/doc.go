// Package simulated plays the API servers of peers, so that one controller can be measured with far more peers than one
// machine can run real API servers for.
//
//	World   which objects each peer has: peers × Services × endpoints, always the same for the same numbers
//	Server  the API server of one peer, on a loopback port of its own
//	Beat    the heartbeats that the controllers of the peers would write
//
// A Server has the four kinds that a controller reads of a peer, and answers what a controller asks for:
//
//	World.Objects ─▶ store: one for each kind ◀── Apply, Edit, Delete
//	                   │
//	                   │ items (encoded once), events (the last ones)
//	                   ▼
//	request ─▶ handler ─▶ discovery                      which versions are served
//	                  ├─▶ list   selectors               ◀─ items
//	                  └─▶ watch  from a version, or all  ◀─ items, then events, with bookmarks
//
// An answer is what a kube-apiserver answers, as far as a client of these requests can see. controller_test.go tests this: one
// controller reads a real API server and another one a Server with the same objects, and both write the same.
//
// What it does not do:
//
//   - It checks no credentials. The kubeconfig has a token, as that of a real peer has, and the token is not looked at.
//   - It has no admission and no defaulting: World makes objects with the defaults of a kube-apiserver, and Apply stores what it is
//     given.
//   - It does not write over HTTP, and does not get single objects. Nothing that reads peers does.
//   - It has no pages, which nothing that reads peers asks for: a list is whole.
//   - It keeps no old states: a list at an exact version other than the current one has expired.
package simulated
