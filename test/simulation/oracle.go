package simulation

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/world"
)

// picture is what a cluster holds, or should hold: of each object what matters of it, as text.
type picture map[string]string

// differences are the first of them, for people.
func differences(want, got picture) string {
	const enough = 4
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		wanted, should := want[key]
		has, is := got[key]
		switch {
		case !should:
			texts = append(texts, fmt.Sprintf("%s should not be there:\n%s", key, has))
		case !is:
			texts = append(texts, fmt.Sprintf("%s is not there:\n%s", key, wanted))
		case has != wanted:
			texts = append(texts, fmt.Sprintf("%s differs (- is what it should be):\n%s", key, gocmp.Diff(wanted, has)))
		}
		if len(texts) == enough {
			break
		}
	}
	return strings.Join(texts, "\n")
}

func text(value any) string {
	out, err := yaml.Marshal(value)
	if err != nil {
		panic(err) // structs of strings and numbers
	}
	return string(out)
}

// seenCluster is what a cluster's API server has in some namespaces, and of its peers.
type seenCluster struct {
	id         string
	namespaces map[string]bool // false: on its way out
	services   map[client.ObjectKey]*corev1.Service
	exports    map[client.ObjectKey]*mcsv1beta1.ServiceExport
	imports    map[client.ObjectKey]*mcsv1beta1.ServiceImport
	slices     map[client.ObjectKey]*discoveryv1.EndpointSlice
	peers      []string
	leases     []coordinationv1.Lease
}

// see reads it from the facts of the judges.
func (f *facts) see() *seenCluster {
	s := &seenCluster{
		id: f.id, namespaces: map[string]bool{}, services: map[client.ObjectKey]*corev1.Service{}, exports: map[client.ObjectKey]*mcsv1beta1.ServiceExport{},
		imports: map[client.ObjectKey]*mcsv1beta1.ServiceImport{}, slices: map[client.ObjectKey]*discoveryv1.EndpointSlice{},
	}
	for key, object := range f.objects {
		switch o := object.(type) {
		case *corev1.Namespace:
			s.namespaces[o.Name] = o.DeletionTimestamp == nil
		case *corev1.Service:
			s.services[key.NamespacedName] = o
		case *mcsv1beta1.ServiceExport:
			s.exports[key.NamespacedName] = o
		case *mcsv1beta1.ServiceImport:
			s.imports[key.NamespacedName] = o
		case *discoveryv1.EndpointSlice:
			s.slices[key.NamespacedName] = o
		case *corev1.Secret:
			if _, is := o.Labels[mcs.LabelPeer]; is && o.Namespace == world.SystemNamespace {
				s.peers = append(s.peers, o.Name)
			}
		case *coordinationv1.Lease:
			if _, is := o.Labels[mcs.LabelPeer]; is && o.Namespace == world.SystemNamespace {
				s.leases = append(s.leases, *o)
			}
		}
	}
	slices.Sort(s.peers)
	return s
}

// compare says in what a cluster is not as it should be.
func compare(is *seenCluster, should picture) error {
	for namespace, stays := range is.namespaces {
		if !stays {
			return fmt.Errorf("namespace %s of %s is still on its way out", namespace, is.id)
		}
	}
	if diff := differences(should, is.picture()); diff != "" {
		return fmt.Errorf("in %s:\n%s", is.id, diff)
	}
	return nil
}

// importText is what matters of an import of ours.
type importText struct {
	Labels, Annotations map[string]string
	Spec                mcsv1beta1.ServiceImportSpec
	Clusters            []string
	Slices              mcsv1beta1.EndpointSliceObjectsStatus
	Ready               string
}

// serviceText is what matters of a derived Service.
type serviceText struct {
	Owner        string
	Type         corev1.ServiceType
	Ports        []string
	Affinity     corev1.ServiceAffinity
	Timeout      int32
	Internal     corev1.ServiceInternalTrafficPolicy
	Distribution string
	Families     []corev1.IPFamily
	Selector     map[string]string
	ExternalIPs  []string
	Unready      bool // is published, too
}

// sliceText is all of a slice that was imported or is exported.
type sliceText struct {
	Owner               string
	Labels, Annotations map[string]string
	Type                discoveryv1.AddressType
	Ports               []discoveryv1.EndpointPort
	Endpoints           []discoveryv1.Endpoint
}

