package chain

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/cli/corefile"
	"github.com/clusterset-dns/multicluster/cli/output"
)

// systemNamespace is where the cluster's own DNS runs.
const systemNamespace = "kube-system"

// served is the DNS of the cluster: what its Corefile does with the zone, and what each server answers.
func (w *walk) served() {
	route := w.corefileLink()
	w.nodeLocalLink()
	w.serverLinks(route)
}

func (w *walk) corefileLink() corefile.Route {
	h := &w.Here
	const link = "corefile"
	blocks, err := w.config().Parse()
	route := corefile.RouteOf(blocks, w.Name.In(ClustersetZone))
	switch {
	case !w.DNS.Corefile.OK():
		w.link(link, h.Context, Unknown, w.DNS.Corefile.Error)
	case w.DNS.Corefile.Value == "":
		w.link(link, h.Context, Unknown, "there is no ConfigMap kube-system/coredns: the cluster's DNS is configured elsewhere (docs/platforms.md)")
	case err != nil:
		w.link(link, h.Context, Broken, err.Error())
		p := problem("InvalidCorefile", fmt.Sprintf("The Corefile in the ConfigMap kube-system/coredns of %s is invalid: %v.", h.Context, err))
		p.Advice = "Correct it: " + output.Kubectl(h.Context, "--namespace", systemNamespace, "edit", "configmap", "coredns")
		w.add(rankDNS, p)
	case route.By == corefile.Multicluster:
		w.link(link, h.Context, OK, "the plugin multicluster answers "+ClustersetZone)
	case route.By == corefile.Kubernetes:
		w.link(link, h.Context, OK, "the plugin kubernetes answers "+ClustersetZone+", by its option multicluster")
	case len(route.To) > 0 && route.OwnZone:
		w.forwardLink(route)
	default:
		w.link(link, h.Context, Broken, "no server block and no plugin is for "+ClustersetZone)
		w.add(rankDNS, w.noBlock())
	}
	return route
}

// forwardLink checks that the zone is forwarded to a server of this project, if there is one.
func (w *walk) forwardLink(route corefile.Route) {
	h := &w.Here
	to := output.List(route.To, 3)
	for _, second := range w.DNS.Second.Value {
		if slices.ContainsFunc(route.To, func(at string) bool { return hostOf(at) == second.Address }) {
			w.link("corefile", h.Context, OK, fmt.Sprintf("forwards %s to %s, the Service %s/%s", ClustersetZone, to, second.Namespace, second.Name))
			return
		}
	}
	if !w.DNS.Second.OK() || len(w.DNS.Second.Value) == 0 || w.ownIsRight() { // It can be another address of the same servers.
		w.link("corefile", h.Context, OK, fmt.Sprintf("forwards %s to %s", ClustersetZone, to))
		return
	}
	second := w.DNS.Second.Value[0]
	w.link("corefile", h.Context, Broken, fmt.Sprintf("forwards %s to %s", ClustersetZone, to))
	p := problem("ForwardElsewhere", fmt.Sprintf("The Corefile of %s forwards %s to %s. The Service %s/%s has the address %s.", h.Context, ClustersetZone, to, second.Namespace, second.Name, second.Address))
	fix, edit := w.config().Redirect(h.Context, w.Name.In(ClustersetZone), second.Address)
	if p.Fix = []string{fix}; fix == "" {
		p.Fix, p.Advice = nil, "Replace the address: "+edit
	}
	w.add(rankDNS, p)
}

// ownIsRight reports whether a server of the cluster's own DNS gives the answer that the import has.
func (w *walk) ownIsRight() bool {
	want := w.expected()
	return len(want) > 0 && slices.ContainsFunc(w.DNS.Servers.Value, func(s Server) bool {
		return !s.Second && s.Ready && s.Answer.NotAsked == "" && w.correct(s.Answer, want)
	})
}

// hostOf returns the address of `forward`'s argument: "dns://10.0.0.11:53" is 10.0.0.11.
func hostOf(to string) string {
	if _, after, ok := strings.Cut(to, "://"); ok {
		to = after
	}
	if host, _, err := net.SplitHostPort(to); err == nil {
		return host
	}
	return to
}

func (w *walk) noBlock() *output.Problem {
	h := &w.Here
	if len(w.DNS.Second.Value) == 0 {
		p := problem("NoDNSForZone", fmt.Sprintf("The Corefile of %s has nothing for %s, and there is no second CoreDNS.", h.Context, ClustersetZone))
		if !w.DNS.Second.OK() {
			p.What = fmt.Sprintf("The Corefile of %s has nothing for %s.", h.Context, ClustersetZone)
		}
		p.Advice = "Install the second CoreDNS, and forward the zone to it; or use a CoreDNS with the plugin, and add `multicluster clusterset.local` to the Corefile. See docs/choose-dns.md."
		return p
	}
	second := w.DNS.Second.Value[0]
	p := problem("NoForwardBlock", fmt.Sprintf("The Corefile of %s has no server block for %s. The second CoreDNS that answers it has the address %s.", h.Context, ClustersetZone, second.Address))
	p.Fix = w.config().Forward(h.Context, ClustersetZone, second.Address)
	return p
}

