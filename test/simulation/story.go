package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/plugin/index"
	"github.com/clusterset-dns/multicluster/test/world"
)

// story is a clusterset to which things happen.
type story struct {
	ctx      context.Context
	network  *network
	clusters []*cluster
	output   bytes.Buffer // of the last step
}

// namespace is the one that stories play in.
const namespace = "shop"

// play runs the steps of a story, and returns its text with what the steps print now. A line is a step; lines that begin with # say what
// happens, and what a step has printed is indented below it.
func play(ctx context.Context, text string) (string, error) {
	ctx, end := context.WithCancel(ctx)
	s := &story{ctx: ctx, network: newNetwork()}
	defer func() {
		s.stop()
		end()
		time.Sleep(time.Minute) //nolint:forbidigo // it is virtual time: what waits for a time ends
	}()
	var out strings.Builder
	for number, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "    ") {
			continue // what was printed before
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := s.step(line); err != nil {
			return out.String(), fmt.Errorf("line %d, %q: %w", number+1, line, err)
		}
		for _, printed := range strings.Split(strings.TrimRight(s.output.String(), "\n"), "\n") {
			if printed != "" {
				fmt.Fprintln(&out, "    "+strings.TrimRight(printed, " "))
			}
		}
		s.output.Reset()
	}
	return out.String(), nil
}

func (s *story) stop() {
	for _, c := range s.clusters {
		_ = c.end(true)
		c.stopDNS()
	}
}

// step does what a line says: "member1: export foo" in one cluster, and "wait 10s" in none.
func (s *story) step(line string) error {
	words := strings.Fields(line)
	if id, found := strings.CutSuffix(words[0], ":"); found && len(words) > 1 {
		at := slices.IndexFunc(s.clusters, func(c *cluster) bool { return c.id == id })
		if at < 0 {
			return fmt.Errorf("there is no cluster %s", id)
		}
		do, known := inCluster[words[1]]
		if !known {
			return fmt.Errorf("%q is nothing that happens in a cluster", words[1])
		}
		return do(s, s.clusters[at], words[2:])
	}
	do, known := everywhere[words[0]]
	if !known {
		return fmt.Errorf("%q is nothing that happens", words[0])
	}
	return do(s, words[1:])
}

var everywhere = map[string]func(*story, []string) error{
	"clusters": (*story).begin,
	"wait":     (*story).wait,
	"show":     (*story).show,
	"exports":  (*story).exports,
	"cut":      func(s *story, ids []string) error { return s.cut(ids, true) },
	"connect":  func(s *story, ids []string) error { return s.cut(ids, false) },
}

var inCluster = map[string]func(*story, *cluster, []string) error{
	"service":   (*story).service,
	"headless":  (*story).headless,
	"endpoints": (*story).endpoints,
	"export":    (*story).export,
	"delete":    (*story).delete,
	"label":     (*story).label,
	"port":      (*story).port,
	"api":       (*story).api,
	"pods":      (*story).pods,
	"restart":   func(s *story, c *cluster, _ []string) error { return errors.Join(c.end(false), c.start(s.ctx)) },
	"crash":     func(_ *story, c *cluster, _ []string) error { return c.end(true) },
	"start":     func(s *story, c *cluster, _ []string) error { return c.start(s.ctx) },
}

// begin starts clusters that are joined all to all: "clusters 2".
func (s *story) begin(words []string) error {
	count, err := strconv.Atoi(strings.Join(words, " "))
	if err != nil {
		return fmt.Errorf("want a number of clusters: %w", err)
	}
	for n := range count {
		c, err := newCluster(s.ctx, s.network, n+1, 1)
		if err != nil {
			return err
		}
		s.clusters = append(s.clusters, c)
	}
	for _, c := range s.clusters {
		for _, peer := range s.clusters {
			if c != peer {
				if err := c.join(s.ctx, peer.id); err != nil {
					return err
				}
			}
		}
	}
	for _, c := range s.clusters {
		if err := errors.Join(c.startDNS(s.ctx), c.start(s.ctx)); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) wait(words []string) error {
	d, err := time.ParseDuration(strings.Join(words, " "))
	if err == nil {
		time.Sleep(d) //nolint:forbidigo // it is virtual time
		synctest.Wait()
	}
	return err
}

// service makes a Service with endpoints: "service foo 80 10.9.1.1 10.9.1.2".
func (s *story) service(c *cluster, words []string) error { return s.create(c, words) }

// headless does so without a ClusterIP.
func (s *story) headless(c *cluster, words []string) error { return s.create(c, words, world.Headless) }

func (s *story) create(c *cluster, words []string, edits ...func(*corev1.ServiceSpec)) error {
	if len(words) < 2 {
		return errors.New("want a name, a port and endpoints")
	}
	port, err := strconv.ParseInt(words[1], 10, 32)
	if err != nil {
		return err
	}
	edits = append(edits, world.Ports(corev1.ServicePort{Name: "http", Port: int32(port), Protocol: corev1.ProtocolTCP}))
	svc := world.Service(words[0], edits...)
	svc.Namespace = namespace
	slice := world.Endpoints(svc, "", words[2:]...)
	slice.Namespace = namespace
	return errors.Join(c.admin.Create(s.ctx, svc), c.admin.Create(s.ctx, slice))
}

// port changes the number of a Service's port: "port foo 8080".
func (s *story) port(c *cluster, words []string) error {
	return c.admin.Patch(s.ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: words[0]}},
		client.RawPatch(types.JSONPatchType, fmt.Appendf(nil, `[{"op": "replace", "path": "/spec/ports/0/port", "value": %s}]`, words[1])))
}

