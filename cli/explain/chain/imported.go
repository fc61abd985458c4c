package chain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// maxSilence is how old a heartbeat can be. The controller writes one every 30 seconds.
const maxSilence = 100 * time.Second

// imported are the import, its derived Service and its EndpointSlices.
func (w *walk) imported() {
	w.importLink()
	w.derivedLink()
	w.slicesLink()
}

func (w *walk) importLink() {
	h := &w.Here
	imp := h.Import.Value
	missing := firstError(h.Version.Error, h.Import.Error)
	if imp == nil { // An import that exists has a namespace.
		missing = firstError(missing, h.Namespace.Error)
	}
	if missing != "" {
		w.link("import", h.Context, Unknown, missing)
		return
	}
	if imp == nil {
		w.link("import", h.Context, Broken, "there is no ServiceImport "+w.Name.Import())
		w.add(rankHere, w.noImport())
		return
	}
	if p := w.notReady(imp); p != nil {
		w.link("import", h.Context, Broken, describeImport(imp))
		w.add(rankImport, p)
		return
	}
	if p := w.wrongPart(imp); p != nil {
		w.link("import", h.Context, Broken, describeImport(imp))
		w.add(rankImport, p)
		return
	}
	w.link("import", h.Context, OK, describeImport(imp))
	if p := w.silent(h); p != nil {
		w.add(rankAlso, p)
	}
}

// noImport returns why there is no import, or nil if an earlier cause explains it.
func (w *walk) noImport() *output.Problem {
	h := &w.Here
	switch {
	case h.Version.Value == "":
		p := problem("NoCRD", fmt.Sprintf("The cluster %s does not serve ServiceImports.", h.Context))
		p.Fix = []string{output.Kubectl(h.Context, "apply", "--server-side", "-k", output.Deploy("crd"))}
		return p
	case h.Namespace.Value == nil && !w.exported:
		p := problem("NamespaceMissing", fmt.Sprintf("The namespace %s does not exist in %s, and no export of %s is known.", w.Name.Namespace, h.Context, w.Name.Import()))
		p.Advice = "Look for a typing error in the name. These names exist: " + output.Kubectl(h.Context, "get", "serviceimports", "--all-namespaces")
		return p
	case h.Namespace.Value == nil:
		p := problem("NamespaceMissing", fmt.Sprintf("The namespace %s does not exist in %s. A cluster imports to the namespaces that it has.", w.Name.Namespace, h.Context))
		p.Fix = []string{output.Kubectl(h.Context, "create", "namespace", w.Name.Namespace)}
		return p
	case w.explained(rankExporter):
		return nil
	}
	if p := w.silent(h); p != nil {
		return p
	}
	if p := w.notChosen(); p != nil {
		return p
	}
	if !w.exported { // Nothing is known of the exporting side, which is the likely cause.
		return nil
	}
	p := problem("ImportMissing", fmt.Sprintf("There is an export of %s, and %s has no ServiceImport. Its controller runs.", w.Name.Import(), h.Context))
	p.Advice = "A new export needs some seconds. If it stays so, see the log of the controller: the API server can refuse the ServiceImport."
	return p
}

// silent returns a problem if the controller of a cluster is missing or writes no heartbeat.
func (w *walk) silent(c *Cluster) *output.Problem {
	switch {
	case c.Identity != "" && c.ID == "": // It is not known whether there is a controller.
		return nil
	case !c.Installed:
		p := problem("NoController", fmt.Sprintf("The cluster %s has no namespace multicluster-system: no controller is installed.", c.Context))
		p.Advice = "Install the controller there, with a cluster ID (docs/install.md)."
		return p
	case c.ID == "":
		p := problem("NoController", fmt.Sprintf("No controller announces a cluster ID in %s.", c.Context))
		w.start(p, c)
		return p
	case !c.Heartbeat.IsZero() && c.Now.Sub(c.Heartbeat) > maxSilence:
		p := problem("ControllerSilent", fmt.Sprintf("The controller of %s has written no heartbeat for more than %d seconds.", c.Context, int(maxSilence.Seconds())))
		w.start(p, c)
		return p
	}
	return nil
}

