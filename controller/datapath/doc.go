// Package datapath decides whether a cluster whose API server is silent is dead, or only cut off: an
// API server can be unreachable while the pods serve.
//
// Input: what a peer exports, whether its API server is silent, and which TCP connections to its
// endpoints were accepted. Output: which endpoints to connect to next, and a Verdict. The package
// opens no connection and reads no clock.
//
//	exports -> Targets -> Path -> Schedule -> (connect) -> Schedule -> Path -> Verdict
//
// The package also follows the endpoints of names with the annotation clusterset-dns.io/probe
// (Checks), which does not depend on the API server. The Schedule has the Path and the Checks of all
// clusters, and the rates of their connections.
//
// The rules of a Path:
//
//  1. An endpoint that accepts a connection is proven. It stays proven until three connections in a
//     row fail while the API server answers. Only a proven endpoint can show that a cluster is dead:
//     a network policy can refuse connections for as long as the cluster exists.
//  2. A silent cluster is dead when three proven endpoints, or all of them if there are fewer, have
//     failed three times in a row for at least three seconds, and no endpoint has answered in that
//     time.
//  3. A silent cluster with an endpoint that answers is cut off.
//
// The thresholds are those of a kubelet's liveness probe (three failures), at one connection a
// second.
package datapath
