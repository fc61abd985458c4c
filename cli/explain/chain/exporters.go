package chain

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// exporter is a cluster that exports the name, or that can.
type exporter struct {
	id   string
	peer *Peer
	// side is the cluster itself, or nil if no context of the kubeconfig is it.
	side *Cluster
	// twins are contexts that announce the ID of the peer, if it is not known which of them it is.
	twins []string
	// home is true for the cluster in which the name is asked for.
	home bool
}

func (e exporter) name() string {
	if e.side != nil {
		return e.side.Context
	}
	return e.id
}

// elsewhere reports whether the Secret of the peer names another API server than the context: then the
// context can be of another cluster with the same ID, or a proxy is between.
func (e exporter) elsewhere() bool {
	p, c := e.peer, e.side
	return p != nil && p.Server != "" && p.Server != c.Server && (p.CA == "" || p.CA != c.CA)
}

// exports reports whether the cluster is known to export the name.
func (e exporter) exports(imp *mcsv1beta1.ServiceImport) bool {
	if e.side != nil && e.side.Export.Value != nil {
		return true
	}
	return imp != nil && slices.ContainsFunc(imp.Status.Clusters, func(c mcsv1beta1.ClusterStatus) bool { return c.Cluster == e.id })
}

// exporters are the clusters that export the name, with their peers, exports, Services and endpoints.
func (w *walk) exporters() {
	h := &w.Here
	defer w.duplicates()
	imp := h.Import.Value
	if imp != nil && !managed(imp) {
		w.link("exports", h.Context, Skipped, "the import is not of this project's controller")
		return
	}
	if !h.Peers.OK() {
		w.link("peers", h.Context, Unknown, h.Peers.Error)
	}
	all := w.all()
	known := slices.DeleteFunc(slices.Clone(all), func(e exporter) bool { return !e.exports(imp) })
	joined := slices.DeleteFunc(slices.Clone(known), func(e exporter) bool { return e.peer == nil && !e.home })
	w.exported = len(known) > 0
	switch {
	case len(joined) > 0:
		for _, e := range joined {
			w.exporter(e)
		}
		for _, e := range known {
			w.unjoined(e)
		}
	case len(known) > 0:
		for _, e := range known {
			w.exporter(e)
		}
	default:
		w.nobody(all)
	}
}

// unjoined shows an exporting cluster that is not joined, beside others that are. It is a problem only if
// those give no endpoint: not each cluster reads each other one.
func (w *walk) unjoined(e exporter) {
	if e.home || e.peer != nil || !w.Here.Peers.OK() {
		return
	}
	w.link("peer "+cmp.Or(e.id, e.name()), w.Here.Context, Skipped, "this cluster does not read it, and it exports "+w.Name.Import())
	gives := e.side.Endpoints.OK() && w.ready(e.side.Endpoints.Value) > 0
	if gives && w.Here.Slices.OK() && w.ready(w.Here.Slices.Value) == 0 && w.exportProblem(e, false) == nil {
		w.add(rankAlso, w.noPeer(e))
	}
}

// all are the clusters that can export the name: this one, its peers, and the other contexts.
func (w *walk) all() []exporter {
	all := []exporter{{id: w.Here.ID, side: &w.Here, home: true}}
	used := map[string]bool{}
	for i := range w.Here.Peers.Value {
		p := &w.Here.Peers.Value[i]
		e := exporter{id: p.ID, peer: p, side: w.sideOf(p)}
		if e.side != nil {
			used[e.side.Context] = true
		}
		for _, c := range w.announcing(p.ID) {
			used[c.Context] = true // Only one of them can be the peer.
			if e.side == nil {
				e.twins = append(e.twins, c.Context)
			}
		}
		all = append(all, e)
	}
	for i := range w.Others {
		if c := &w.Others[i]; !used[c.Context] && (c.Installed || c.Identity != "") {
			all = append(all, exporter{id: c.ID, side: c})
		}
	}
	all = w.ofName(all)
	slices.SortStableFunc(all, func(a, b exporter) int { return cmp.Compare(a.id, b.id) })
	return all
}

