package chain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset-dns/multicluster/cli/corefile"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// nodeLocal is the usual address of NodeLocal DNSCache.
const nodeLocal = "169.254.20.10"

// resolver is what a pod's /etc/resolv.conf contains.
type resolver struct {
	searches []string
	ndots    int
	// fault is why the pod does not ask the cluster's DNS, or "".
	fault  string
	advice string
}

const defaultNDots = 5

func (w *walk) resolver() resolver {
	own := []string{w.PodNamespace + ".svc." + ClusterZone, "svc." + ClusterZone, ClusterZone}
	if w.Pod == nil {
		return resolver{searches: append(own, w.Injected...), ndots: defaultNDots}
	}
	spec := w.Pod.Spec
	config := spec.DNSConfig
	if config == nil {
		config = &corev1.PodDNSConfig{}
	}
	r := resolver{ndots: ndots(config, defaultNDots)}
	switch {
	case spec.DNSPolicy == corev1.DNSNone:
		r.searches, r.ndots = config.Searches, ndots(config, 1)
		if !slices.ContainsFunc(config.Nameservers, func(at string) bool { return at == nodeLocal || at == w.DNS.Address.Value }) && w.DNS.Address.OK() {
			r.fault = fmt.Sprintf("the pod has dnsPolicy None, and its name servers (%s) are not the cluster's DNS (%s)", output.List(config.Nameservers, 3), w.DNS.Address.Value)
			r.advice = "Give the pod the name server " + w.DNS.Address.Value + ", or the dnsPolicy ClusterFirst."
		}
	case spec.DNSPolicy == corev1.DNSDefault:
		r.fault = "the pod has dnsPolicy Default: it asks the name servers of its node, which do not know the cluster's names"
		r.advice = "Give the pod the dnsPolicy ClusterFirst."
	case spec.HostNetwork && spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet:
		r.fault = "the pod has hostNetwork and dnsPolicy ClusterFirst: it asks the name servers of its node, which do not know the cluster's names"
		r.advice = "Give the pod the dnsPolicy ClusterFirstWithHostNet."
	default:
		r.searches = append(own, config.Searches...)
	}
	return r
}

func ndots(config *corev1.PodDNSConfig, otherwise int) int {
	for _, option := range config.Options {
		if option.Name == "ndots" && option.Value != nil {
			if n, err := strconv.Atoi(*option.Value); err == nil {
				return n
			}
		}
	}
	return otherwise
}

// candidates are the names that a resolver asks for, in the order of glibc.
func candidates(n Name, r resolver) []string {
	if n.Absolute {
		return []string{n.Text}
	}
	var searched []string
	for _, suffix := range r.searches {
		searched = append(searched, n.Text+"."+strings.ToLower(strings.TrimSuffix(suffix, ".")))
	}
	if strings.Count(n.Text, ".") >= r.ndots {
		return append([]string{n.Text}, searched...)
	}
	return append(searched, n.Text)
}

// The ways in which a candidate is the import.
const (
	wayNone     = ""
	wayZone     = "zone"
	wayAlias    = "alias"
	wayAutopath = "autopath"
	wayLocal    = "local"
	// wayUnknown: a local Service would come first, and it is not known whether it does.
	wayUnknown = "unknown"
)

// found is the first candidate that exists, or that would if there were an import.
type found struct {
	way, name string
	// unread is why the way is not known, or "".
	unread string
	r      resolver
}

// first looks for the first candidate that is a local Service or the import.
func (w *walk) first() found {
	f := found{r: w.resolver()}
	w.tried = candidates(w.Name, f.r)
	blocks := w.ownBlocks()
	local, clusterset := w.Name.In(ClusterZone), w.Name.In(ClustersetZone)
	alias := corefile.Aliases(blocks, local) || w.aliasBySecond(blocks, local)
	answers, unread := w.localAnswers(blocks, alias)
	f.unread = unread
	for _, name := range w.tried {
		switch {
		case name == local && answers != wayNone:
			f.way, f.name = answers, local
		case name == clusterset:
			f.way, f.name = wayZone, clusterset
		case name == local && alias:
			f.way, f.name = wayAlias, local
		case corefile.Autopath(blocks, local) && w.completed(name, f.r):
			f.way, f.name = w.byAutopath(answers)
		}
		if f.way != wayNone {
			return f
		}
	}
	return f
}