// start adds the command that starts the controller of a cluster.
func (w *walk) start(p *output.Problem, c *Cluster) {
	const name = "deployment/multicluster-controller"
	at := []string{"--namespace", controllerNamespace}
	switch d := c.Controller.Value; {
	case !c.Controller.OK():
		p.Advice = "Look at the controller's Deployment there: " + c.Controller.Error
	case d == nil:
		p.Advice = "Install the controller there, with a cluster ID (docs/install.md)."
	case d.Spec.Replicas != nil && *d.Spec.Replicas == 0:
		p.Fix = []string{output.Kubectl(c.Context, append(at, "scale", name, "--replicas", "2")...)}
	default:
		p.Fix = []string{output.Kubectl(c.Context, append(at, "rollout", "restart", name)...)}
		p.Advice = "If it does not start, its log has the reason: " + output.Kubectl(c.Context, append(at, "logs", name)...)
	}
}

// notChosen returns a problem if a flag of the controller leaves the namespace out.
func (w *walk) notChosen() *output.Problem {
	h := &w.Here
	text := argument(h, "--import-namespaces")
	selector, err := labels.Parse(text)
	if mcs.System(w.Name.Namespace, w.Name.Service) && !strings.Contains(text, corev1.LabelMetadataName) {
		p := problem("NamespaceNotChosen", fmt.Sprintf("%s belongs to a cluster itself, so the controller of %s does not import it from others.", w.Name.Import(), h.Context))
		p.Advice = "Such names are imported only if --import-namespaces has their namespace in kubernetes.io/metadata.name. " + onPurpose
		return p
	}
	if text == "" {
		return nil
	}
	if err != nil || selector.Matches(labels.Set(h.Namespace.Value.Labels)) {
		return nil
	}
	p := problem("NamespaceNotChosen", fmt.Sprintf("The controller of %s imports to namespaces with the labels %s only, and %s does not have them.", h.Context, text, w.Name.Namespace))
	p.Fix = labelFix(h.Context, w.Name.Namespace, selector)
	p.Advice = fmt.Sprintf("The flag restricts what peers can bring to %s. The command lets them import to the namespace. %s", h.Context, onPurpose)
	if p.Fix == nil {
		p.Advice = "Label the namespace so that the selector matches. It can be on purpose that it does not: ask before you do."
	}
	return p
}

// argument returns the value of a flag of the controller's Deployment, or "".
func argument(c *Cluster, flag string) string {
	if c.Controller.Value == nil {
		return ""
	}
	for _, container := range c.Controller.Value.Spec.Template.Spec.Containers {
		for _, arg := range container.Args {
			if value, ok := strings.CutPrefix(arg, flag+"="); ok {
				return value
			}
		}
	}
	return ""
}

// labelFix returns the command that gives a namespace the labels of a selector, or nil if they do not
// follow from it.
func labelFix(context, namespace string, selector labels.Selector) []string {
	requirements, _ := selector.Requirements()
	words := []string{"label", "--overwrite", "namespace", namespace}
	for _, r := range requirements {
		values := r.Values().List()
		if len(values) != 1 || r.Operator() != "=" && r.Operator() != "in" && r.Operator() != "==" {
			return nil
		}
		words = append(words, r.Key()+"="+values[0])
	}
	return []string{output.Kubectl(context, words...)}
}

