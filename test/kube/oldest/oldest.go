//go:build tools

// Package oldest pins the oldest supported kube-apiserver, which `make compat` runs the tests of the API against. etcd and the other programs
// are those of package kube.
package oldest

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