// nodeLocalLink is about NodeLocal DNSCache, if the cluster has it.
func (w *walk) nodeLocalLink() {
	h := &w.Here
	if !w.DNS.NodeLocal.OK() {
		w.link("node-local dns", h.Context, Unknown, w.DNS.NodeLocal.Error)
		return
	}
	if w.DNS.NodeLocal.Value == "" {
		return
	}
	blocks, err := corefile.Parse(w.DNS.NodeLocal.Value, nil)
	route := corefile.RouteOf(blocks, w.Name.In(ClustersetZone))
	if err == nil && route.Answers() {
		detail := "answers " + ClustersetZone + " itself"
		if route.By == "" {
			detail = fmt.Sprintf("forwards %s to %s", ClustersetZone, output.List(route.To, 3))
		}
		w.link("node-local dns", h.Context, OK, detail)
		return
	}
	if err == nil && len(route.To) > 0 && slices.ContainsFunc(route.To, w.isOwnDNS(blocks)) {
		w.link("node-local dns", h.Context, OK, "forwards all names to the cluster's DNS, "+output.List(route.To, 3))
		return
	}
	w.link("node-local dns", h.Context, Broken, "NodeLocal DNSCache has no server block for "+ClustersetZone)
	p := problem("NodeLocalNoStanza", fmt.Sprintf("NodeLocal DNSCache of %s has no server block for %s, so it asks the resolvers of the node.", h.Context, ClustersetZone))
	if fix := corefile.Stanza(h.Context, blocks, ClustersetZone, ClusterZone); fix != "" {
		p.Fix = []string{fix}
	} else {
		p.Advice = "Add the server block of corefile-examples/nodelocal.Corefile to the ConfigMap kube-system/" + corefile.NodeLocal + "."
	}
	w.add(rankDNS, p)
}

// isOwnDNS returns whether an argument of `forward` is the cluster's own DNS: its Service, or the server that
// NodeLocal DNSCache asks for names of the cluster.
func (w *walk) isOwnDNS(blocks []corefile.Block) func(to string) bool {
	of := corefile.RouteOf(blocks, ClusterZone)
	return func(to string) bool {
		return hostOf(to) == w.DNS.Address.Value && w.DNS.Address.Value != "" || of.OwnZone && slices.Contains(of.To, to)
	}
}

// serverLinks compares the answer of each server with the import. Second servers come first: the
// cluster's own forward to them.
func (w *walk) serverLinks(route corefile.Route) {
	h := &w.Here
	if !w.DNS.Servers.OK() {
		w.link("dns servers", h.Context, Unknown, w.DNS.Servers.Error)
		return
	}
	if len(w.DNS.Servers.Value) == 0 {
		w.link("dns servers", h.Context, Unknown, "no pods of a CoreDNS were found")
		return
	}
	before := w.links
	var own []Link
	for _, second := range []bool{true, false} {
		w.links = nil
		var all []Server
		for _, s := range w.DNS.Servers.Value {
			if s.Second == second && (!second || w.usesSecond(route)) {
				all = append(all, s)
			}
		}
		down := 0
		for _, s := range all {
			if !s.Ready {
				down++
			}
		}
		for _, s := range all {
			w.serverLink(s, route, down == len(all))
		}
		own = append(slices.Clone(w.links), own...) // A question comes to the cluster's own servers first.
	}
	w.links = append(before, own...)
}

// usesSecond reports whether the cluster's DNS forwards to second servers, or would after the fix.
func (w *walk) usesSecond(route corefile.Route) bool { return route.By == "" }

func (w *walk) serverLink(s Server, route corefile.Route, all bool) {
	h := &w.Here
	name := "dns " + s.Namespace + "/" + s.Pod
	a := s.Answer
	switch {
	case !s.Ready:
		detail := "not ready"
		if s.Waiting != "" {
			detail += ": " + s.Waiting
		}
		w.link(name, h.Context, Broken, detail)
		rank := rankAlso
		if all {
			rank = rankDNS
		}
		w.add(rank, w.downProblem(s))
	case a.NotAsked != "":
		w.link(name, h.Context, Unknown, "not asked: "+a.NotAsked)
	case elsewhere(a, zoneOf(w.DNS.Asked)):
		w.link(name, h.Context, Broken, describeAnswer(a))
		w.unserved(s, route)
	case !h.Import.OK() || !h.Slices.OK():
		state := Unknown
		if len(a.Addresses)+len(a.Targets) > 0 {
			state = OK
		}
		w.link(name, h.Context, state, describeAnswer(a)+"; what it should be is not known")
	default:
		w.compare(s)
	}
}