func describeImport(imp *mcsv1beta1.ServiceImport) string {
	text := string(imp.Spec.Type)
	if len(imp.Spec.IPs) > 0 {
		text += " " + output.List(imp.Spec.IPs, 4)
	}
	var from []string
	for _, c := range imp.Status.Clusters {
		from = append(from, c.Cluster)
	}
	if len(from) > 0 {
		text += ", from " + output.List(from, 8)
	}
	if ready := condition(imp.Status.Conditions, "Ready"); ready != nil && ready.Status != metav1.ConditionTrue {
		text += fmt.Sprintf(", not ready (%s)", ready.Reason)
	}
	for _, kind := range []string{"ClusterPreference", "NativeName", "EndpointsKept", "EndpointsProbed"} {
		if c := condition(imp.Status.Conditions, kind); c != nil {
			text += fmt.Sprintf("; %s %s: %s", kind, c.Reason, c.Message)
		}
	}
	return text
}

func condition(all []metav1.Condition, kind string) *metav1.Condition {
	return meta.FindStatusCondition(all, kind)
}

// importCauses are the causes of the reasons of Ready=False that have another name.
var importCauses = map[string]string{"Pending": "ImportPending"}

// notReady returns the problem of an import whose condition Ready is False, or that has none.
func (w *walk) notReady(imp *mcsv1beta1.ServiceImport) *output.Problem {
	h := &w.Here
	ready := condition(imp.Status.Conditions, "Ready")
	switch {
	case ready != nil && ready.Status == metav1.ConditionTrue, imp.Spec.Type == mcsv1beta1.Headless && ready == nil:
		return nil
	case ready == nil && len(imp.Spec.IPs) > 0: // of a controller or a CRD without conditions
		return nil
	case ready == nil:
		if p := w.silent(h); p != nil {
			return p
		}
		p := problem("ImportWithoutStatus", fmt.Sprintf("The ServiceImport %s of %s has neither ips nor a condition.", w.Name.Import(), h.Context))
		p.Advice = "A new import needs some seconds. If it stays so, see the log of the controller."
		if other := otherOf(imp, h.Slices.Value); other != "" {
			p.Advice = fmt.Sprintf("The import is %s's, so the controller leaves it alone. %s has to set its ips, or to answer the name itself.", other, other)
		}
		return p
	}
	id := ready.Reason
	if renamed := importCauses[id]; renamed != "" {
		id = renamed
	}
	if _, known := causes[id]; !known {
		id = "ImportNotReady"
	}
	p := problem(id, fmt.Sprintf("The ServiceImport %s of %s is not ready (%s): %s", w.Name.Import(), h.Context, output.Clean(ready.Reason), output.Clean(ready.Message)))
	w.fixImport(p, imp)
	return p
}

// fixImport adds what to do about a reason.
func (w *walk) fixImport(p *output.Problem, imp *mcsv1beta1.ServiceImport) {
	h := &w.Here
	in := []string{"--namespace", w.Name.Namespace}
	switch p.ID {
	case "ForeignService":
		p.Fix = []string{output.Kubectl(h.Context, append(in, "delete", "service", DerivedName(imp))...)}
		p.Advice = "The command deletes a Service that the controller does not own. Its ClusterIP is lost, and what sends requests to it fails. Ask its owner before you run it. If something needs it, set another name instead, by the annotation " + mcs.AnnotationDerivedService + " of the ServiceImport."
	case "NoPorts":
		p.Advice = "Give the exported Service a port."
		if !managed(imp) {
			p.Advice = "Set spec.ports of the ServiceImport."
		}
	case "IPFamilyNotSupported":
		p.Advice = "Export a Service with an address family that both clusters have (ipFamilyPolicy: PreferDualStack)."
		if !managed(imp) {
			p.Advice = "Set spec.ipFamilies of the ServiceImport to a family that this cluster has, or remove it."
		}
	case "Contested":
		p.Advice = "Find the other writer, and stop it: " + output.Kubectl(h.Context, append(in, "get", "serviceimport", w.Name.Service, "-o", "yaml", "--show-managed-fields")...)
	case "InvalidName":
		p.Fix = []string{output.Kubectl(h.Context, append(in, "annotate", "serviceimport", w.Name.Service, mcs.AnnotationDerivedService+"-")...)}
	case "InvalidIPs":
		p.Fix = []string{output.Kubectl(h.Context, append(in, "patch", "serviceimport", w.Name.Service, "--type", "merge", "--patch", `{"spec":{"ips":null}}`)...)}
	case "UnknownType":
		p.Advice = "Set spec.type of the ServiceImport to ClusterSetIP or Headless: " + output.Kubectl(h.Context, append(in, "edit", "serviceimport", w.Name.Service)...)
	case "ImportRefused", "ServiceRefused":
		p.Advice = "Change the quota, policy or webhook that the message names. The controller tries again each minute."
	case "ImportPending":
		p.Advice = "It needs some seconds. If it stays so, see the log of the controller."
		if svc := h.Derived.Value; svc != nil && svc.DeletionTimestamp != nil && len(svc.Finalizers) > 0 {
			p.Advice = fmt.Sprintf("The Service %s stays until its finalizers are removed (%s), by the programs that set them. If a program is gone, remove its finalizer: ", svc.Name, output.List(svc.Finalizers, 4)) +
				output.Kubectl(h.Context, append(in, "edit", "service", svc.Name)...)
		}
	default:
		p.Advice = "See the message."
	}
}

