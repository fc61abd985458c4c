// Package faultproxy stands between a client and an API server, on loopback, and disturbs what they say to each other: for tests of what
// becomes of a client then. There are two of them, and each can be disturbed while it runs.
//
// A Proxy is for connections. It does not look at what they carry, so that any identity of a client passes:
//
//	cut            Cut     closes all; new ones are welcome
//	refused        Refuse  closes all, and nobody listens
//	slow           Slow    everything arrives later
//	half-open      Stall   all are open and silent, new ones too, until they go on where they were
//	               Strand  all are open and silent for ever; new ones work
//
// An API is for requests, with a Proxy before it for its connections. It ends TLS, as it has to understand and to answer:
//
//	429, 500, ...  Answer  requests get an error, all of them or those for some resources; 401 is what an expired token gets
//	too old        Expire  open watches end with 410 Gone, as if etcd had been compacted; who watches has to list again
//	nonsense       Hollow  lists are 200 and say nothing, not even of what kind they are
//
// A client's certificate ends where TLS ends: through an API, who is somebody by a bearer token passes, and nobody else. Both kinds
// speak HTTP/1.1 and HTTP/2, and hand watches on event by event.
//
// A disturbance that lasts gives a function that ends it. Close ends everything: listeners, connections, goroutines.
package faultproxy