// picture is of what is ours: what this controller made, and its part of what is not.
func (s *seenCluster) picture() picture {
	p := picture{}
	for _, lease := range s.leases {
		p["lease of peer "+lease.Name] = lease.Labels["clusterset-dns.io/connected"]
	}
	for key, imp := range s.imports {
		if ownership.OfImport(imp) {
			p["import "+key.String()] = text(importTextOf(imp))
		}
	}
	for key, svc := range s.services {
		if svc.Labels[mcs.LabelManagedBy] == mcs.ControllerName && svc.Labels[mcs.LabelNativeOf] == "" {
			p["service "+key.String()] = text(serviceTextOf(svc))
		} else if ownership.NativeService(svc) {
			p["native service "+key.String()] = text(serviceTextOf(svc))
		}
	}
	for key, slice := range s.slices {
		// A slice belongs to the controller by its label or by its owner. A slice without labels
		// belongs to no Service, and is deleted with its import.
		if slice.Labels[discoveryv1.LabelManagedBy] == mcs.ControllerName || ownerOf(slice) != "" && slice.OwnerReferences[0].Kind != "Service" && len(slice.Labels) > 0 {
			p["slice "+key.String()] = text(sliceTextOf(slice))
		}
		if s.selected(slice) {
			p["slice of pods "+key.String()] = text(sliceTextOf(slice)) // nobody wants it
		}
	}
	for key, export := range s.exports {
		p["export "+key.String()] = text(conditionsOf(export.Status.Conditions, export.Generation))
	}
	return p
}

// selected reports whether Kubernetes made a slice for a derived Service, which somebody has given a selector.
func (s *seenCluster) selected(slice *discoveryv1.EndpointSlice) bool {
	svc := s.services[client.ObjectKey{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}]
	return slice.Labels[discoveryv1.LabelManagedBy] == ofKubernetes && svc != nil && svc.Labels[mcs.LabelManagedBy] == mcs.ControllerName && strings.HasPrefix(svc.Name, "derived-")
}

// ofOurs leaves out what tools note on objects. It stays there.
func ofOurs(marks map[string]string) map[string]string {
	marks = maps.Clone(marks)
	maps.DeleteFunc(marks, func(key, _ string) bool {
		return strings.HasPrefix(key, "argocd.argoproj.io/") || strings.HasPrefix(key, "policy.example.org/") || key == mcs.AnnotationNativeIPs
	})
	return marks
}

func importTextOf(imp *mcsv1beta1.ServiceImport) importText {
	t := importText{Labels: ofOurs(imp.Labels), Annotations: ofOurs(imp.Annotations), Spec: imp.Spec, Slices: imp.Status.EndpointSliceObjects}
	for _, c := range imp.Status.Clusters {
		t.Clusters = append(t.Clusters, c.Cluster)
	}
	t.Ready = conditionsOf(imp.Status.Conditions, imp.Generation)["Ready"]
	return t
}

func serviceTextOf(svc *corev1.Service) serviceText {
	terms := merge.TrimService(svc)
	return serviceText{
		Owner: ownerOf(svc), Type: svc.Spec.Type, Ports: portTexts(terms.Ports), Affinity: terms.Affinity, Timeout: terms.AffinityTimeout,
		Internal: terms.InternalPolicy, Distribution: terms.Distribution, Families: terms.Families, Selector: svc.Spec.Selector,
		ExternalIPs: svc.Spec.ExternalIPs, Unready: svc.Spec.PublishNotReadyAddresses,
	}
}

func portTexts(ports []mcsv1beta1.ServicePort) []string {
	var texts []string
	for _, p := range ports {
		app := ""
		if p.AppProtocol != nil {
			app = *p.AppProtocol
		}
		texts = append(texts, fmt.Sprintf("%q %s/%d %s", p.Name, p.Protocol, p.Port, app))
	}
	return texts
}

func sliceTextOf(slice *discoveryv1.EndpointSlice) sliceText {
	t := sliceText{ownerOf(slice), ofOurs(slice.Labels), slice.Annotations, slice.AddressType, slice.Ports, slice.Endpoints}
	if len(t.Ports) == 0 {
		t.Ports = nil
	}
	if len(t.Endpoints) == 0 {
		t.Endpoints = nil
	}
	if len(t.Annotations) == 0 {
		t.Annotations = nil
	}
	return t
}

