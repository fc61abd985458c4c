package multicluster

import (
	"context"
	"strings"

	"github.com/coredns/coredns/plugin/pkg/nonwriter"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
)

// AutoPath implements autopath.AutoPather. It returns the search path of the client that sent the
// question, for `autopath @multicluster`. The plugin's zones come after the cluster's own, so that
// a pod finds imports in one question although its resolver does not know these zones.
//
// The namespace of the client is read from the question: the first name that a pod's resolver asks
// for ends in <its namespace>.svc.<cluster domain> (resolv.conf(5), ndots:5). So no watch of Pods
// is needed, unlike autopath with the kubernetes plugin.
//
// shop.example.au.svc.<cluster domain> looks the same, and is the second name that the resolver of
// any pod asks for, for shop.example.au. If that were completed, a pod could get the address of
// shop.example, which is somebody else's (ADR 0018). So only names that end in svc are completed,
// as those of all imports do and no name outside the cluster does, and only after a namespace that
// exists. For any other question, AutoPath returns nil, and the question is answered unchanged.
//
// The path does not end with the empty suffix, against the words of autopath.Func: autopath asks
// for the names of a path in turn, and a name that is found nowhere must not go upstream without
// its suffix.
func (m *Multicluster) AutoPath(state request.Request) []string {
	below, ok := strings.CutSuffix(state.Name(), ".svc."+m.clusterDomain)
	dot := strings.LastIndexByte(below, '.')
	if !ok || dot < 0 || !strings.HasSuffix(below[:dot], ".svc") {
		return nil
	}
	first := below[dot+1:] + ".svc." + m.clusterDomain
	if !m.mayExist(state.W, first) {
		return nil
	}
	return append([]string{first}, m.searchTail...)
}

// searchTail returns the part of the search path that all clients share: the rest of the cluster's
// suffixes, and the plugin's zones.
func searchTail(clusterDomain string, zones []string) []string {
	return append([]string{"svc." + clusterDomain, clusterDomain}, zones...)
}

// mayExist reports whether there is a namespace, whose name in the cluster's zone is given. That is
// unknown without the plugin that owns the zone, and before it has listed the namespaces.
func (m *Multicluster) mayExist(w dns.ResponseWriter, namespace string) bool {
	if m.owner == nil {
		return true
	}
	answer := nonwriter.New(w)
	ctx := context.Background() //nolint:forbidigo // autopath gives an AutoPather none
	_, err := m.owner.ServeDNS(ctx, answer, new(dns.Msg).SetQuestion(namespace, dns.TypeA))
	return err != nil || answer.Msg == nil || answer.Msg.Rcode != dns.RcodeNameError
}
