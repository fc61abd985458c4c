package explain

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/corefile"
	"github.com/clusterset-dns/multicluster/cli/dnsserver"
	"github.com/clusterset-dns/multicluster/cli/explain/chain"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
)

const (
	ownPods    = "k8s-app=kube-dns"
	secondPods = "app.kubernetes.io/name=multicluster-dns"
	secondName = "multicluster-dns"

	// maxServers bounds the servers of each kind that are asked, and askTimeout each of them.
	maxServers = 20
	askTimeout = 8 * time.Second
	asking     = 8
	logLines   = 100
	logBytes   = 64 << 10
)

// secondNamespaces are those of the chart and of deploy/plugin/server.
var secondNamespaces = []string{system.Namespace, "multicluster-dns"}

// readDNS reads the configuration of a cluster's DNS, and asks each server.
func readDNS(ctx context.Context, c *clusters.Cluster, n chain.Name) chain.DNS {
	d := chain.DNS{Asked: n.In(chain.ClustersetZone)}
	d.Corefile, d.Extra = readCorefile(ctx, c, "coredns")
	custom := get(c.Kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "coredns-custom", metav1.GetOptions{}))
	if d.Custom = custom.Value != nil; d.Custom {
		d.Extra = custom.Value.Data
	}
	if d.Corefile.OK() { // What it imports is a part of it.
		d.Corefile.Error = custom.Error
	}
	d.NodeLocal = readNodeLocal(ctx, c)
	own := get(c.Kube.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, "kube-dns", metav1.GetOptions{}))
	if d.Address.Error = own.Error; own.Value != nil {
		d.Address.Value = own.Value.Spec.ClusterIP
	}
	d.Second = seconds(ctx, c)
	d.Servers = servers(ctx, c, d.Second.Value, n)
	return d
}

// readNodeLocal reads the Corefile of NodeLocal DNSCache, unless it is known not to run: the ConfigMap can be
// left over.
func readNodeLocal(ctx context.Context, c *clusters.Cluster) chain.Read[string] {
	runs := get(c.Kube.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, corefile.NodeLocal, metav1.GetOptions{}))
	if runs.OK() && runs.Value == nil {
		return chain.Read[string]{}
	}
	text, _ := readCorefile(ctx, c, corefile.NodeLocal)
	return text
}

// readCorefile reads the key Corefile of a ConfigMap of kube-system, and the other keys.
func readCorefile(ctx context.Context, c *clusters.Cluster, name string) (chain.Read[string], map[string]string) {
	found := get(c.Kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{}))
	if found.Value == nil {
		return chain.Read[string]{Error: found.Error}, nil
	}
	return chain.Read[string]{Value: found.Value.Data["Corefile"]}, found.Value.Data
}

func seconds(ctx context.Context, c *clusters.Cluster) chain.Read[[]chain.SecondServer] {
	var all []chain.SecondServer
	for _, namespace := range secondNamespaces {
		svc := get(c.Kube.CoreV1().Services(namespace).Get(ctx, secondName, metav1.GetOptions{}))
		if !svc.OK() {
			return chain.Read[[]chain.SecondServer]{Error: svc.Error}
		}
		if svc.Value == nil {
			continue
		}
		of := chain.SecondServer{Namespace: namespace, Name: secondName, Address: svc.Value.Spec.ClusterIP}
		if config := get(c.Kube.CoreV1().ConfigMaps(namespace).Get(ctx, secondName, metav1.GetOptions{})); config.Value != nil {
			of.Corefile = config.Value.Data["Corefile"]
		}
		all = append(all, of)
	}
	return chain.Read[[]chain.SecondServer]{Value: all}
}

// servers lists the pods of the DNS servers, and asks each one.
func servers(ctx context.Context, c *clusters.Cluster, second []chain.SecondServer, n chain.Name) chain.Read[[]chain.Server] {
	pods, err := podsOf(ctx, c, metav1.NamespaceSystem, ownPods)
	if err != nil {
		return failed[[]chain.Server](err)
	}
	pods = pods[:min(len(pods), maxServers)]
	own := len(pods)
	for _, of := range second {
		theirs, err := podsOf(ctx, c, of.Namespace, secondPods)
		if err != nil {
			return failed[[]chain.Server](err)
		}
		pods = append(pods, theirs[:min(len(theirs), maxServers)]...)
	}
	all := make([]chain.Server, len(pods))
	group := new(errgroup.Group)
	group.SetLimit(asking)
	for i := range pods {
		group.Go(func() error {
			all[i] = server(ctx, c, &pods[i], i >= own, n)
			return nil
		})
	}
	_ = group.Wait()
	all = slices.DeleteFunc(all, func(s chain.Server) bool { return s.Pod == "" })
	slices.SortFunc(all, func(a, b chain.Server) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
	})
	return chain.Read[[]chain.Server]{Value: all}
}