// ofName returns the clusters that the name of an endpoint asks for. They are all clusters if that one is
// known to export nothing, or is not known: then the others have the endpoints that the name can mean.
func (w *walk) ofName(all []exporter) []exporter {
	if w.Name.Cluster == "" {
		return all
	}
	asked := slices.DeleteFunc(slices.Clone(all), func(e exporter) bool { return e.id != w.Name.Cluster })
	for _, e := range asked {
		switch {
		case e.exports(w.Here.Import.Value), e.peer != nil && !e.peer.Connected:
			return asked
		case e.side == nil, !e.side.Export.OK():
			return asked
		}
	}
	return all
}

// sideOf returns the context of a peer: that of the cluster which the Lease names, otherwise by the announced
// ID, otherwise by the address of the API server. Other clusters can be behind the same address, which is then
// that of a proxy. It returns nil if several contexts announce the ID, and the Secret names none of them.
func (w *walk) sideOf(p *Peer) *Cluster {
	at := w.announcing(p.ID)
	if p.UID != "" {
		if is := w.others(func(c *Cluster) bool { return c.UID == p.UID }); len(is) > 0 {
			return is[0]
		}
		if p.Connected { // to a cluster that no context is known to be
			at = slices.DeleteFunc(at, func(c *Cluster) bool { return c.UID != "" })
		}
	}
	switch len(at) {
	case 0:
	case 1:
		return at[0]
	default:
		return named(p, at)
	}
	if at := w.behind(p.Server); len(at) == 1 && !w.hasSecret(at[0].ID) {
		return at[0]
	}
	for i := range w.Others {
		if w.Others[i].ID == "" && w.Others[i].Context == p.ID {
			return &w.Others[i]
		}
	}
	return nil
}

// clusters are this one and the others.
func (w *walk) clusters() []Cluster { return append([]Cluster{w.Here}, w.Others...) }

// others returns the other clusters for which the function is true.
func (w *walk) others(is func(*Cluster) bool) []*Cluster {
	var found []*Cluster
	for i := range w.Others {
		if is(&w.Others[i]) {
			found = append(found, &w.Others[i])
		}
	}
	return found
}

// announcing returns the other clusters that announce an ID.
func (w *walk) announcing(id string) []*Cluster {
	return w.others(func(c *Cluster) bool { return id != "" && c.ID == id })
}

// named returns the one cluster that the Secret of a peer is for, by the address of the API server or by
// the authority of its certificate, or nil. The controller can reach a cluster at another address than
// the user.
func named(p *Peer, all []*Cluster) *Cluster {
	for _, is := range []func(*Cluster) bool{
		func(c *Cluster) bool { return p.Server != "" && c.Server == p.Server && c.CA == p.CA },
		func(c *Cluster) bool { return p.Server != "" && c.Server == p.Server },
		func(c *Cluster) bool { return p.CA != "" && c.CA == p.CA },
	} {
		if found := slices.DeleteFunc(slices.Clone(all), func(c *Cluster) bool { return !is(c) }); len(found) == 1 {
			return found[0]
		}
	}
	return nil
}

// duplicates reports IDs that two clusters announce, if the cause does not.
func (w *walk) duplicates() {
	if slices.ContainsFunc(w.causes, func(r ranked) bool { return r.problem.ID == "PeerDuplicateID" }) {
		return
	}
	for _, c := range w.clusters() {
		w.add(rankAlso, w.duplicate(c.ID))
	}
}

// duplicate returns a problem if two clusters announce an ID. Contexts without a UID can be of one cluster.
func (w *walk) duplicate(id string) *output.Problem {
	var contexts []string
	for _, c := range w.clusters() {
		if id != "" && c.ID == id && c.UID != "" {
			contexts = append(contexts, c.Context)
		}
	}
	if len(contexts) < 2 {
		return nil
	}
	p := problem("DuplicateID", fmt.Sprintf("%d clusters announce the ID %s: %s.", len(contexts), id, output.List(contexts, 5)))
	p.Advice = "Each cluster needs an ID of its own. Set another --cluster-id in the one whose ID is wrong."
	return p
}

// behind returns the clusters whose API server has an address.
func (w *walk) behind(server string) []*Cluster {
	return w.others(func(c *Cluster) bool { return server != "" && c.Server == server })
}