func ownerOf(obj client.Object) string {
	var owners []string
	for _, ref := range obj.GetOwnerReferences() {
		owners = append(owners, fmt.Sprintf("%s %s %s", ref.Kind, ref.Name, ref.UID))
	}
	return strings.Join(owners, ", ")
}

// conditionsOf returns status and reason by type. A condition of an older generation is marked.
func conditionsOf(conditions []metav1.Condition, generation int64) map[string]string {
	all := map[string]string{}
	for _, c := range conditions {
		all[c.Type] = fmt.Sprintf("%s %s", c.Status, c.Reason)
		if c.ObservedGeneration != generation {
			all[c.Type] += fmt.Sprintf(" of generation %d instead of %d", c.ObservedGeneration, generation)
		}
	}
	return all
}

func sortedKeys(all map[client.ObjectKey]bool) []client.ObjectKey {
	return slices.SortedFunc(maps.Keys(all), func(a, b client.ObjectKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// oracle is all clusters. What one of them should hold follows from what people made in those that it reads, and in itself. The
// content of imports and slices is planned by package plan, whose own tests have the rules; conditions, derived Services and which
// endpoints there are follow from the rules as they are written here.
type oracle struct{ clusters []*seenCluster }

// of is what a cluster should hold.
func (o oracle) of(home *seenCluster) picture {
	p := picture{}
	for _, peer := range home.peers {
		p["lease of peer "+peer] = "True"
	}
	names := map[client.ObjectKey]bool{}
	for _, c := range o.readBy(home) {
		for name := range c.exports {
			names[name] = true
		}
	}
	for _, name := range sortedKeys(names) {
		n := o.name(home, name)
		n.wantExport(p)
		if len(n.exporters) > 0 && home.namespaces[name.Namespace] { // C20, C21
			n.wantImport(p)
		}
	}
	for key, imp := range home.imports {
		if _, ciliums := imp.Annotations[mcs.AnnotationCiliumFamilies]; foreignImport(home, key) && !ciliums {
			o.name(home, key).wantTheirs(p, imp)
		}
	}
	return p
}

// wantTheirs: an import of type ClusterSetIP that others made gets a derived Service like any, and a copy of each slice that others made
// for it (R8). If the cluster exports the name, an empty slice describes its Service, also where the import is headless.
func (n name) wantTheirs(p picture, imp *mcsv1beta1.ServiceImport) {
	n.merged = merge.Merged{
		Type: imp.Spec.Type, Ports: imp.Spec.Ports, Affinity: cmp.Or(imp.Spec.SessionAffinity, corev1.ServiceAffinityNone), InternalPolicy: corev1.ServiceInternalTrafficPolicyCluster,
		Families: []corev1.IPFamily{corev1.IPv4Protocol},
	}
	if n.merged.Affinity == corev1.ServiceAffinityClientIP {
		n.merged.AffinityTimeout = corev1.DefaultClientIPServiceAffinitySeconds
	}
	// An import that takes the place of one that was deleted a moment ago has its addresses, of both families.
	if both := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}; slices.Equal(imp.Spec.IPFamilies, both) {
		n.merged.Families = both
	}
	derived := n.wantService(p, imp)
	n.wantSlices(p, imp, n.described(derived, nil))
	for _, source := range n.home.slices {
		theirs := source.Labels[mcsv1beta1.LabelServiceName] == n.Name && source.Labels[discoveryv1.LabelManagedBy] != mcs.ControllerName
		if derived == "" || source.Namespace != n.Namespace || !theirs {
			continue
		}
		sum := sha256.Sum256([]byte(source.Name))
		key := client.ObjectKey{Namespace: n.Namespace, Name: fmt.Sprintf("%s.%s-%x", n.Name, strings.ToLower(string(source.AddressType)), sum[:5])}
		p["slice "+key.String()] = text(sliceText{
			Owner: fmt.Sprintf("ServiceImport %s %s", n.Name, imp.UID), Type: source.AddressType, Ports: source.Ports, Endpoints: source.Endpoints,
			Labels: map[string]string{
				mcsv1beta1.LabelServiceName: n.Name, discoveryv1.LabelServiceName: derived, discoveryv1.LabelManagedBy: mcs.ControllerName,
			},
			Annotations: map[string]string{mcs.AnnotationCopyOf: source.Name},
		})
	}
}

// readBy are the clusters that count for one: itself and its peers.
func (o oracle) readBy(home *seenCluster) []*seenCluster {
	return slices.DeleteFunc(slices.Clone(o.clusters), func(c *seenCluster) bool { return c != home && !slices.Contains(home.peers, c.id) })
}

// exporter is a cluster that exports a name.
type exporter struct {
	cluster *seenCluster
	service *corev1.Service
	export  *mcsv1beta1.ServiceExport
}

// name is what one cluster makes of one name.
type name struct {
	client.ObjectKey
	oracle    oracle
	home      *seenCluster
	exporters []exporter // the oldest export first (C11)
	merged    merge.Merged
}

func (o oracle) name(home *seenCluster, key client.ObjectKey) name {
	n := name{ObjectKey: key, oracle: o, home: home}
	var members []merge.Member
	for _, c := range o.readBy(home) {
		if e := (exporter{c, c.services[key], c.exports[key]}); exports(c, key) {
			n.exporters = append(n.exporters, e)
			members = append(members, merge.Member{Cluster: c.id, Export: merge.TrimExport(e.export), Service: merge.TrimService(e.service)})
		}
	}
	slices.SortFunc(n.exporters, func(a, b exporter) int {
		return cmp.Or(a.export.CreationTimestamp.Compare(b.export.CreationTimestamp.Time), strings.Compare(a.cluster.id, b.cluster.id))
	})
	n.merged = merge.Merge(members)
	return n
}

// exports: an export and a Service that can be exported (C1, C2, C4).
func exports(c *seenCluster, key client.ObjectKey) bool {
	svc, export := c.services[key], c.exports[key]
	return svc != nil && export != nil && svc.Spec.Type != corev1.ServiceTypeExternalName
}

// foreignImport: others made an import of this name in a cluster, which then exports no endpoints.
func foreignImport(c *seenCluster, key client.ObjectKey) bool {
	imp := c.imports[key]
	return imp != nil && !ownership.OfImport(imp)
}

// wantExport: C2, C4, C7, C8, C10.
func (n name) wantExport(p picture) {
	if n.home.exports[n.ObjectKey] == nil {
		return
	}
	want := map[string]string{}
	switch svc := n.home.services[n.ObjectKey]; {
	case svc == nil:
		want["Valid"], want["Ready"] = "False NoService", "False Pending"
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		want["Valid"], want["Ready"] = "False InvalidServiceType", "False Failed"
	default:
		want["Valid"], want["Ready"], want["Conflict"] = "True Valid", "True Ready", "False NoConflicts"
		if reasons := n.conflicts(); len(reasons) > 0 {
			want["Conflict"] = "True " + strings.Join(reasons, ",")
		}
		if foreignImport(n.home, n.ObjectKey) {
			want["Ready"] = "False Failed"
		}
	}
	p["export "+n.String()] = text(want)
}

// conflicts are the reasons for which Conflict is true.
func (n name) conflicts() (reasons []string) {
	oldest := n.exporters[0]
	headless := oldest.service.Spec.ClusterIP == corev1.ClusterIPNone
	for _, compared := range []struct {
		reason string
		value  func(exporter) string
	}{
		{"PortConflict", func(e exporter) string {
			ports := portTexts(merge.TrimService(e.service).Ports)
			slices.Sort(ports)
			return strings.Join(ports, " ")
		}},
		{"TypeConflict", func(e exporter) string { return fmt.Sprint(e.service.Spec.ClusterIP == corev1.ClusterIPNone) }},
		{"SessionAffinityConflict", func(e exporter) string {
			if headless { // C17
				return ""
			}
			return string(e.service.Spec.SessionAffinity)
		}},
		{"SessionAffinityConfigConflict", func(e exporter) string {
			if headless || e.service.Spec.SessionAffinity != oldest.service.Spec.SessionAffinity {
				return text(oldest.service.Spec.SessionAffinityConfig)
			}
			return text(e.service.Spec.SessionAffinityConfig)
		}},
		{"LabelsConflict", func(e exporter) string { return fmt.Sprint(e.export.Spec.ExportedLabels) }},
		{"AnnotationsConflict", func(e exporter) string { return fmt.Sprint(e.export.Spec.ExportedAnnotations) }},
		{"InternalTrafficPolicyConflict", func(e exporter) string { return text(e.service.Spec.InternalTrafficPolicy) }},
		{"TrafficDistributionConflict", func(e exporter) string { return text(e.service.Spec.TrafficDistribution) }},
		// No IPFamilyConflict (C19): all Services here have IPv4.
	} {
		for _, other := range n.exporters[1:] {
			if compared.value(other) != compared.value(oldest) {
				reasons = append(reasons, compared.reason)
				break
			}
		}
	}
	return reasons
}

// wantImport: the import, its slices and its derived Service; nothing of it where others made the import.
func (n name) wantImport(p picture) {
	if foreignImport(n.home, n.ObjectKey) {
		return
	}
	live := n.home.imports[n.ObjectKey]
	if live == nil {
		live = new(mcsv1beta1.ServiceImport)
	}
	derived := n.wantService(p, live)
	mirrored := n.described(derived, n.mirrored())
	n.wantSlices(p, live, mirrored)
	n.wantEndpoints(p, mirrored)
	n.wantShape(p, live, derived, len(mirrored))
}

func (n name) wantSlices(p picture, owner *mcsv1beta1.ServiceImport, all []*discoveryv1.EndpointSlice) {
	for _, slice := range all {
		t := sliceTextOf(slice)
		t.Owner = fmt.Sprintf("ServiceImport %s %s", n.Name, owner.UID) // C36
		p[fmt.Sprintf("slice %s/%s", n.Namespace, slice.Name)] = text(t)
	}
}

// described gives slices to a derived Service. If the cluster exports the name, the first of its own describes the Service.
func (n name) described(derived string, all []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	s := desired.Slices{Home: n.home.id, Service: derived, Wanted: all}
	for _, slice := range all {
		s.Associate(types.NamespacedName(n.ObjectKey), slice)
	}
	for _, e := range n.exporters {
		if e.cluster == n.home {
			s.Publish(types.NamespacedName(n.ObjectKey), merge.Member{Cluster: n.home.id, Service: merge.TrimService(e.service)})
		}
	}
	return s.Wanted
}

// wantService gives the name of the derived Service, which the import has if it is of type ClusterSetIP and nothing is in the way.
func (n name) wantService(p picture, imp *mcsv1beta1.ServiceImport) string {
	derived := n.derived()
	if derived == "" {
		return ""
	}
	key := client.ObjectKey{Namespace: n.Namespace, Name: derived}
	t := serviceText{
		Owner: fmt.Sprintf("ServiceImport %s %s", n.Name, imp.UID), Type: corev1.ServiceTypeClusterIP, Affinity: n.merged.Affinity, Timeout: n.merged.AffinityTimeout,
		Internal: n.merged.InternalPolicy, Distribution: n.merged.Distribution,
	}
	for _, f := range n.merged.Families {
		if f == corev1.IPv4Protocol { // no cluster has another one
			t.Families = append(t.Families, f)
		}
	}
	ports := slices.Clone(n.merged.Ports)
	for i, port := range ports {
		if port.Name == "" && len(ports) > 1 { // C15
			ports[i].Name = fmt.Sprintf("unnamed-%d-%s", port.Port, strings.ToLower(string(port.Protocol)))
		}
	}
	t.Ports = portTexts(ports)
	p["service "+key.String()] = text(t)
	return key.Name
}

// derived is the name of the derived Service; empty where the import has none.
func (n name) derived() string {
	key := client.ObjectKey{Namespace: n.Namespace, Name: "derived-" + n.Name}
	if svc := n.home.services[key]; n.merged.Type == mcsv1beta1.Headless || svc != nil && svc.Labels[mcs.LabelManagedBy] != mcs.ControllerName {
		return ""
	}
	return key.Name
}

// mirrored are the import's slices: the own ones, and what the peers have made of theirs.
func (n name) mirrored() []*discoveryv1.EndpointSlice {
	return desired.ImportedSlices(n.home.id, types.NamespacedName(n.ObjectKey), n.merged, n.members(), 100)
}

func (n name) members() (members []merge.Member) {
	for _, e := range n.exporters {
		m := merge.Member{Cluster: e.cluster.id, Export: merge.TrimExport(e.export), Service: merge.TrimService(e.service)}
		if e.cluster == n.home {
			m.Slices = n.own()
		} else {
			m.Slices = n.oracle.name(e.cluster, n.ObjectKey).exported()
		}
		members = append(members, m)
	}
	return members
}

// exported are the slices that a cluster shows its peers.
func (n name) exported() []*discoveryv1.EndpointSlice {
	if foreignImport(n.home, n.ObjectKey) {
		n.merged.Type = n.home.imports[n.ObjectKey].Spec.Type
		return n.described(n.derived(), nil)
	}
	var alone []merge.Member
	for _, e := range n.exporters {
		if e.cluster == n.home {
			alone = []merge.Member{{Cluster: e.cluster.id, Export: merge.TrimExport(e.export), Service: merge.TrimService(e.service), Slices: n.own()}}
		}
	}
	all := desired.ImportedSlices(n.home.id, types.NamespacedName(n.ObjectKey), n.merged, alone, 100)
	all = n.described(n.derived(), all)
	for _, slice := range all {
		merge.TrimSlice(slice)
	}
	return all
}

// own are the slices of the Service itself.
func (n name) own() (own []*discoveryv1.EndpointSlice) {
	for _, slice := range n.sources(n.home) {
		trimmed := slice.DeepCopy()
		merge.TrimSlice(trimmed)
		own = append(own, trimmed)
	}
	return own
}

// sources are the slices that a cluster's own Service has.
func (n name) sources(c *seenCluster) (sources []*discoveryv1.EndpointSlice) {
	for _, slice := range c.slices {
		_, imported := slice.Labels[mcsv1beta1.LabelServiceName]
		if slice.Namespace == n.Namespace && slice.Labels[discoveryv1.LabelServiceName] == n.Name && !imported {
			sources = append(sources, slice)
		}
	}
	slices.SortFunc(sources, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return sources
}

// wantEndpoints states the rule again, without package plan: the slices from a cluster contain the
// endpoints of its Service, and no others.
func (n name) wantEndpoints(p picture, mirrored []*discoveryv1.EndpointSlice) {
	const most = 100
	for _, slice := range mirrored {
		for _, e := range slice.Endpoints {
			if len(slice.Endpoints) > most || e.NodeName != nil && slice.Labels[mcsv1beta1.LabelSourceCluster] != n.home.id {
				p["slice "+slice.Name] = fmt.Sprintf("at most %d endpoints, and no node of another cluster", most)
			}
		}
	}
	for _, e := range n.exporters {
		var want, planned []string
		if !foreignImport(e.cluster, n.ObjectKey) {
			want = addressesIn(n.sources(e.cluster))
		}
		for _, slice := range mirrored {
			if slice.Labels[mcsv1beta1.LabelSourceCluster] == e.cluster.id {
				planned = append(planned, addressesIn([]*discoveryv1.EndpointSlice{slice})...)
			}
		}
		slices.Sort(planned)
		if !slices.Equal(want, planned) {
			p[fmt.Sprintf("endpoints of %s from %s", n, e.cluster.id)] = fmt.Sprintf("%v, and not the planned %v", want, planned)
		}
	}
}

func addressesIn(all []*discoveryv1.EndpointSlice) (addresses []string) {
	for _, slice := range all {
		for _, e := range slice.Endpoints {
			addresses = append(addresses, strings.Join(e.Addresses, "+"))
		}
	}
	slices.Sort(addresses)
	return addresses
}

// wantShape: the import itself. ips are the derived Service's.
func (n name) wantShape(p picture, live *mcsv1beta1.ServiceImport, derived string, mirrored int) {
	imp := new(mcsv1beta1.ServiceImport)
	desired.Shape(n.merged, imp)
	t := importTextOf(imp)
	t.Clusters, t.Ready, t.Slices = n.merged.Clusters, "True Ready", mcsv1beta1.EndpointSliceObjectsAbsent
	for _, slice := range n.home.slices { // those of others as well
		if slice.Namespace == n.Namespace && slice.Labels[mcsv1beta1.LabelServiceName] == n.Name {
			t.Slices = mcsv1beta1.EndpointSliceObjectsPresent
		}
	}
	if mirrored > 0 {
		t.Slices = mcsv1beta1.EndpointSliceObjectsPresent
	}
	t.Annotations = maps.Clone(t.Annotations)
	if t.Annotations == nil {
		t.Annotations = map[string]string{}
	}
	t.Annotations[mcs.AnnotationExports] = n.recordOf(live)
	svc := n.home.services[client.ObjectKey{Namespace: n.Namespace, Name: derived}]
	switch {
	case svc != nil:
		t.Spec.IPs, t.Spec.IPFamilies = svc.Spec.ClusterIPs, svc.Spec.IPFamilies
		t.Annotations[mcs.AnnotationDerivedService] = derived
		t.Annotations[mcs.AnnotationClusterIPs] = strings.Join(svc.Spec.ClusterIPs, ",")
	case n.merged.Type == mcsv1beta1.Headless: // C25; the address that it had is remembered for the day when it is ClusterSetIP again
		t.Spec.IPFamilies = n.merged.Families
		n.remembered(t, live)
	default: // a Service of the derived name is somebody else's; the families are those for the return
		t.Ready, t.Spec.IPFamilies = "False ForeignService", live.Spec.IPFamilies
		n.remembered(t, live)
	}
	if len(t.Annotations) == 0 {
		t.Annotations = nil
	}
	p["import "+n.String()] = text(t)
}

// recordOf is what the import has recorded of its exports, if that is of the clusters that export.
func (n name) recordOf(live *mcsv1beta1.ServiceImport) string {
	var all map[string]json.RawMessage
	text := live.Annotations[mcs.AnnotationExports]
	if err := json.Unmarshal([]byte(text), &all); err != nil || !slices.Equal(slices.Sorted(maps.Keys(all)), n.merged.Clusters) {
		return fmt.Sprintf("a record of %v", n.merged.Clusters)
	}
	return text
}

// remembered takes over what may be there from before.
func (n name) remembered(t importText, live *mcsv1beta1.ServiceImport) {
	for _, key := range []string{mcs.AnnotationDerivedService, mcs.AnnotationClusterIPs} {
		if value, ok := live.Annotations[key]; ok {
			t.Annotations[key] = value
		}
	}
}

// end compares what each cluster has with what the true state says.
func (j *judges) end(s *story) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.resting = false
	exercises[ending].Add(1)
	var all []*seenCluster
	for _, c := range s.clusters {
		all = append(all, j.facts[c.id].see())
	}
	for _, one := range all {
		if j.isLied() || j.isBeyond() {
			break // what is true of its own objects is not known; or the oracle does not know it, and fresh compares
		}
		if err := compare(one, oracle{all}.of(one)); err != nil {
			return broken{ending, err.Error() + "\n" + one.messages()}
		}
	}
	for _, c := range s.clusters {
		if err := j.endOfLies(j.facts[c.id]); err != nil {
			return err
		}
		if f := j.facts[c.id]; f.liar {
			continue // it harms nobody but itself
		} else if err := j.endOfTraffic(f); err != nil {
			return err
		}
	}
	return nil
}

// messages are those of the conditions of exports and imports.
func (s *seenCluster) messages() string {
	var all []string
	for key, export := range s.exports {
		for _, is := range export.Status.Conditions {
			all = append(all, fmt.Sprintf("export %s: %s %s: %s", key, is.Type, is.Status, is.Message))
		}
	}
	for key, imp := range s.imports {
		for _, is := range imp.Status.Conditions {
			all = append(all, fmt.Sprintf("import %s: %s %s: %s", key, is.Type, is.Status, is.Message))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// endOfTraffic wants kube-proxy to use all endpoints that serve, and DNS to answer with what the imports have.
func (j *judges) endOfTraffic(f *facts) error {
	for key, object := range f.objects {
		imp, is := object.(*mcsv1beta1.ServiceImport)
		if !is || !ownership.OfImport(imp) || imp.Spec.Type == mcsv1beta1.Headless || len(imp.Spec.IPs) == 0 || j.anyHeadless(key.NamespacedName) || j.isChosen(key.NamespacedName) {
			continue
		}
		uses := f.proxy.uses(types.NamespacedName{Namespace: key.Namespace, Name: "derived-" + key.Name}).addresses()
		want := j.good(f, key.NamespacedName, false)
		maps.DeleteFunc(uses, func(at string, _ bool) bool { return !want[at] }) // the slices are compared, so others are the last resort of a port
		if len(want) > 0 && !maps.Equal(uses, want) {
			return broken{ending, fmt.Sprintf("in %s, kube-proxy uses %v of %s; want %v", f.id, sortedTrue(uses), key.NamespacedName, sortedTrue(want))}
		}
		if answer := f.answer(key.String()); answer != strings.Join(imp.Spec.IPs, ",") {
			return broken{ending, fmt.Sprintf("in %s, DNS answers %s with %s; want %v", f.id, key.NamespacedName, answer, imp.Spec.IPs)}
		}
	}
	return nil
}