// completed reports whether a name is the first one that a resolver completes, of which autopath makes all
// others.
func (w *walk) completed(name string, r resolver) bool {
	return !w.Name.Absolute && len(r.searches) > 0 && name == w.Name.Text+"."+r.searches[0]
}

// byAutopath returns what the server makes of the first completed name: a local Service before the import.
func (w *walk) byAutopath(local string) (way, name string) {
	switch {
	case local != wayNone && w.Name.Text+"."+ClusterZone == w.Name.In(ClusterZone):
		return local, w.Name.In(ClusterZone)
	case w.Name.Text+"."+ClustersetZone == w.Name.In(ClustersetZone):
		return wayAutopath, w.Name.In(ClustersetZone)
	}
	return wayNone, ""
}

// localAnswers returns wayLocal if a local Service answers: with `ignore empty_service` and alias, only if
// it has a ready endpoint. It returns wayUnknown, with the reason, if that could not be read.
func (w *walk) localAnswers(blocks []corefile.Block, alias bool) (way, unread string) {
	service, endpoints := w.Here.Service, w.Here.Endpoints
	switch {
	case !service.OK():
		return wayUnknown, service.Error
	case service.Value == nil:
		return wayNone, ""
	case !alias || !ignoresEmpty(blocks):
		return wayLocal, ""
	case !endpoints.OK():
		return wayUnknown, endpoints.Error
	case w.ready(endpoints.Value) == 0:
		return wayNone, ""
	}
	return wayLocal, ""
}

// ignoresEmpty reports whether Services without ready endpoints have no name.
func ignoresEmpty(blocks []corefile.Block) bool {
	b := corefile.Serving(blocks, ClusterZone)
	if b == nil {
		return false
	}
	p, _ := b.Plugin(corefile.Kubernetes)
	args, _ := p.Option("ignore")
	return slices.Contains(args, "empty_service")
}

func (w *walk) ownBlocks() []corefile.Block {
	blocks, _ := w.config().Parse()
	return blocks
}

// config is that of the cluster's own CoreDNS.
func (w *walk) config() corefile.Config {
	return corefile.Config{Corefile: w.DNS.Corefile.Value, Files: w.DNS.Extra, Custom: w.DNS.Custom}
}

// aliasBySecond reports whether the cluster's DNS passes its own zone on to a second server with alias.
func (w *walk) aliasBySecond(blocks []corefile.Block, name string) bool {
	for _, to := range corefile.RouteOf(blocks, name).To {
		for _, second := range w.DNS.Second.Value {
			theirs, _ := corefile.Parse(second.Corefile, nil)
			if hostOf(to) == second.Address && corefile.Aliases(theirs, name) {
				return true
			}
		}
	}
	return false
}

// possible ends the walk for a name such as google.com, which a search path with svc.clusterset.local
// would make one of a namespace com: no cluster that could be read has that namespace. It reports whether
// the walk goes on.
func (w *walk) possible(section func(func())) bool {
	if strings.Count(w.Name.Text, ".") > 1 || !w.Here.Namespace.OK() || !w.Here.Import.OK() {
		return true
	}
	var read, unread []string
	for _, c := range w.clusters() {
		switch {
		case c.Namespace.Value != nil, c.Import.Value != nil, c.Export.Value != nil:
			return true
		case c.Namespace.OK():
			read = append(read, c.Context)
		default:
			unread = append(unread, c.Context)
		}
	}
	unread = append(unread, slices.Sorted(maps.Keys(w.Unread))...)
	w.tried = candidates(w.Name, w.resolver())
	section(func() {
		p := problem("NotAServiceName", fmt.Sprintf("%s is not the name of a Service: there is no namespace %s in %s.", w.Name.Text, w.Name.Namespace, output.List(read, 5)))
		p.Advice = "Look for a typing error. A Service has the name SERVICE.NAMESPACE. Names of other domains have nothing to do with the clusterset."
		if len(unread) > 0 {
			p.Advice += " These clusters could not be read: " + output.List(unread, 5) + "."
		}
		w.link("name", w.Here.Context, Broken, "there is no namespace "+w.Name.Namespace)
		w.add(rankName, p)
	})
	return false
}