// nobody explains a name that no cluster is known to export.
func (w *walk) nobody(all []exporter) {
	h := &w.Here
	var unread, twins []string
	broken := false
	for _, e := range all {
		if e.peer != nil && !e.peer.Connected {
			w.peerLink(e)
			broken = true
			continue
		}
		if !e.home && (e.side == nil || !e.side.Export.OK()) {
			unread = append(unread, e.name())
			twins = append(twins, e.twins...)
		}
	}
	switch {
	case broken:
		return
	case !h.Export.OK():
		w.link("exports", h.Context, Unknown, h.Export.Error)
		return
	case len(unread) > 0 || len(w.Unread) > 0 || !h.Peers.OK():
		w.link("exports", "", Unknown, "no export is known. "+w.addContext(unread, twins))
		return
	}
	w.link("exports", "", Broken, "no cluster exports "+w.Name.Import())
	p := problem("NoExport", fmt.Sprintf("No cluster has a ServiceExport %s.", w.Name.Import()))
	holders := slices.DeleteFunc(slices.Clone(all), func(e exporter) bool { return e.side.Service.Value == nil })
	if len(holders) != 1 {
		p.Advice = fmt.Sprintf("Create a ServiceExport %s in each cluster whose Service %s is to be used: kubectl multicluster export %s.", w.Name.Service, w.Name.Service, w.Name.Service)
		if len(holders) == 0 {
			p.What += " None has such a Service either."
			p.Advice = "Look for a typing error in the name. " + p.Advice
		}
		w.add(rankExporter, p)
		return
	}
	side := holders[0].side
	p.What += fmt.Sprintf(" The Service is in %s.", side.Context)
	version := side.Version.Value
	if version == "" {
		version = mcsv1beta1.GroupVersion.Version
	}
	manifest := fmt.Sprintf(`{"apiVersion": "multicluster.x-k8s.io/%s", "kind": "ServiceExport", "metadata": {"name": %q, "namespace": %q}}`, version, w.Name.Service, w.Name.Namespace)
	p.Fix = []string{output.Command("echo", manifest) + " | " + output.Kubectl(side.Context, "apply", "-f", "-")}
	w.add(rankExporter, p)
}

// addContext is the advice for clusters without a context, or with twins: contexts that announce one ID.
func (w *walk) addContext(ids, twins []string) string {
	text := "Add contexts of the exporting clusters to the kubeconfig, so that they can be read"
	switch {
	case len(twins) > 0:
		text = fmt.Sprintf("The contexts %s announce the ID of one peer (%s), and its Secret names none of them", output.List(twins, 5), output.List(ids, 5))
	case len(ids) == 0 && len(w.Unread) > 0:
		text = "An exporting cluster can be among those that could not be read"
	case len(ids) > 0:
		text = "The side of " + output.List(ids, 5) + " could not be read: add contexts of these clusters to the kubeconfig"
	}
	var unread []string
	for _, context := range slices.Sorted(maps.Keys(w.Unread)) {
		unread = append(unread, "context "+context+": "+w.Unread[context])
	}
	if len(unread) > 0 {
		text += " (" + output.List(unread, 3) + ")"
	}
	return text
}

// exporter walks one exporting cluster.
func (w *walk) exporter(e exporter) {
	connected := true
	if !e.home && (e.peer != nil || w.Here.Peers.OK()) { // Otherwise the link peers is unknown already.
		connected = w.peerLink(e)
	}
	if e.side == nil {
		state, detail := Unknown, w.addContext([]string{e.id}, e.twins)
		if w.from(e.id) > 0 { // What matters here has arrived.
			state = Skipped
			if len(e.twins) == 0 {
				detail = "no context of the kubeconfig is this cluster"
			}
		}
		w.link("export", e.id, state, detail)
		return
	}
	if w.exportLink(e, connected) && w.serviceLink(e) {
		w.endpointsLink(e)
	}
}

// from counts the ready endpoints that this cluster has from another.
func (w *walk) from(id string) int {
	n := 0
	for i := range w.Here.Slices.Value {
		if s := &w.Here.Slices.Value[i]; s.Labels[mcsv1beta1.LabelSourceCluster] == id {
			n += countReady(s)
		}
	}
	return n
}