// compare compares the answer of a server with the import.
func (w *walk) compare(s Server) {
	h := &w.Here
	name, detail, want := "dns "+s.Namespace+"/"+s.Pod, describeAnswer(s.Answer), w.expected()
	switch {
	case w.correct(s.Answer, want):
		state := OK
		if len(want) == 0 { // No import, or no endpoints: the server is right, and the name does not work.
			state = Broken
		}
		w.link(name, h.Context, state, detail)
		if state == Broken && h.Import.Value != nil && !w.explained(rankDNS) {
			w.add(rankDNS, w.noAddresses())
		}
	case w.explained(rankImport):
		w.link(name, h.Context, Broken, detail)
	default:
		w.link(name, h.Context, Broken, fmt.Sprintf("%s, and the import has %s", detail, list(want)))
		p := problem(StaleDNSServer, fmt.Sprintf("The DNS server %s/%s of %s answers %s, and the import has %s.", s.Namespace, s.Pod, h.Context, detail, list(want)))
		p.Fix = []string{output.Kubectl(h.Context, "--namespace", s.Namespace, "delete", "pod", s.Pod)}
		p.Advice = "It still did so when its answer had expired, or 30 seconds later: it has lost its watch, and its log has the reason. The command replaces the pod."
		w.add(rankDNS, p)
	}
}

// elsewhere reports whether an answer is not from a server that has the zone.
func elsewhere(a Answer, zone string) bool {
	return a.Code == "SERVFAIL" || a.Code == "REFUSED" || a.Code == "NXDOMAIN" && (a.Zone == "" || !corefile.Within(a.Zone, zone))
}

// noAddresses is the last explanation of a name without addresses.
func (w *walk) noAddresses() *output.Problem {
	p := problem("FamilyMissing", fmt.Sprintf("The import %s exists, and has no address.", w.Name.Import()))
	p.Advice = "See the condition Ready of the ServiceImport, and its EndpointSlices."
	return p
}

func zoneOf(name string) string {
	if corefile.Within(name, ClustersetZone) {
		return ClustersetZone
	}
	return ClusterZone
}

// correct reports whether an answer is that of the import.
func (w *walk) correct(a Answer, want []netip.Addr) bool {
	if len(want) == 0 {
		return len(a.Addresses) == 0 && len(a.Targets) == 0
	}
	if w.Name.Port == "" {
		return slices.Equal(a.Addresses, want)
	}
	for _, p := range w.Here.Import.Value.Spec.Ports {
		if portIs(p, w.Name) {
			return slices.ContainsFunc(a.Targets, func(t string) bool {
				return strings.HasPrefix(t, fmt.Sprintf("%d ", p.Port)) || w.Here.Import.Value.Spec.Type == mcsv1beta1.Headless
			})
		}
	}
	return false
}

func describeAnswer(a Answer) string {
	text := a.Code
	switch {
	case len(a.Addresses) > 0:
		text += " " + list(a.Addresses)
	case len(a.Targets) > 0:
		text += " " + output.List(a.Targets, 4)
	case a.Code == "NOERROR":
		text += " without an address"
	case a.Zone != "":
		text += ", of the zone " + a.Zone
	case a.Code == "NXDOMAIN":
		text += ", of no zone of the cluster"
	}
	return text
}

func list(all []netip.Addr) string {
	if len(all) == 0 {
		return "no address"
	}
	texts := make([]string, len(all))
	for i, ip := range all {
		texts[i] = ip.String()
	}
	return output.List(texts, 4)
}

// lacksPlugin reports whether the log of a server contains CoreDNS' error about our directive.
func lacksPlugin(s Server) bool {
	return strings.Contains(strings.ToLower(s.Log.Value), "unknown directive '"+corefile.Multicluster+"'")
}

func (w *walk) pluginMissing(s Server) *output.Problem {
	p := problem("PluginMissing", fmt.Sprintf("The Corefile of %s contains the plugin multicluster, and the image of pod %s/%s does not: CoreDNS reports an unknown directive.", w.Here.Context, s.Namespace, s.Pod))
	p.Advice = "Use an image of CoreDNS with the plugin (docs/install.md); or remove the directive, and forward the zone to the second CoreDNS (corefile-examples/forwarding.Corefile)."
	return p
}

