//go:build tools

// Package programs pins the programs that the tests build from source: their versions live in this module's go.mod alone, so that
// k8s.io/kubernetes and etcd never enter the main module's graph. Modules that this project's own programs compile too have the main
// module's versions, so that a new machine compiles each package once.
package programs

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