// exportLink reports whether the Service behind the export is worth a look.
func (w *walk) exportLink(e exporter, connected bool) bool {
	c := e.side
	export := c.Export.Value
	switch {
	case !c.Export.OK():
		w.link("export", c.Context, Unknown, c.Export.Error)
		return false
	case export == nil && connected && e.elsewhere():
		w.link("export", c.Context, Unknown, fmt.Sprintf("there is no ServiceExport, and it is not known whether this is the peer %s: the Secret of the peer names another API server", e.id))
		return false
	case export == nil:
		w.link("export", c.Context, Broken, "there is no ServiceExport "+w.Name.Import())
		if connected {
			p := problem("NoExport", fmt.Sprintf("%s had a ServiceExport %s, and has none any more. Its import is being removed.", c.Context, w.Name.Import()))
			p.Advice = "Wait some seconds, or create the ServiceExport again."
			w.add(rankExporter, p)
		}
		return false
	}
	p := w.exportProblem(e, connected)
	state, detail := OK, "ready"
	if reason := exportState(export); reason != "" {
		detail = reason
	}
	if p != nil || !connected && len(export.Status.Conditions) == 0 {
		state = Broken
	}
	w.link("export", c.Context, state, detail)
	w.add(rankExporter, p)
	if conflict := condition(export.Status.Conditions, string(mcsv1beta1.ServiceExportConditionConflict)); conflict != nil && conflict.Status == metav1.ConditionTrue {
		p := problem("Conflict", fmt.Sprintf("The exports of %s disagree (%s): %s", w.Name.Import(), output.Clean(conflict.Reason), output.Clean(conflict.Message)))
		p.Advice = "The name still resolves. Make the Services of all clusters alike."
		w.add(rankAlso, p)
	}
	return p == nil || p.ID != "NoService" && p.ID != "InvalidServiceType"
}

// exportState describes the conditions of an export.
func exportState(export *mcsv1beta1.ServiceExport) string {
	all := export.Status.Conditions
	if len(all) == 0 {
		return "it has no conditions: no controller has seen it"
	}
	var parts []string
	for _, kind := range []string{"Valid", "Ready"} {
		if c := condition(all, kind); c != nil && c.Status != metav1.ConditionTrue {
			parts = append(parts, fmt.Sprintf("%s %s: %s", kind, c.Reason, c.Message))
		}
	}
	if to := export.Annotations[mcs.AnnotationToClusters]; to != "" {
		parts = append(parts, "to the clusters "+to)
	}
	return strings.Join(parts, "; ")
}

// exportProblem returns what is wrong with an export, or nil if nothing is, or if the peer explains it.
func (w *walk) exportProblem(e exporter, connected bool) *output.Problem {
	c, export := e.side, e.side.Export.Value
	if p := w.invalid(c, export); p != nil {
		return p
	}
	ready := condition(export.Status.Conditions, "Ready")
	switch {
	case c.Limited && !slices.Contains(c.Exporting, w.Name.Namespace):
		return w.notExported(c)
	case !c.Limited && mcs.System(w.Name.Namespace, w.Name.Service):
		return w.notExported(c)
	case ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == "Failed":
		return w.exportFailed(c, ready.Message)
	case excluded(export, w.Here.ID) && !e.home:
		to := export.Annotations[mcs.AnnotationToClusters]
		p := problem("NotForThisCluster", fmt.Sprintf("%s exports %s to the clusters %s only, and this cluster is %s.", c.Context, w.Name.Import(), output.Clean(to), w.Here.ID))
		p.Fix = []string{output.Kubectl(c.Context, "--namespace", w.Name.Namespace, "annotate", "--overwrite", "serviceexport", w.Name.Service, mcs.AnnotationToClusters+"="+to+", "+w.Here.ID)}
		p.Advice = fmt.Sprintf("The owner of the ServiceExport in %s chose the clusters that can import it. %s", c.Context, onPurpose)
		return p
	case ready == nil && connected:
		if p := w.silent(c); p != nil {
			return p
		}
		p := problem("ExportPending", fmt.Sprintf("No controller of %s has seen the export of %s.", c.Context, w.Name.Import()))
		p.Advice = "A new export needs some seconds. If it stays so, see the log of the controller there."
		return p
	}
	return nil
}

