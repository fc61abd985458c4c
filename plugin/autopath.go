package multicluster

import (
	"slices"
	"strings"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
)

// AutoPath implements autopath.AutoPather: the search path of the client whose question it is, for `autopath @multicluster`. It has
// our zones after the cluster's own, so that pods whose resolver knows nothing of them find imports as well, in one question.
//
// Whose path it is, is read from the question: the first name that a pod's resolver asks for ends in <its namespace>.svc.<cluster
// domain> (resolv.conf(5), ndots:5). So no watch of Pods is needed, as autopath with the kubernetes plugin needs it. Any other
// question has no path, nil, and is answered as it is.
func (m *Multicluster) AutoPath(state request.Request) []string {
	below, ok := strings.CutSuffix(state.Name(), ".svc."+m.clusterDomain)
	dot := strings.LastIndexByte(below, '.')
	if !ok || dot < 0 {
		return nil
	}
	return append([]string{below[dot+1:] + ".svc." + m.clusterDomain}, m.searchTail...)
}

// searchTail is what every client's search path ends in: the rest of the cluster's entries, our zones, those that this server itself
// searches, which it has from its node as the pods have theirs, and the name alone ("", as autopath asks for).
func searchTail(clusterDomain string, zones, own []string) []string {
	tail := append([]string{"svc." + clusterDomain, clusterDomain}, zones...)
	return append(append(tail, own...), "")
}

// ownSearch is the search entries of the server's own resolv.conf; none where there is no such file. Where systemd-resolved has none it
// writes the root, `search .`: that is the name alone, which ends the path anyway, and autopath would make a name with two dots of it.
func ownSearch(path string) []string {
	conf, err := dns.ClientConfigFromFile(path)
	if err != nil {
		return nil
	}
	plugin.Zones(conf.Search).Normalize()
	return slices.DeleteFunc(conf.Search, func(entry string) bool { return entry == "." })
}