func server(ctx context.Context, c *clusters.Cluster, pod *corev1.Pod, second bool, n chain.Name) chain.Server {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return chain.Server{} // It serves no more.
	}
	s := chain.Server{Namespace: pod.Namespace, Pod: pod.Name, Second: second, Account: pod.Spec.ServiceAccountName}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			s.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		if container.State.Waiting != nil {
			s.Waiting = output.Clean(container.State.Waiting.Reason)
		}
	}
	if s.Ready {
		s.Answer = answer(ctx, c, pod, n)
	}
	served := s.Answer.Code == "NOERROR" || s.Answer.Code == "NXDOMAIN" && strings.HasSuffix(s.Answer.Zone, chain.ClustersetZone)
	if !s.Ready || s.Answer.NotAsked == "" && !served {
		s.Log = logOf(ctx, c, pod)
		s.CanList = canList(ctx, c, pod)
	}
	return s
}

// logOf returns the end of a pod's log, and of that before its last restart, which not every pod has.
func logOf(ctx context.Context, c *clusters.Cluster, pod *corev1.Pod) chain.Read[string] {
	var text strings.Builder
	for _, previous := range []bool{true, false} {
		options := &corev1.PodLogOptions{Previous: previous, TailLines: new(int64(logLines)), LimitBytes: new(int64(logBytes))}
		found, err := c.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
		if err != nil && !previous {
			return failed[string](err)
		}
		text.Write(found)
	}
	return chain.Read[string]{Value: text.String()}
}

// canList asks the API server whether the account of a pod can list ServiceImports.
func canList(ctx context.Context, c *clusters.Cluster, pod *corev1.Pod) chain.Read[bool] {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   fmt.Sprintf("system:serviceaccount:%s:%s", pod.Namespace, pod.Spec.ServiceAccountName),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + pod.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "list", Group: "multicluster.x-k8s.io", Resource: "serviceimports",
		},
	}}
	found, err := c.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return failed[bool](err)
	}
	return chain.Read[bool]{Value: found.Status.Allowed}
}

// answer asks a pod for the name.
func answer(ctx context.Context, c *clusters.Cluster, pod *corev1.Pod, n chain.Name) chain.Answer {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	name := dns.Fqdn(n.In(chain.ClustersetZone))
	types := []uint16{dns.TypeA, dns.TypeAAAA}
	if n.Port != "" {
		types = []uint16{dns.TypeSRV}
	}
	var questions []dns.Question
	for _, of := range types {
		questions = append(questions, dns.Question{Name: name, Qtype: of, Qclass: dns.ClassINET})
	}
	at := dnsserver.Pod{Namespace: pod.Namespace, Name: pod.Name, Port: portOf(pod)}
	replies, err := dnsserver.Ask(ctx, c, at, questions...)
	if err != nil {
		text := output.Clean(err.Error())
		if apierrors.IsForbidden(err) || strings.Contains(text, "forbidden") {
			text += " (the right to create pods/portforward is missing)"
		}
		return chain.Answer{NotAsked: text}
	}
	return merge(replies)
}

// portOf returns the port of a CoreDNS pod for DNS over TCP.
func portOf(pod *corev1.Pod) int32 {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == "dns-tcp" {
				return port.ContainerPort
			}
		}
	}
	return 53
}

func add(all []netip.Addr, ip net.IP) []netip.Addr {
	if one, ok := netip.AddrFromSlice(ip); ok {
		return append(all, one.Unmap())
	}
	return all
}

// merge makes one answer of the replies to questions for A and AAAA records. Only records that the answer
// ends in are of interest, not the CNAME before them.
func merge(replies []*dns.Msg) chain.Answer {
	var a chain.Answer
	for _, reply := range replies {
		if code := dns.RcodeToString[reply.Rcode]; a.Code == "" || code != "NOERROR" {
			a.Code = code
		}
		for _, record := range append(slices.Clone(reply.Answer), reply.Ns...) {
			a.TTL = max(a.TTL, time.Duration(record.Header().Ttl)*time.Second)
		}
		for _, record := range reply.Answer {
			switch r := record.(type) {
			case *dns.A:
				a.Addresses = add(a.Addresses, r.A)
			case *dns.AAAA:
				a.Addresses = add(a.Addresses, r.AAAA)
			case *dns.SRV:
				a.Targets = append(a.Targets, fmt.Sprintf("%d %s", r.Port, output.Clean(r.Target)))
			}
		}
		for _, record := range reply.Ns {
			if soa, ok := record.(*dns.SOA); ok && reply.Rcode != dns.RcodeSuccess {
				a.Zone = output.Clean(strings.TrimSuffix(soa.Hdr.Name, "."))
			}
		}
	}
	slices.SortFunc(a.Addresses, netip.Addr.Compare)
	slices.Sort(a.Targets)
	return a
}