// invalid returns the problem of an export whose condition Valid is False, or nil.
func (w *walk) invalid(c *Cluster, export *mcsv1beta1.ServiceExport) *output.Problem {
	valid := condition(export.Status.Conditions, "Valid")
	switch {
	case valid == nil || valid.Status != metav1.ConditionFalse:
		return nil
	case valid.Reason == "InvalidServiceType":
		p := problem("InvalidServiceType", fmt.Sprintf("The Service %s of %s has the type ExternalName, which cannot be exported.", w.Name.Import(), c.Context))
		p.Advice = "Give the Service another type."
		return p
	}
	return w.noService(c)
}

func (w *walk) noService(c *Cluster) *output.Problem {
	p := problem("NoService", fmt.Sprintf("%s exports %s, and has no such Service.", c.Context, w.Name.Import()))
	p.Advice = "Create the Service there, or delete the ServiceExport: " + output.Kubectl(c.Context, "--namespace", w.Name.Namespace, "delete", "serviceexport", w.Name.Service)
	return p
}

func (w *walk) exportFailed(c *Cluster, message string) *output.Problem {
	p := problem("ExportFailed", fmt.Sprintf("The export of %s in %s is not ready: %s", w.Name.Import(), c.Context, output.Clean(message)))
	p.Advice = "Remove what the message names. The controller tries again."
	if strings.Contains(message, "the controller does not manage it") {
		p.Fix = []string{output.Kubectl(c.Context, "--namespace", w.Name.Namespace, "delete", "serviceimport", w.Name.Service)}
		p.Advice = "The command deletes the ServiceImport that somebody else created. The controller creates another one: spec.ips and the EndpointSlices that its owner gave it are lost, and clients can get another address. Ask its owner before you run it."
	}
	return p
}

func (w *walk) notExported(c *Cluster) *output.Problem {
	p := problem("NamespaceNotExported", fmt.Sprintf("The controller of %s does not export from the namespace %s (--export-namespaces).", c.Context, w.Name.Namespace))
	if mcs.System(w.Name.Namespace, w.Name.Service) {
		p.Advice = "Names that belong to a cluster itself are exported only if --export-namespaces has their namespace in kubernetes.io/metadata.name. " + onPurpose
		return p
	}
	p.Advice = "Label the namespace there so that the selector of --export-namespaces matches."
	if selector, err := labels.Parse(argument(c, "--export-namespaces")); err == nil && !selector.Empty() {
		if fix := labelFix(c.Context, w.Name.Namespace, selector); fix != nil {
			p.Fix, p.Advice = fix, fmt.Sprintf("The flag restricts what leaves %s. The command exports all ServiceExports of the namespace. %s", c.Context, onPurpose)
		}
	}
	return p
}

// excluded reports whether an export is not for a cluster.
func excluded(export *mcsv1beta1.ServiceExport, id string) bool {
	text, given := export.Annotations[mcs.AnnotationToClusters]
	if !given {
		return false
	}
	return !slices.ContainsFunc(strings.Split(text, ","), func(one string) bool { return strings.TrimSpace(one) == id })
}

// serviceLink reports whether the endpoints of the Service are worth a look.
func (w *walk) serviceLink(e exporter) bool {
	c := e.side
	svc := c.Service.Value
	switch {
	case !c.Service.OK():
		w.link("service", c.Context, Unknown, c.Service.Error)
		return false
	case svc == nil:
		w.link("service", c.Context, Broken, "there is no Service "+w.Name.Import())
		w.add(rankExporter, w.noService(c))
		return false
	}
	var ports []string
	for _, p := range svc.Spec.Ports {
		ports = append(ports, srvName(mcsv1beta1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port}))
	}
	w.link("service", c.Context, OK, fmt.Sprintf("%s, %s", svc.Spec.Type, output.List(ports, 6)))
	return true
}

