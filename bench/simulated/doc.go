// Package simulated plays the API servers of peers, so that one controller can be measured with far more peers than one
// machine can run real API servers for.
//
//	World   which objects each peer has: peers × Services × endpoints, always the same for the same numbers
//	Server  the API server of one peer, on a loopback port of its own
//
// A Server has the three kinds that a controller reads of a peer that describes its Services, each in the encoding that the
// controller asks for, and answers what it is asked:
//
//	World.Objects ─▶ store: one for each kind ◀── Apply
//	                   │
//	                   │ items (encoded once), changes (the last ones)
//	                   ▼
//	request ─▶ handler ─▶ discovery                      which versions are served
//	                  ├─▶ list   selectors               ◀─ items
//	                  └─▶ watch  from a version, or all  ◀─ items, then changes, with bookmarks
//
// An answer is what a kube-apiserver answers, as far as a client of these requests can see. Its tests show this: the answers of both
// are compared, and one controller reads a real API server and another one a Server with the same objects, and both write the same.
//
// What it does not do, because nothing that is measured needs it:
//
//   - It checks no credentials, and refuses writes and requests for single objects, pages and old states.
//   - It has no defaulting: World makes objects with the defaults of a kube-apiserver, and Apply stores what it is given.
//   - No object is deleted, or gets other labels.
package simulated
