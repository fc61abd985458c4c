package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/test/clusterset"
	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
	"github.com/clusterset-dns/multicluster/bench/simulated"
)

// stage is a real cluster with its controller, and simulated peers.
type stage struct {
	*clusterset.Cluster
	peers      []*simulated.Server
	beating    context.CancelFunc
	metrics    string // the controller's address
	controller *controlplane.Beside
}

// ranges are those of ClusterIPs: the peers' endpoints are in 10.0.0.0/8.
const ranges = "172.16.0.0/12"

// set starts everything but the controller.
func set(ctx context.Context, w simulated.World) (s *stage, err error) {
	s = &stage{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if s.Cluster, err = clusterset.Start(ctx, "home", controlplane.Options{ServiceCIDRs: ranges}); err != nil {
		return s, err
	}
	for _, name := range w.AllNamespaces() {
		if err := s.Admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return s, err
		}
	}
	certificates, err := simulated.NewCertificates()
	if err != nil {
		return s, err
	}
	for i := range w.Peers {
		if err := s.join(ctx, certificates, w, i); err != nil {
			return s, fmt.Errorf("peer %s: %w", w.ID(i), err)
		}
	}
	beats, cancel := context.WithCancel(ctx)
	s.beating = cancel
	go func() { _ = simulated.Beat(beats, s.peers, simulated.BeatEvery) }() // every peer has the namespace
	return s, nil
}

// join starts one peer and lets the cluster read it.
func (s *stage) join(ctx context.Context, certificates *simulated.Certificates, w simulated.World, i int) error {
	peer, err := simulated.New(certificates, simulated.Options{}, w.Objects(i))
	if err != nil {
		return err
	}
	if err := peer.Start(ctx); err != nil {
		return err
	}
	s.peers = append(s.peers, peer)
	kubeconfig, err := peer.Kubeconfig()
	if err != nil {
		return err
	}
	return s.Join(ctx, w.ID(i), kubeconfig)
}

func (s *stage) stop() error {
	var failed []error
	s.controller.Stop()
	if s.beating != nil {
		s.beating()
	}
	for _, peer := range s.peers {
		failed = append(failed, peer.Stop())
	}
	if s.Cluster != nil {
		failed = append(failed, s.Stop())
	}
	return errors.Join(failed...)
}

// control starts the controller, without TCP connections to endpoints that do not exist.
func (s *stage) control(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.metrics = listener.Addr().String()
	_ = listener.Close()
	s.controller, err = binaries.StartController(ctx, s.Cluster.Cluster, "--cluster-id="+s.ID, "--probe-peers=false",
		"--metrics-bind-address="+s.metrics, "--leader-elect=false")
	return err
}

// figure is the sum of a metric's series of the controller that have all the labels.
func (s *stage) figure(ctx context.Context, name string, labels map[string]string) (float64, error) {
	text, err := binaries.Get(ctx, "http://"+s.metrics+"/metrics")
	if err != nil {
		return 0, err
	}
	return sum(text, name, func(label, value string) bool { return labels[label] == "" || labels[label] == value })
}

// writes counts what the API server was asked to write of the kinds that the controller writes; Leases and events are none.
func (s *stage) writes(ctx context.Context) (float64, error) {
	api, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return 0, err
	}
	text, err := api.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	kinds := []string{"serviceimports", "serviceexports", "services", "endpointslices"}
	verbs := []string{"POST", "PUT", "PATCH", "DELETE", "APPLY"}
	return sum(string(text), "apiserver_request_total", func(label, value string) bool {
		return (label != "resource" || slices.Contains(kinds, value)) && (label != "verb" || slices.Contains(verbs, value))
	})
}

// sum adds the series of a metric, all labels of which are wanted.
func sum(text, name string, wanted func(label, value string) bool) (total float64, err error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return 0, err
	}
	for _, metric := range families[name].GetMetric() {
		all := true
		for _, label := range metric.GetLabel() {
			all = all && wanted(label.GetName(), label.GetValue())
		}
		if all {
			total += metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return total, nil
}

// requests returns how many requests all peers together have got.
func (s *stage) requests() (total int) {
	for _, peer := range s.peers {
		total += simulated.Total(peer.Requests())
	}
	return total
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