func (w *walk) endpointsLink(e exporter) {
	c := e.side
	if !c.Endpoints.OK() {
		w.link("endpoints", c.Context, Unknown, c.Endpoints.Error)
		return
	}
	own := slices.DeleteFunc(slices.Clone(c.Endpoints.Value), func(s discoveryv1.EndpointSlice) bool { return s.Labels[mcs.LabelNativeOf] != "" })
	total := 0
	for i := range own {
		total += len(own[i].Endpoints)
	}
	ready := w.ready(own)
	detail := fmt.Sprintf("%d of %s ready", ready, output.Count(total, "endpoint"))
	if missing := w.missingPorts(c.Service.Value, own); len(missing) > 0 && ready > 0 {
		w.portsLink(c, detail, missing)
		w.limits(e, own)
		return
	}
	if ready > 0 {
		w.link("endpoints", c.Context, OK, detail)
		w.limits(e, own)
		return
	}
	if w.ready(w.Here.Slices.Value) > 0 {
		w.link("endpoints", c.Context, OK, detail+"; other clusters have ready ones")
		return
	}
	w.link("endpoints", c.Context, Broken, detail)
	w.add(rankExporter, w.noEndpoints(c, total))
}

// missingPorts returns the ports of a Service that no ready endpoint has, by their names. The name of a
// headless Service leads to pods, and not to ports, unless it is that of an SRV record.
func (w *walk) missingPorts(svc *corev1.Service, own []discoveryv1.EndpointSlice) []corev1.ServicePort {
	has := map[string]bool{}
	for i := range own {
		for _, p := range own[i].Ports {
			if countReady(&own[i]) > 0 {
				has[nameOf(p)] = true
			}
		}
	}
	headless := svc.Spec.ClusterIP == corev1.ClusterIPNone
	return slices.DeleteFunc(slices.Clone(svc.Spec.Ports), func(p corev1.ServicePort) bool {
		return has[p.Name] || headless && (w.Name.Port == "" || p.Name != w.Name.Port)
	})
}

func nameOf(p discoveryv1.EndpointPort) string {
	if p.Name == nil {
		return ""
	}
	return *p.Name
}

// portsLink is the link of endpoints of which some ports are missing: it is broken if nothing else has the
// port of the name.
func (w *walk) portsLink(c *Cluster, detail string, missing []corev1.ServicePort) {
	var texts []string
	asked := false
	for _, p := range missing {
		texts = append(texts, fmt.Sprintf("%s (targetPort %s)", srvName(mcsv1beta1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port}), p.TargetPort.String()))
		asked = asked || w.Name.Port != "" && p.Name == w.Name.Port
	}
	detail += ", without the ports " + output.List(texts, 4)
	p := problem("NoEndpointPorts", fmt.Sprintf("The ready endpoints of the Service %s in %s do not have the ports %s.", w.Name.Import(), c.Context, output.List(texts, 4)))
	p.Advice = w.comparePorts(c)
	state, rank := OK, rankAlso
	none := w.Name.Port == "" && len(missing) == len(c.Service.Value.Spec.Ports)
	if (asked || none) && w.usable(w.Here.Slices.Value) == 0 {
		state, rank = Broken, rankExporter
	}
	w.link("endpoints", c.Context, state, detail)
	w.add(rank, p)
}

// comparePorts is the advice for endpoints without ports.
func (w *walk) comparePorts(c *Cluster) string {
	get := func(words ...string) string {
		return output.Kubectl(c.Context, append([]string{"--namespace", w.Name.Namespace, "get"}, words...)...)
	}
	service := get("service", w.Name.Service, "-o", "jsonpath={.spec.ports}")
	selector := c.Service.Value.Spec.Selector
	if len(selector) == 0 {
		return fmt.Sprintf("The Service has no selector: somebody else writes its EndpointSlices. Compare the names of their ports (%s) with those of the Service (%s).",
			get("endpointslices", "-l", discoveryv1.LabelServiceName+"="+w.Name.Service), service)
	}
	return fmt.Sprintf("Compare the targetPort of the Service (%s) with the ports of its pods (%s). A targetPort that is a name is that of a port of a container.",
		service, get("pods", "-l", labels.Set(selector).String(), "-o", "jsonpath={.items[*].spec.containers[*].ports}"))
}

// usable counts the ready endpoints that have a port: that of the name, if it has one.
func (w *walk) usable(all []discoveryv1.EndpointSlice) int {
	has := func(p discoveryv1.EndpointPort) bool { return w.Name.Port == "" || nameOf(p) == w.Name.Port }
	return w.ready(slices.DeleteFunc(slices.Clone(all), func(s discoveryv1.EndpointSlice) bool { return !slices.ContainsFunc(s.Ports, has) }))
}