// kinds are those that stories name.
var kinds = map[string]func() client.Object{
	"service":       func() client.Object { return new(corev1.Service) },
	"serviceexport": func() client.Object { return new(mcsv1beta1.ServiceExport) },
	"serviceimport": func() client.Object { return new(mcsv1beta1.ServiceImport) },
}

func named(words []string) (client.Object, error) {
	if len(words) < 2 || kinds[words[0]] == nil {
		return nil, errors.New("want a kind and a name")
	}
	object := kinds[words[0]]()
	object.SetNamespace(namespace)
	object.SetName(words[1])
	return object, nil
}

// label sets a label, or removes it: "label service derived-foo app.kubernetes.io/managed-by=Helm", "label service foo team-".
func (s *story) label(c *cluster, words []string) error {
	object, err := named(words)
	if err != nil || len(words) != 3 {
		return errors.Join(err, errors.New("want a kind, a name and a label"))
	}
	key, value, set := strings.Cut(words[2], "=")
	text := strconv.Quote(value)
	if !set {
		key, text = strings.TrimSuffix(key, "-"), "null"
	}
	return c.admin.Patch(s.ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"labels": {%q: %s}}}`, key, text)))
}

// endpoints replaces the endpoints of a Service: "endpoints foo 10.9.1.3".
func (s *story) endpoints(c *cluster, words []string) error {
	svc := new(corev1.Service)
	if err := c.admin.Get(s.ctx, client.ObjectKey{Namespace: namespace, Name: words[0]}, svc); err != nil {
		return err
	}
	slice := world.Endpoints(svc, "", words[1:]...)
	slice.Namespace = namespace
	return c.admin.Update(s.ctx, slice)
}

// export exports Services: "export foo bar".
func (s *story) export(c *cluster, names []string) error {
	var all error
	for _, name := range names {
		e := world.Export(name)
		e.Namespace = namespace
		all = errors.Join(all, c.admin.Create(s.ctx, e))
	}
	return all
}

// delete deletes an object: "delete serviceexport foo".
func (s *story) delete(c *cluster, words []string) error {
	object, err := named(words)
	if err != nil {
		return err
	}
	return c.admin.Delete(s.ctx, object)
}

// cut lets packets between clusters vanish: "cut member1 member2"; one cluster alone is cut from all others.
func (s *story) cut(ids []string, cut bool) error {
	s.network.edit(func(n *network) {
		for _, a := range s.clusters {
			for _, b := range s.clusters {
				if a != b && slices.Contains(ids, a.id) && (len(ids) == 1 || slices.Contains(ids, b.id)) {
					n.cut[[2]string{a.id, b.id}], n.cut[[2]string{b.id, a.id}] = cut, cut
				}
			}
		}
	})
	return nil
}

// api ends an API server, and starts it: "api down", "api up". Its cluster goes on without it.
func (s *story) api(c *cluster, words []string) error {
	s.network.edit(func(n *network) { n.refusing[c.id] = strings.Join(words, " ") == "down" })
	return nil
}

// pods lets all pods of a cluster fail, and answer again: "pods down", "pods up".
func (s *story) pods(c *cluster, words []string) error {
	s.network.edit(func(n *network) { n.deadPods[c.id] = strings.Join(words, " ") == "down" })
	return nil
}

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
	key := client.ObjectKey{Namespace: namespace, Name: name}
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
	uses := "-"
	svc := new(corev1.Service)
	switch err := c.admin.Get(s.ctx, client.ObjectKey{Namespace: namespace, Name: "derived-" + name}, svc); {
	case err == nil:
		p, err := kubeProxy(s.ctx, c.admin, svc)
		if err != nil {
			return nil, err
		}
		uses = p.String()
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	return []string{string(imp.Spec.Type), orDash(from), ready, orDash(imp.Spec.IPs), uses, c.answer(name)}, nil
}

// exports prints a table of the conditions of exports.
func (s *story) exports(names []string) error {
	table := tabwriter.NewWriter(&s.output, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "CLUSTER\tEXPORT\tCONDITION\tSTATUS\tREASON\tMESSAGE")
	for _, name := range names {
		for _, c := range s.clusters {
			export := new(mcsv1beta1.ServiceExport)
			if err := c.admin.Get(s.ctx, client.ObjectKey{Namespace: namespace, Name: name}, export); apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return err
			}
			slices.SortFunc(export.Status.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
			for _, is := range export.Status.Conditions {
				_, _ = fmt.Fprintln(table, strings.Join([]string{c.id, name, is.Type, string(is.Status), is.Reason, is.Message}, "\t"))
			}
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

var zone = index.Zone{Name: "clusterset.local.", TTL: 5, NegativeTTL: 5}

// answer is what the plugin answers to a question for A records.
func (c *cluster) answer(name string) string {
	view := c.dns.View()
	if view == nil {
		return "SERVFAIL"
	}
	a := view.Index.Lookup(&zone, name+"."+namespace+".svc.clusterset.local.", 1, 4096)
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
