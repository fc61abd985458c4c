package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/miekg/dns"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/plugin/index"
	"github.com/clusterset-dns/multicluster/test/world"
)

// show prints a table of what each cluster has of names: the import, what kube-proxy does with its address, and what DNS answers.
func (s *story) show(names []string) error {
	table := tabwriter.NewWriter(&s.output, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "CLUSTER\tNAME\tTYPE\tFROM\tREADY\tIP\tKUBE-PROXY\tDNS")
	for _, name := range names {
		for _, c := range s.clusters {
			row, err := s.row(c, name)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintln(table, strings.Join(append([]string{c.id, name}, row...), "\t"))
		}
	}
	return table.Flush()
}

func (s *story) row(c *cluster, name string) ([]string, error) {
	key := keyOf(name)
	imp := new(mcsv1beta1.ServiceImport)
	if err := c.admin.Get(s.ctx, key, imp); apierrors.IsNotFound(err) {
		return []string{"-", "-", "-", "-", "-", c.answer(name)}, nil
	} else if err != nil {
		return nil, err
	}
	var from []string
	for _, cluster := range imp.Status.Clusters {
		from = append(from, cluster.Cluster)
	}
	ready := "-"
	for _, condition := range imp.Status.Conditions {
		if condition.Type == "Ready" {
			ready = string(condition.Status)
			if condition.Status != metav1.ConditionTrue {
				ready = condition.Reason
			}
		}
	}
	uses := s.judges.uses(c.id, types.NamespacedName{Namespace: key.Namespace, Name: "derived-" + key.Name}).String()
	return []string{string(imp.Spec.Type), orDash(from), ready, orDash(imp.Spec.IPs), cmp.Or(uses, "-"), c.answer(name)}, nil
}

// exports prints a table of the conditions of exports.
func (s *story) exports(names []string) error {
	table := tabwriter.NewWriter(&s.output, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "CLUSTER\tEXPORT\tCONDITION\tSTATUS\tREASON\tMESSAGE")
	for _, name := range names {
		for _, c := range s.clusters {
			export := new(mcsv1beta1.ServiceExport)
			if err := c.admin.Get(s.ctx, keyOf(name), export); apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return err
			}
			printConditions(table, c.id, name, export.Status.Conditions)
		}
	}
	return table.Flush()
}

// eachImport prints a table about the imports of names.
func (s *story) eachImport(names []string, header string, row func(table io.Writer, cluster, name string, imp *mcsv1beta1.ServiceImport)) error {
	table := tabwriter.NewWriter(&s.output, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, header)
	for _, name := range names {
		for _, c := range s.clusters {
			imp := new(mcsv1beta1.ServiceImport)
			switch err := c.admin.Get(s.ctx, keyOf(name), imp); {
			case err == nil:
				row(table, c.id, name, imp)
			case !apierrors.IsNotFound(err):
				return err
			}
		}
	}
	return table.Flush()
}

// imports prints a table of the conditions of imports.
func (s *story) imports(names []string) error {
	return s.eachImport(names, "CLUSTER\tIMPORT\tCONDITION\tSTATUS\tREASON\tMESSAGE", func(table io.Writer, cluster, name string, imp *mcsv1beta1.ServiceImport) {
		printConditions(table, cluster, name, imp.Status.Conditions)
	})
}