// local handles names that a Service of this cluster answers. It reports whether the walk goes on.
func (w *walk) local(section func(func())) bool {
	f := w.first()
	if f.way != wayLocal || f.r.fault != "" {
		return true
	}
	svc := w.Here.Service.Value
	section(func() {
		w.link("search", w.Here.Context, OK, fmt.Sprintf("%s is the Service of this cluster, and comes before the import", f.name))
		what := "local Service"
		if svc.Labels[mcs.LabelNativeOf] != "" {
			what = "Service of the controller with the native name"
		}
		n := w.ready(w.Here.Endpoints.Value)
		detail := fmt.Sprintf("%s %s, %s", what, address(svc), output.Count(n, "ready endpoint"))
		switch {
		case !w.Here.Endpoints.OK():
			w.link("local service", w.Here.Context, Unknown, w.Here.Endpoints.Error)
		case n > 0 || svc.Spec.Type == corev1.ServiceTypeExternalName:
			w.link("local service", w.Here.Context, OK, detail)
			w.link("import", w.Here.Context, Skipped, "not asked for: its name is "+w.Name.In(ClustersetZone))
		default:
			w.link("local service", w.Here.Context, Broken, detail)
			p := problem("LocalService", fmt.Sprintf("The Service %s of %s answers %s although it has no ready endpoint: a local Service comes first as long as it exists.", w.Name.Import(), w.Here.Context, f.name))
			p.Advice = fmt.Sprintf("Give it ready pods; or delete it, if the name is to be the import; or ask for %s; or use alias with `ignore empty_service`.", w.Name.In(ClustersetZone))
			w.add(rankName, p)
		}
	})
	return false
}

func address(svc *corev1.Service) string {
	switch {
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		return "for " + svc.Spec.ExternalName
	case svc.Spec.ClusterIP == corev1.ClusterIPNone:
		return "without a ClusterIP"
	}
	return strings.Join(svc.Spec.ClusterIPs, ", ")
}

// searchPath is the first link: which of the names that the resolver asks for is the import.
func (w *walk) searchPath() {
	f := w.first()
	if f.r.fault != "" {
		w.link("search", w.Here.Context, Broken, f.r.fault)
		p := problem("PodDNS", "The pod does not ask the cluster's DNS: "+f.r.fault+".")
		p.Advice = f.r.advice + " A pod's DNS settings cannot change: create the pod again."
		w.add(rankSearch, p)
		return
	}
	switch f.way {
	case wayZone:
		detail := "the name is complete"
		if w.Name.Zone != ClustersetZone {
			detail = fmt.Sprintf("the search path completes it to %s, name %d of %d", f.name, slices.Index(w.tried, f.name)+1, len(w.tried))
			w.musl(f.r)
		}
		w.link("search", w.Here.Context, OK, detail)
	case wayUnknown:
		w.link("search", w.Here.Context, Unknown, "whether a local Service comes first: "+f.unread)
	case wayAlias:
		w.link("search", w.Here.Context, OK, f.name+" is the import, by alias in the Corefile")
	case wayAutopath:
		w.link("search", w.Here.Context, OK, "the server completes it to "+f.name+", by autopath in the Corefile")
	default:
		w.notSearched(f.r)
	}
}

// musl reports names that musl does not complete: it uses the search path only for names with fewer dots
// than ndots. glibc does so for all.
func (w *walk) musl(r resolver) {
	if strings.Count(w.Name.Text, ".") < r.ndots {
		return
	}
	p := problem("NDots", fmt.Sprintf("The pod has ndots:%d, and the name has %s. glibc asks for it as it is, and then uses the search path. musl (Alpine) does not use the search path.",
		r.ndots, output.Count(strings.Count(w.Name.Text, "."), "dot")))
	p.Advice = fmt.Sprintf("For images with musl, ask for %s., or remove the option ndots from the pod.", w.Name.In(ClustersetZone))
	w.add(rankAlso, p)
}

