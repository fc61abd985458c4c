package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/clusterset"
	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

// member is a cluster with its controller as a process.
type member struct {
	*clusterset.Cluster
	metrics    string // the controller's address
	controller *controlplane.Beside
}

// startAll starts clusters c1 to c3, joined all to all, without controllers.
func startAll(ctx context.Context) (set []*member, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, stopAll(set))
		}
	}()
	for i := range 3 {
		c, err := clusterset.Start(ctx, fmt.Sprintf("c%d", i+1), controlplane.Options{ServiceCIDRs: fmt.Sprintf("10.%d.0.0/16", i+1)})
		if err != nil {
			return set, err
		}
		set = append(set, &member{Cluster: c})
	}
	for _, c := range set {
		for _, peer := range set {
			if c == peer {
				continue
			}
			if err := c.Join(ctx, peer.ID, peer.ReaderKubeconfig); err != nil {
				return set, err
			}
		}
	}
	return set, nil
}

func stopAll(set []*member) error {
	var failed []error
	for _, c := range set {
		c.controller.Stop()
		failed = append(failed, c.Stop())
	}
	return errors.Join(failed...)
}

// control starts a cluster's controller.
func (m *member) control(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	m.metrics = listener.Addr().String()
	_ = listener.Close()
	m.controller, err = binaries.StartController(ctx, m.Cluster.Cluster, "--cluster-id="+m.ID, "--probe-peers=false", "--metrics-bind-address="+m.metrics, "--leader-elect=false")
	return err
}

func controlAll(ctx context.Context, set []*member) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range set {
		group.Go(func() error { return m.control(context.WithoutCancel(ctx)) })
	}
	return group.Wait()
}

// figure is the sum of a metric's series that have all the labels.
func (m *member) figure(ctx context.Context, name string, labels map[string]string) (float64, error) {
	text, err := binaries.Get(ctx, "http://"+m.metrics+"/metrics")
	if err != nil {
		return 0, err
	}
	return sum(text, name, labels)
}

func sum(text, name string, labels map[string]string) (total float64, err error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return 0, err
	}
	for _, metric := range families[name].GetMetric() {
		has := 0
		for _, label := range metric.GetLabel() {
			if want, asked := labels[label.GetName()]; asked && want == label.GetValue() {
				has++
			}
		}
		if has == len(labels) {
			total += metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return total, nil
}

// server is the sum of a metric's series of the API server.
func (m *member) server(ctx context.Context, name string, labels ...map[string]string) (total float64, err error) {
	api, err := kubernetes.NewForConfig(m.Config)
	if err != nil {
		return 0, err
	}
	text, err := api.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	for _, wanted := range labels {
		n, err := sum(string(text), name, wanted)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// writes counts what the API server was asked to write of the kinds that the controller writes; Leases and events are none.
func (m *member) writes(ctx context.Context) (float64, error) {
	var labels []map[string]string
	for _, resource := range []string{"serviceimports", "serviceexports", "services", "endpointslices"} {
		for _, verb := range []string{"POST", "PUT", "PATCH", "DELETE", "APPLY"} {
			labels = append(labels, map[string]string{"resource": resource, "verb": verb})
		}
	}
	return m.server(ctx, "apiserver_request_total", labels...)
}

// wait polls a condition, and shows what is missing now and then.
func wait(ctx context.Context, what string, every time.Duration, condition func() error) error {
	tick, show := time.NewTicker(every), time.NewTicker(10*time.Second)
	defer tick.Stop()
	defer show.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(ctx.Err(), err))
		case <-show.C:
			fmt.Printf("  %s: %v\n", what, err)
		case <-tick.C:
		}
	}
}

const namespace = "default"

func serviceName(i int) string { return fmt.Sprintf("s%d", i) }

// fill makes Services with endpoints, and their exports, many at the same time.
func (m *member) fill(ctx context.Context, from, to, endpoints int, export bool) error {
	return inParallel(ctx, 16, numbers(from, to), func(ctx context.Context, i int) error { return m.service(ctx, i, endpoints, export) })
}

func numbers(from, to int) []int {
	all := make([]int, to-from)
	for i := range all {
		all[i] = from + i
	}
	return all
}

// inParallel does something with each of all, a few at a time, until the first error.
func inParallel[T any](ctx context.Context, atOnce int, all []T, do func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, one := range all {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(ctx, one) })
	}
	return group.Wait()
}

// each does something with each member at the same time.
func each(ctx context.Context, set []*member, do func(context.Context, *member) error) error {
	return inParallel(ctx, len(set), set, do)
}

func (m *member) service(ctx context.Context, i, endpoints int, export bool) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: serviceName(i)}
	svc := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": meta.Name}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
	}}
	objects := []client.Object{svc, m.slice(i, endpoints)}
	if export {
		objects = append(objects, &mcsv1beta1.ServiceExport{ObjectMeta: meta})
	}
	for _, obj := range objects {
		if err := m.Admin.Create(ctx, obj); err != nil {
			return fmt.Errorf("create %T %s in %s: %w", obj, meta.Name, m.ID, err)
		}
	}
	return nil
}

// slice is as the cluster's own controller makes it.
func (m *member) slice(i, endpoints int) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceName(i) + "-abcde", Labels: map[string]string{
			discoveryv1.LabelServiceName: serviceName(i), discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for e := range endpoints {
		pod := fmt.Sprintf("%s-%d", serviceName(i), e)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{address(m.ID, i, e)},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			NodeName:   new(fmt.Sprintf("node-%d", e%50)), Zone: new(fmt.Sprintf("zone-%d", e%3)),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod, UID: "00000000-0000-0000-0000-000000000000"},
		})
	}
	return slice
}

// address is in the pods' range of a cluster.
func address(cluster string, i, e int) string {
	n := i*16 + e
	return fmt.Sprintf("10.%d.%d.%d", 100+int(cluster[1]-'0')*10+n>>16, n>>8&255, n&255)
}

// part shows what is done and how long it took.
func part(what string, do func() error) error {
	fmt.Printf("%-90s", what+" ...")
	began := time.Now()
	err := do()
	fmt.Printf(" %6.1f s\n", time.Since(began).Seconds())
	return err
}