// ports prints a table of the ports of imports.
func (s *story) ports(names []string) error {
	return s.eachImport(names, "CLUSTER\tIMPORT\tPORT\tPROTOCOL\tAPPLICATION", func(table io.Writer, cluster, name string, imp *mcsv1beta1.ServiceImport) {
		for _, p := range imp.Spec.Ports {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s:%d\t%s\t%s\n", cluster, name, p.Name, p.Port, p.Protocol, cmp.Or(deref(p.AppProtocol), "-"))
		}
	})
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// events prints a table of the events on objects of a name, with how often they came.
func (s *story) events(names []string) error {
	table := tabwriter.NewWriter(&s.output, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "CLUSTER\tON\tTIMES\tREASON\tNOTE")
	for _, name := range names {
		key := keyOf(name)
		for _, c := range s.clusters {
			for _, object := range c.server.Objects() {
				e, is := object.(*eventsv1.Event)
				if !is || e.Regarding.Namespace != key.Namespace || e.Regarding.Name != key.Name {
					continue
				}
				times := 1
				if e.Series != nil {
					times = int(e.Series.Count)
				}
				_, _ = fmt.Fprintf(table, "%s\t%s %s\t%d\t%s\t%s\n", c.id, e.Regarding.Kind, name, times, e.Reason, e.Note)
			}
		}
	}
	return table.Flush()
}

func printConditions(table io.Writer, cluster, name string, all []metav1.Condition) {
	slices.SortFunc(all, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	for _, is := range all {
		_, _ = fmt.Fprintln(table, strings.Join([]string{cluster, name, is.Type, string(is.Status), is.Reason, is.Message}, "\t"))
	}
}

// slices prints a table of the EndpointSlices of imports.
func (s *story) slices(names []string) error {
	table := tabwriter.NewWriter(&s.output, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "CLUSTER\tIMPORT\tSOURCE\tSERVICE\tPORTS\tENDPOINTS")
	for _, name := range names {
		key := keyOf(name)
		for _, c := range s.clusters {
			var all discoveryv1.EndpointSliceList
			if err := c.admin.List(s.ctx, &all, client.InNamespace(key.Namespace), client.MatchingLabels{mcsv1beta1.LabelServiceName: key.Name}); err != nil {
				return err
			}
			slices.SortFunc(all.Items, func(a, b discoveryv1.EndpointSlice) int {
				return strings.Compare(a.Labels[mcsv1beta1.LabelSourceCluster], b.Labels[mcsv1beta1.LabelSourceCluster])
			})
			for _, one := range all.Items {
				var ports, endpoints []string
				for _, p := range one.Ports {
					ports = append(ports, strings.TrimSuffix(fmt.Sprintf("%s:%d/%s", *p.Name, *p.Port, deref(p.AppProtocol)), "/"))
				}
				for _, e := range one.Endpoints {
					endpoints = append(endpoints, e.Addresses[0]+stateOf(e)+hintOf(e))
				}
				_, _ = fmt.Fprintln(table, strings.Join([]string{
					c.id, name, cmp.Or(one.Labels[mcsv1beta1.LabelSourceCluster], "-"), cmp.Or(one.Labels[discoveryv1.LabelServiceName], "-"), orDash(ports), orDash(endpoints),
				}, "\t"))
			}
		}
	}
	return table.Flush()
}

// services prints a table of all Services.
func (s *story) services(_ []string) error {
	table := tabwriter.NewWriter(&s.output, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "CLUSTER\tSERVICE\tMADE FOR\tTYPE\tCLUSTER-IP\tPORTS\tKUBE-PROXY\tAGE")
	for _, c := range s.clusters {
		var all corev1.ServiceList
		if err := c.admin.List(s.ctx, &all); err != nil {
			return err
		}
		for _, svc := range all.Items {
			var ports []string
			for _, p := range svc.Spec.Ports {
				ports = append(ports, fmt.Sprintf("%s:%d/%s", p.Name, p.Port, p.Protocol))
			}
			uses, age := s.judges.uses(c.id, client.ObjectKeyFromObject(&svc)).String(), time.Since(svc.CreationTimestamp.Time).Round(time.Second)
			_, _ = fmt.Fprintln(table, strings.Join([]string{
				c.id, svc.Namespace + "/" + svc.Name, madeFor(&svc), typeOf(&svc), orDash(svc.Spec.ClusterIPs), orDash(ports), cmp.Or(uses, "-"), age.String(),
			}, "\t"))
		}
	}
	return table.Flush()
}

// writes prints a table of how many writes the controllers have made or tried since the last one, without signs of life: "writes",
// "writes services" for those of some resources, and "writes reads" for how many single objects they have read from the API server.
func (s *story) writes(resources []string) error {
	for _, resource := range resources {
		if _, err := oneOf([]string{resource}, append([]string{"reads", "secrets", "namespaces", "leases"}, written...)...); err != nil {
			return err
		}
	}
	s.judges.mu.Lock()
	defer s.judges.mu.Unlock()
	table := tabwriter.NewWriter(&s.output, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "CLUSTER\tRESOURCE\tWRITES")
	of := slices.SortedFunc(maps.Keys(s.judges.writes), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, one := range of {
		if len(resources) > 0 && !slices.Contains(resources, one[1]) {
			continue
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\n", one[0], one[1], s.judges.writes[one])
	}
	if slices.Contains(resources, "reads") {
		for _, c := range s.clusters {
			_, _ = fmt.Fprintf(table, "%s\treads\t%d\n", c.id, s.judges.reads[c.id])
		}
	}
	clear(s.judges.writes)
	clear(s.judges.reads)
	return table.Flush()
}

// madeFor says for which name the controller has made a Service: for the derived one of an import, or its native name.
func madeFor(svc *corev1.Service) string {
	if svc.Labels[mcs.LabelManagedBy] == mcs.ControllerName {
		return "address"
	}
	if svc.Labels[mcs.LabelNativeOf] != "" {
		return "native name"
	}
	return "-"
}

// typeOf is the type of a Service, with the addresses of a load balancer.
func typeOf(svc *corev1.Service) string {
	is := string(svc.Spec.Type)
	for _, in := range svc.Status.LoadBalancer.Ingress {
		is += " on " + in.IP
	}
	if class := svc.Spec.LoadBalancerClass; class != nil {
		is += " of " + *class
	}
	return is
}

// state is what each cluster has of all names that are exported or imported, as tables.
func (s *story) state() string {
	names := map[string]bool{}
	for _, c := range s.clusters {
		for _, o := range c.server.Objects() {
			switch o.(type) {
			case *mcsv1beta1.ServiceImport, *mcsv1beta1.ServiceExport:
				names[o.GetNamespace()+"/"+o.GetName()] = true
			}
		}
	}
	sorted := slices.Sorted(maps.Keys(names))
	s.output.Reset()
	defer s.output.Reset()
	for _, table := range []func([]string) error{s.show, s.slices, s.peers} {
		if err := table(sorted); err != nil {
			return err.Error()
		}
	}
	return s.output.String()
}

func stateOf(e discoveryv1.Endpoint) string {
	switch ready, ends := states(e); {
	case ready:
		return ""
	case ends:
		return "=terminating"
	}
	return "=unready"
}

// hintOf says in which zone kube-proxy uses an endpoint, if it is not in all.
func hintOf(e discoveryv1.Endpoint) string {
	if e.Hints == nil || len(e.Hints.ForZones) == 0 {
		return ""
	}
	return "@" + e.Hints.ForZones[0].Name
}

// peers prints a table of what clusters think of each other: the Leases.
func (s *story) peers(_ []string) error {
	table := tabwriter.NewWriter(&s.output, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "CLUSTER\tPEER\tREASON\tDATA PATH")
	for _, c := range s.clusters {
		var all coordinationv1.LeaseList
		if err := c.admin.List(s.ctx, &all, client.InNamespace(world.SystemNamespace), client.HasLabels{mcs.LabelPeer}); err != nil {
			return err
		}
		for _, lease := range all.Items {
			of := func(what string) string { return cmp.Or(lease.Labels["clusterset-dns.io/"+what], "-") }
			_, _ = fmt.Fprintln(table, strings.Join([]string{c.id, lease.Name, of("reason"), of("data-path")}, "\t"))
		}
	}
	return table.Flush()
}

func orDash(all []string) string {
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, ",")
}

// metadata prints a table of the labels and annotations that imports have from exports.
func (s *story) metadata(names []string) error {
	return s.eachImport(names, "CLUSTER\tIMPORT\tLABELS\tANNOTATIONS", func(table io.Writer, cluster, name string, imp *mcsv1beta1.ServiceImport) {
		_, _ = fmt.Fprintln(table, strings.Join([]string{cluster, name, orDash(marksOf(imp.Labels)), orDash(marksOf(imp.Annotations))}, "\t"))
	})
}

// marksOf leaves out those of the controller, of which some are records.
func marksOf(marks map[string]string) (all []string) {
	for key, value := range marks {
		if !strings.Contains(key, "clusterset-dns.io/") && key != mcs.AnnotationDerivedService {
			all = append(all, key+"="+value)
		}
	}
	slices.Sort(all)
	return all
}

// dig asks the plugin: "dig pod-0.member1.db.shop A", "dig _http._tcp.foo.shop SRV".
func (s *story) dig(c *cluster, words []string) error {
	if len(words) != 2 || dns.StringToType[words[1]] == 0 {
		return errors.New("want a name and a type of records")
	}
	view := c.dns.View()
	if view == nil {
		_, _ = fmt.Fprintln(&s.output, "SERVFAIL")
		return nil
	}
	a := view.Index.Lookup(&zone, words[0]+".svc.clusterset.local.", dns.StringToType[words[1]], 4096)
	if a.Result == index.NameError {
		_, _ = fmt.Fprintln(&s.output, "NXDOMAIN")
	}
	for _, rr := range append(a.Answer, a.Additional...) {
		_, _ = fmt.Fprintln(&s.output, strings.ReplaceAll(strings.ReplaceAll(rr.String(), ".svc.clusterset.local.", ""), "\t", " "))
	}
	return nil
}

var zone = index.Zone{Name: "clusterset.local.", TTL: 5, NegativeTTL: 5}

// answer is what the plugin answers to a question for A records.
func (c *cluster) answer(name string) string {
	view, key := c.dns.View(), keyOf(name)
	if view == nil {
		return "SERVFAIL"
	}
	a := view.Index.Lookup(&zone, key.Name+"."+key.Namespace+".svc.clusterset.local.", 1, 4096)
	var data []string
	for _, rr := range a.Answer {
		data = append(data, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	switch {
	case a.Result == index.NameError:
		return "NXDOMAIN"
	case len(data) == 0:
		return "NOERROR"
	}
	slices.Sort(data)
	return strings.Join(data, ",")
}