// otherOf returns the other system whose import it is, or "".
func otherOf(imp *mcsv1beta1.ServiceImport, all []discoveryv1.EndpointSlice) string {
	var pointers []*discoveryv1.EndpointSlice
	for i := range all {
		pointers = append(pointers, &all[i])
	}
	return ownership.Other(imp, pointers)
}

// managed reports whether an import belongs to the controller.
func managed(imp *mcsv1beta1.ServiceImport) bool {
	return imp.Labels[mcs.LabelManagedBy] == mcs.ControllerName
}

// DerivedName returns the name of the derived Service of an import.
func DerivedName(imp *mcsv1beta1.ServiceImport) string {
	if name := imp.Annotations[mcs.AnnotationDerivedService]; name != "" {
		return name
	}
	return "derived-" + imp.Name
}

// wrongPart returns a problem if the import exists, and the name asks for a port or an endpoint that it
// does not have.
func (w *walk) wrongPart(imp *mcsv1beta1.ServiceImport) *output.Problem {
	n := w.Name
	if n.Port != "" && !slices.ContainsFunc(imp.Spec.Ports, func(p mcsv1beta1.ServicePort) bool { return portIs(p, n) }) {
		var names []string
		for _, p := range imp.Spec.Ports {
			names = append(names, srvName(p))
		}
		p := problem("UnknownPort", fmt.Sprintf("The import %s has no port named %q with the protocol %s.", n.Import(), n.Port, strings.ToUpper(n.Protocol)))
		p.Advice = "It has these ports: " + output.List(names, 10) + ". A port without a name has no SRV record."
		return p
	}
	if n.Host == "" {
		return nil
	}
	if imp.Spec.Type != mcsv1beta1.Headless {
		p := problem("NotHeadless", fmt.Sprintf("The import %s has the type %s. Only the endpoints of headless imports have names.", n.Import(), imp.Spec.Type))
		p.Advice = "Ask for " + Name{Service: n.Service, Namespace: n.Namespace}.In(ClustersetZone) + "."
		return p
	}
	if w.Here.Slices.OK() && len(w.expected()) == 0 && len(w.hosts()) > 0 {
		p := problem("UnknownEndpoint", fmt.Sprintf("The import %s has no ready endpoint %s of the cluster %s.", n.Import(), n.Host, n.Cluster))
		p.Advice = "It has these: " + output.List(w.hosts(), 10) + "."
		return p
	}
	return nil
}

func portIs(p mcsv1beta1.ServicePort, n Name) bool {
	return p.Name == n.Port && strings.EqualFold(protocolOf(p), n.Protocol)
}

func protocolOf(p mcsv1beta1.ServicePort) string {
	if p.Protocol == "" {
		return string(corev1.ProtocolTCP)
	}
	return string(p.Protocol)
}