func (w *walk) notSearched(r resolver) {
	switch {
	case w.Name.Absolute:
		w.link("search", w.Here.Context, Broken, "the dot at the end switches off the search path")
		p := problem("AbsoluteName", fmt.Sprintf("%s. ends with a dot, so it is complete. No server has a name outside of %s and %s.", w.Name.Text, ClustersetZone, ClusterZone))
		p.Advice = fmt.Sprintf("Ask for %s without the dot, or for %s.", w.Name.Text, w.Name.In(ClustersetZone))
		w.add(rankName, p)
	case w.Name.Zone == ClusterZone:
		w.link("search", w.Here.Context, Broken, "names below "+ClusterZone+" are Services of this cluster, and there is no such Service")
		p := problem("ClusterLocalName", fmt.Sprintf("%s is a name of this cluster only, and there is no Service %s in %s.", w.Name.Text, w.Name.Import(), w.Here.Context))
		p.Advice = fmt.Sprintf("Ask for %s. To give imports names below %s, use alias in the Corefile or a native name.", w.Name.In(ClustersetZone), ClusterZone)
		w.add(rankName, p)
	default:
		w.link("search", w.Here.Context, Broken, fmt.Sprintf("none of the %d names that are tried is the import", len(w.tried)))
		w.add(rankSearch, w.noSearchEntry(r))
	}
}

// suffix returns the search suffix that completes the name to the import.
func (w *walk) suffix() string {
	return strings.TrimPrefix(w.Name.In(ClustersetZone), w.Name.Text+".")
}

func (w *walk) noSearchEntry(r resolver) *output.Problem {
	p := problem("NoSearchEntry", fmt.Sprintf("Nothing completes %s to %s: the search path has no %s, and the Corefile has no alias or autopath for it.", w.Name.Text, w.Name.In(ClustersetZone), w.suffix()))
	if w.Here.Import.Value == nil && !w.exported { // It can be a name of another domain.
		p.Advice = "If this is the name of an import, see docs/choose-dns.md for the ways to complete it."
		return p
	}
	if w.Pod == nil {
		value := "all"
		if w.suffix() == ClustersetZone {
			value = "service"
		}
		p.Fix = []string{
			output.Kubectl(w.Here.Context, "apply", "-k", output.Deploy("search")),
			output.Kubectl(w.Here.Context, "label", "--overwrite", "namespace", w.PodNamespace, labelSearch+"="+value),
		}
		p.Advice = "The commands add the suffix to new pods of the namespace (Kubernetes 1.36 or later). There are other ways, also without new pods: see docs/choose-dns.md."
		if value == "all" {
			p.Advice += sharedSuffix
		}
		return p
	}
	searches := append(slices.Clone(r.searches[min(len(r.searches), ownSearches(w.Pod)):]), w.suffix())
	if w.suffix() == "svc."+ClustersetZone {
		p.Advice = strings.TrimSpace(sharedSuffix)
	}
	config := map[string]any{"dnsConfig": map[string]any{"searches": searches}}
	if kind, name := owner(w.Pod); name != "" {
		patch, _ := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": config}}})
		p.Fix = []string{output.Kubectl(w.Here.Context, "--namespace", w.Pod.Namespace, "patch", kind, name, "--type", "merge", "--patch", string(patch))}
		return p
	}
	text, _ := json.Marshal(config)
	p.Advice = fmt.Sprintf("Create the pod again with %s in its spec. %s", text, p.Advice)
	p.Advice = strings.TrimSpace(p.Advice)
	return p
}

// sharedSuffix is the warning for the suffix that makes foo.default a name of the clusterset.
const sharedSuffix = " Beware: with svc." + ClustersetZone + " on the search path, exports of a namespace called com answer names such as github.com (" + output.Docs + "operations/security.md#other-permissions)."

const labelSearch = "clusterset-dns.io/search"

// ownSearches is how many suffixes the kubelet adds before those of the pod.
func ownSearches(pod *corev1.Pod) int {
	if pod.Spec.DNSPolicy == corev1.DNSNone {
		return 0
	}
	return 3
}

// owner returns the object whose template the pod is from, or "".
func owner(pod *corev1.Pod) (kind, name string) {
	for _, of := range pod.OwnerReferences {
		switch of.Kind {
		case "ReplicaSet":
			if name, ok := strings.CutSuffix(of.Name, "-"+pod.Labels["pod-template-hash"]); ok {
				return "deployment", name
			}
		case "StatefulSet", "DaemonSet":
			return strings.ToLower(of.Kind), of.Name
		}
	}
	return "", ""
}
