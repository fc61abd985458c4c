// Package faultproxy is a proxy between a client and an API server, on loopback, that disturbs
// their communication. Tests use it to see how a client behaves. There are two kinds, and each can
// be disturbed while it runs.
//
// A Proxy is for connections. It does not look at their content, so that any identity of a client
// passes:
//
//	cut            Cut     closes all; new ones work
//	refused        Refuse  closes all, and refuses new ones
//	slow           Slow    all data arrives later
//	half-open      Stall   all are open and silent, new ones too, until it is resumed
//	               Strand  all are open and silent forever; new ones work
//
// An API is for requests, with a Proxy before it for its connections. It terminates TLS, because it
// reads and answers requests:
//
//	429, 500, ...  Answer  requests get an error, all of them or those for some resources; 401 is the answer for an expired token
//	too old        Expire  open watches end with 410 Gone, as if etcd had been compacted; their clients must list again
//	nonsense       Hollow  lists have status 200 and no content, not even a kind
//
// A client certificate ends where TLS ends: through an API, only identities with a bearer token
// pass. Both kinds speak HTTP/1.1 and HTTP/2, and forward watches event by event.
//
// A disturbance that lasts returns a function that ends it. Close ends everything: listeners,
// connections, goroutines.
package faultproxy
