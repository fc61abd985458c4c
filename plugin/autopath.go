package multicluster

import (
	"slices"
	"strings"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
)

// AutoPath implements autopath.AutoPather. It returns the search path of the client that sent the
// question, for `autopath @multicluster`. The plugin's zones come after the cluster's own, so that
// a pod finds imports in one question although its resolver does not know these zones.
//
// The namespace of the client is read from the question: the first name that a pod's resolver asks
// for ends in <its namespace>.svc.<cluster domain> (resolv.conf(5), ndots:5). So no watch of Pods
// is needed, unlike autopath with the kubernetes plugin. For any other question, AutoPath returns
// nil, and the question is answered unchanged.
func (m *Multicluster) AutoPath(state request.Request) []string {
	below, ok := strings.CutSuffix(state.Name(), ".svc."+m.clusterDomain)
	dot := strings.LastIndexByte(below, '.')
	if !ok || dot < 0 {
		return nil
	}
	return append([]string{below[dot+1:] + ".svc." + m.clusterDomain}, m.searchTail...)
}

// searchTail returns the part of the search path that all clients share: the rest of the cluster's
// suffixes, the plugin's zones, the suffixes of this server's own resolv.conf (pods have the same
// from their node), and the empty suffix, which autopath requires.
func searchTail(clusterDomain string, zones, own []string) []string {
	tail := append([]string{"svc." + clusterDomain, clusterDomain}, zones...)
	return append(append(tail, own...), "")
}

// ownSearch returns the search suffixes of the server's own resolv.conf, or none if the file does
// not exist. systemd-resolved writes `search .` if it has no suffix. That is the empty suffix,
// which ends the path anyway; autopath would make a name with two dots of it.
func ownSearch(path string) []string {
	conf, err := dns.ClientConfigFromFile(path)
	if err != nil {
		return nil
	}
	plugin.Zones(conf.Search).Normalize()
	return slices.DeleteFunc(conf.Search, func(entry string) bool { return entry == "." })
}