// downProblem returns why a server is not ready.
func (w *walk) downProblem(s Server) *output.Problem {
	if lacksPlugin(s) {
		return w.pluginMissing(s)
	}
	if p := w.noRights(s); p != nil {
		return p
	}
	id, name := "DNSNotReady", "DNS server"
	if s.Second {
		id, name = "SecondDNSNotReady", "second CoreDNS"
	}
	p := problem(id, fmt.Sprintf("The %s %s/%s of %s is not ready.", name, s.Namespace, s.Pod, w.Here.Context))
	p.Advice = "Its events and its log have the reason: " + output.Kubectl(w.Here.Context, "--namespace", s.Namespace, "describe", "pod", s.Pod)
	return p
}

// noRights returns a problem if the account of a server cannot list imports.
func (w *walk) noRights(s Server) *output.Problem {
	if s.Account == "" || !s.CanList.OK() || s.CanList.Value {
		return nil
	}
	p := problem("PluginRights", fmt.Sprintf("The account %s/%s of the DNS server %s in %s cannot list ServiceImports.", s.Namespace, s.Account, s.Pod, w.Here.Context))
	if !s.Second {
		p.Fix = []string{output.Kubectl(w.Here.Context, "apply", "-k", output.Deploy("plugin/cluster-coredns"))}
		return p
	}
	p.Fix = []string{ // Not deploy/plugin/server: its Deployment and its Corefile can differ from those of the cluster.
		output.Kubectl(w.Here.Context, "apply", "-k", output.Deploy("plugin/rights")),
		output.Kubectl(w.Here.Context, "create", "clusterrolebinding", "multicluster-dns", "--clusterrole", "multicluster-dns", "--serviceaccount", s.Namespace+":"+s.Account),
	}
	return p
}

// unserved explains a server that answers no name of the zone.
func (w *walk) unserved(s Server, route corefile.Route) {
	switch {
	case w.explainedByDNS():
		return
	case lacksPlugin(s) && (s.Second || route.By == corefile.Multicluster): // The log can be older than the Corefile.
		w.add(rankDNS, w.pluginMissing(s))
		return
	}
	if s.Second || route.By != "" {
		if p := w.noRights(s); p != nil {
			w.add(rankDNS, p)
			return
		}
	}
	h := &w.Here
	if s.Answer.Code == "SERVFAIL" {
		p := problem("DNSServerFails", fmt.Sprintf("The DNS server %s/%s of %s answers SERVFAIL: its plugin has not listed the imports yet, or the server that it forwards to does not answer.", s.Namespace, s.Pod, h.Context))
		p.Advice = "Its log has the reason: " + output.Kubectl(h.Context, "--namespace", s.Namespace, "logs", s.Pod)
		w.add(rankDNS, p)
		return
	}
	if line := refusal(s.Log.Value); line != "" {
		p := problem("CorefileRefused", fmt.Sprintf("The DNS server %s/%s of %s refuses the Corefile, and keeps the one before: %s", s.Namespace, s.Pod, h.Context, line))
		p.Advice = "Correct the Corefile. A pod that starts with it ends at once: " + output.Kubectl(h.Context, "--namespace", s.Namespace, "edit", "configmap", "coredns")
		w.add(rankDNS, p)
		return
	}
	p := problem("CorefileNotLoaded", fmt.Sprintf("The DNS server %s/%s of %s does not answer for %s, although the Corefile has the zone: it has not loaded the Corefile.", s.Namespace, s.Pod, h.Context, ClustersetZone))
	p.Advice = "With the plugin reload, a changed Corefile takes up to two minutes."
	switch {
	case !s.Log.OK():
		p.Advice += " The log of the server cannot be read from here, and can say why the server refuses the Corefile: " + output.Kubectl(h.Context, "--namespace", s.Namespace, "logs", s.Pod)
	case !s.Second && route.By != "":
		p.Advice += fmt.Sprintf(" If the image lacks what the Corefile contains (%s), a new pod ends at once. If you know that the image has it, replace the pod: ", route.By) +
			output.Kubectl(h.Context, "--namespace", s.Namespace, "delete", "pod", s.Pod)
	default:
		p.Advice += " The command replaces the pod."
		p.Fix = []string{output.Kubectl(h.Context, "--namespace", s.Namespace, "delete", "pod", s.Pod)}
	}
	w.add(rankDNS, p)
}

// refusal returns the last line of a log in which the plugin reload reports that it could not load a Corefile,
// or "".
func refusal(log string) string {
	found := ""
	for line := range strings.Lines(log) {
		switch {
		case strings.Contains(line, "Corefile changed but reload failed"):
			found = output.Clean(strings.TrimSpace(line))
		case strings.Contains(line, "Reloading complete"):
			found = ""
		}
	}
	return found
}

// explainedByDNS reports whether the Corefile, or an earlier server, explains a server's answer.
func (w *walk) explainedByDNS() bool {
	return slices.ContainsFunc(w.causes, func(r ranked) bool { return r.rank == rankDNS })
}
