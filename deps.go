package multicluster

import (
	_ "github.com/coredns/caddy"
	_ "github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/core/plugin"
	_ "github.com/miekg/dns"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "k8s.io/api/discovery/v1"
	_ "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	_ "k8s.io/client-go/kubernetes"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/mcs-api/config/crd"
	_ "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	_ "sigs.k8s.io/yaml"
	_ "github.com/google/go-cmp/cmp"
)