func srvName(p mcsv1beta1.ServicePort) string {
	if p.Name == "" {
		return fmt.Sprintf("%d/%s (no name)", p.Port, protocolOf(p))
	}
	return fmt.Sprintf("_%s._%s", p.Name, strings.ToLower(protocolOf(p)))
}

// absent is why what belongs to the import is skipped.
func (w *walk) absent() string {
	if !w.Here.Import.OK() {
		return "the import could not be read"
	}
	return "there is no import"
}

func (w *walk) derivedLink() {
	h := &w.Here
	imp, svc := h.Import.Value, h.Derived.Value
	switch {
	case imp == nil:
		w.link("derived service", h.Context, Skipped, w.absent())
	case imp.Spec.Type != mcsv1beta1.ClusterSetIP:
		w.link("derived service", h.Context, Skipped, "an import of type "+string(imp.Spec.Type)+" has none")
	case !h.Derived.OK():
		w.link("derived service", h.Context, Unknown, h.Derived.Error)
	case svc == nil:
		w.link("derived service", h.Context, Broken, "there is no Service "+DerivedName(imp))
		if !w.explained(rankImport) {
			p := problem("DerivedMissing", fmt.Sprintf("The Service %s/%s of %s does not exist.", w.Name.Namespace, DerivedName(imp), h.Context))
			if silent := w.silent(h); silent != nil {
				p = silent
			} else {
				p.Advice = "The controller creates it again. If it stays so, see the log of the controller."
			}
			w.add(rankImport, p)
		}
	case !sameAddresses(imp, svc):
		w.link("derived service", h.Context, Broken, fmt.Sprintf("%s has %s", svc.Name, address(svc)))
		if !w.explained(rankImport) {
			p := problem("AddressDiffers", fmt.Sprintf("The ServiceImport %s of %s has the ips %s, and its Service %s has %s.", w.Name.Import(), h.Context, output.List(imp.Spec.IPs, 4), svc.Name, address(svc)))
			p.Advice = "The controller corrects it within a second. If it stays so, see the log of the controller."
			w.add(rankImport, p)
		}
	default:
		w.link("derived service", h.Context, OK, fmt.Sprintf("%s has %s", svc.Name, address(svc)))
	}
}

// sameAddresses reports whether all ips are addresses of the Service: ClusterIPs, or those that a user gave.
func sameAddresses(imp *mcsv1beta1.ServiceImport, svc *corev1.Service) bool {
	theirs := slices.Clone(svc.Spec.ClusterIPs)
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		theirs = append(theirs, ingress.IP)
	}
	for _, ip := range imp.Spec.IPs {
		if !slices.Contains(theirs, ip) {
			return false
		}
	}
	return len(imp.Spec.IPs) > 0
}

func (w *walk) slicesLink() {
	h := &w.Here
	switch {
	case h.Import.Value == nil:
		w.link("endpoint slices", h.Context, Skipped, w.absent())
		return
	case !h.Slices.OK():
		w.link("endpoint slices", h.Context, Unknown, h.Slices.Error)
		return
	}
	detail := describeSlices(h.Slices.Value)
	spec := h.Import.Value.Spec
	portless := spec.Type == mcsv1beta1.ClusterSetIP && len(spec.Ports) > 0 && w.usable(h.Slices.Value) == 0
	ready := w.ready(h.Slices.Value)
	if ready > 0 && !portless {
		w.link("endpoint slices", h.Context, OK, detail)
		return
	}
	if ready > 0 {
		detail += ", without the port"
	}
	w.link("endpoint slices", h.Context, Broken, detail)
	if w.explained(rankEndpoints) {
		return
	}
	if ready > 0 {
		p := problem("NoEndpointPorts", fmt.Sprintf("No ready endpoint of the import %s in %s has the port.", w.Name.Import(), h.Context))
		p.Advice = "Compare the targetPort of the exported Service with the ports of its pods, in the exporting cluster."
		w.add(rankEndpoints, p)
		return
	}
	if c := condition(h.Import.Value.Status.Conditions, "EndpointsProbed"); c != nil && c.Status == metav1.ConditionFalse {
		p := problem("EndpointsFailProbes", "No endpoint accepts connections from this cluster: "+output.Clean(c.Message))
		p.Advice = "Check routes, firewalls and network policies between the pods of both clusters."
		w.add(rankEndpoints, p)
		return
	}
	p := problem("SlicesMissing", fmt.Sprintf("The import %s of %s has no ready endpoint.", w.Name.Import(), h.Context))
	if silent := w.silent(h); silent != nil {
		p = silent
	} else {
		p.Advice = "The exporting cluster has ready endpoints, or cannot be read from here. A change needs some seconds. If it stays so, see the log of the controller."
	}
	w.add(rankEndpoints, p)
}