func (w *walk) noEndpoints(c *Cluster, total int) *output.Problem {
	selector := c.Service.Value.Spec.Selector
	if len(selector) > 0 && total == 0 && c.Pods.OK() && c.Pods.Value == 0 {
		p := problem("NoPods", fmt.Sprintf("The selector %s of the Service %s in %s selects no pods.", labels.Set(selector), w.Name.Import(), c.Context))
		p.Advice = "Start the pods, or correct the selector of the Service."
		return p
	}
	p := problem("NoReadyEndpoints", fmt.Sprintf("The Service %s of %s has no ready endpoint.", w.Name.Import(), c.Context))
	get := []string{"--namespace", w.Name.Namespace, "get"}
	if len(selector) == 0 {
		p.Advice = "The Service has no selector, and so no pods of its own: somebody else writes its EndpointSlices. Look at them, and at who writes them: " +
			output.Kubectl(c.Context, append(get, "endpointslices", "-l", discoveryv1.LabelServiceName+"="+w.Name.Service, "-o", "yaml")...)
		return p
	}
	p.Advice = "Its pods are not ready: " + output.Kubectl(c.Context, append(get, "pods", "-l", labels.Set(selector).String())...)
	return p
}

// limits checks what this cluster allows the peer to contribute.
func (w *walk) limits(e exporter, own []discoveryv1.EndpointSlice) {
	if e.peer == nil || !e.peer.Connected {
		return
	}
	if e.peer.SecretsUnknown {
		if w.from(e.id) == 0 {
			w.link("limits of peer "+e.id, w.Here.Context, Unknown, "its Secret could not be read")
		}
		return
	}
	secret := []string{"--namespace", controllerNamespace, "annotate", "--overwrite", "secret", e.peer.ID}
	if text, given := e.peer.Annotations[limitNamespaces]; given && !slices.Contains(words(text), w.Name.Namespace) {
		p := problem("PeerLimitNamespaces", fmt.Sprintf("%s allows the peer %s to export in the namespaces %s only.", w.Here.Context, e.peer.ID, output.Clean(text)))
		p.Fix = []string{output.Kubectl(w.Here.Context, append(secret, limitNamespaces+"="+strings.Join(append(words(text), w.Name.Namespace), ", "))...)}
		p.Advice = fmt.Sprintf("Somebody with rights to %s in %s limited what the peer can export. %s", controllerNamespace, w.Here.Context, onPurpose)
		w.add(rankExporter, p)
	}
	text, given := e.peer.Annotations[limitEndpoints]
	if !given || w.from(e.id) > 0 {
		return
	}
	var outside []string
	for _, s := range own {
		for _, at := range s.Endpoints {
			for _, address := range at.Addresses {
				if !inAny(address, words(text)) {
					outside = append(outside, address)
				}
			}
		}
	}
	if len(outside) > 0 {
		p := problem("PeerLimitEndpoints", fmt.Sprintf("%s allows the peer %s to give endpoints in the networks %s only, and %s has %s.", w.Here.Context, e.peer.ID, output.Clean(text), w.Name.Import(), output.List(outside, 4)))
		p.Advice = "The limit keeps a peer from giving endpoints that are not its own. If these are networks of the peer's pods, add them: " + output.Kubectl(w.Here.Context, append(secret, limitEndpoints+"="+text+", NETWORK")...)
		w.add(rankExporter, p)
	}
}

// onPurpose is the advice for commands that lift a restriction.
const onPurpose = "It can be on purpose (docs/limits.md): ask before you run the command."

// Annotations of a peer's Secret.
const (
	limitNamespaces = "clusterset-dns.io/namespaces"
	limitEndpoints  = "clusterset-dns.io/endpoint-cidrs"
)

func words(text string) []string {
	var all []string
	for _, word := range strings.Split(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			all = append(all, word)
		}
	}
	return all
}

func inAny(address string, networks []string) bool {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(networks, func(text string) bool {
		network, err := netip.ParsePrefix(text)
		return err == nil && network.Contains(ip)
	})
}