// describeSlices counts the ready endpoints of each cluster.
func describeSlices(all []discoveryv1.EndpointSlice) string {
	ready, total := map[string]int{}, map[string]int{}
	standby := map[string]bool{}
	var order []string
	for i := range all {
		of := all[i].Labels[mcsv1beta1.LabelSourceCluster]
		if _, seen := total[of]; !seen {
			order = append(order, of)
		}
		ready[of] += countReady(&all[i])
		total[of] += len(all[i].Endpoints)
		standby[of] = standby[of] || all[i].Labels[mcs.LabelStandby] != ""
	}
	if len(order) == 0 {
		return "there are none"
	}
	slices.Sort(order)
	var parts []string
	for _, of := range order {
		text := fmt.Sprintf("%s: %d of %s ready", of, ready[of], output.Count(total[of], "endpoint"))
		if of == "" {
			text = strings.TrimPrefix(text, ": ")
		}
		if standby[of] {
			text += ", on standby: another cluster is preferred"
		}
		parts = append(parts, text)
	}
	return output.List(parts, 8)
}

func countReady(slice *discoveryv1.EndpointSlice) int {
	n := 0
	for _, e := range slice.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			n++
		}
	}
	return n
}

func (w *walk) ready(all []discoveryv1.EndpointSlice) int {
	n := 0
	for i := range all {
		n += countReady(&all[i])
	}
	return n
}

// expected are the addresses that DNS servers should answer, sorted.
func (w *walk) expected() []netip.Addr {
	imp := w.Here.Import.Value
	if imp == nil {
		return nil
	}
	var texts []string
	if imp.Spec.Type == mcsv1beta1.ClusterSetIP {
		texts = imp.Spec.IPs
	} else {
		w.eachEndpoint(func(cluster, host string, addresses []string, standby bool) {
			if w.Name.Host == "" && !standby || w.Name.Host == host && w.Name.Cluster == cluster {
				texts = append(texts, addresses...)
			}
		})
	}
	var found []netip.Addr
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil {
			found = append(found, ip.Unmap())
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found)
}

// hosts are the names of the ready endpoints, with their clusters.
func (w *walk) hosts() []string {
	var names []string
	w.eachEndpoint(func(cluster, host string, _ []string, _ bool) { names = append(names, host+"."+cluster) })
	slices.Sort(names)
	return slices.Compact(names)
}

// eachEndpoint calls a function for the ready endpoints of the import.
func (w *walk) eachEndpoint(do func(cluster, host string, addresses []string, standby bool)) {
	for i := range w.Here.Slices.Value {
		slice := &w.Here.Slices.Value[i]
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready || len(e.Addresses) == 0 {
				continue
			}
			host := strings.NewReplacer(".", "-", ":", "-").Replace(e.Addresses[0])
			if e.Hostname != nil && *e.Hostname != "" {
				host = *e.Hostname
			}
			do(slice.Labels[mcsv1beta1.LabelSourceCluster], host, e.Addresses, slice.Labels[mcs.LabelStandby] != "")
		}
	}
}

func firstError(all ...string) string {
	for _, text := range all {
		if text != "" {
			return text
		}
	}
	return ""
}
