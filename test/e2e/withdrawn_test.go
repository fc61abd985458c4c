package e2e

import (
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// withdrawals contains when DNS servers stopped serving, according to their EndpointSlices.
// kube-proxy then makes the kernel forget the flows to them, and an answer that is on its way over
// such a flow is lost.
type withdrawals struct {
	family discoveryv1.AddressType

	mu      sync.Mutex
	serving map[string]bool
	at      []time.Time
}

// see compares the slices with those of before.
func (w *withdrawals) see(now time.Time, all []*discoveryv1.EndpointSlice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	serving := map[string]bool{}
	for _, slice := range all {
		for _, endpoint := range slice.Endpoints {
			if s := endpoint.Conditions.Serving; slice.AddressType == w.family && (s == nil || *s) {
				serving[endpoint.Addresses[0]] = true
			}
		}
	}
	for address := range w.serving {
		if !serving[address] {
			w.at = append(w.at, now)
		}
	}
	w.serving = serving
}

// since are the times from one on.
func (w *withdrawals) since(began time.Time) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.at), began.After)
}

// watchServers notes the withdrawals of the cluster that asks, until the test's end.
func (l *load) watchServers() *withdrawals {
	l.t.Helper()
	w := &withdrawals{family: discoveryv1.AddressTypeIPv4}
	if address, err := netip.ParseAddrPort(l.server); err != nil {
		l.t.Fatal(err)
	} else if address.Addr().Is6() {
		w.family = discoveryv1.AddressTypeIPv6
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: l.kubeconfig()}, &clientcmd.ConfigOverrides{CurrentContext: l.at.id}).ClientConfig()
	if err != nil {
		l.t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		l.t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("kube-system"),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = discoveryv1.LabelServiceName + "=kube-dns" }))
	servers := factory.Discovery().V1().EndpointSlices()
	look := func() {
		if all, err := servers.Lister().List(labels.Everything()); err != nil {
			l.t.Error(err)
		} else {
			w.see(time.Now(), all)
		}
	}
	if _, err := servers.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { look() }, UpdateFunc: func(any, any) { look() }, DeleteFunc: func(any) { look() },
	}); err != nil {
		l.t.Fatal(err)
	}
	factory.Start(l.t.Context().Done())
	l.t.Cleanup(factory.Shutdown) // the test's context has ended
	factory.WaitForCacheSync(l.t.Context().Done())
	return w
}

// TestUnitWithdrawals: a server counts when it stops serving, or is gone, and once; one that is new, unready or of the other family does not.
func TestUnitWithdrawals(t *testing.T) {
	yes, no := true, false
	slice := func(family discoveryv1.AddressType, serving ...*bool) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{AddressType: family}
		for i, is := range serving {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{string(rune('a' + i))}, Conditions: discoveryv1.EndpointConditions{Serving: is}})
		}
		return s
	}
	const v4, v6 = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	w := &withdrawals{family: v4}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		all   []*discoveryv1.EndpointSlice
		times int
	}{
		{[]*discoveryv1.EndpointSlice{slice(v4, &yes, nil, &no), slice(v6, &yes)}, 0},
		{[]*discoveryv1.EndpointSlice{slice(v4, &yes, nil, &yes), slice(v6, &no)}, 0},
		{[]*discoveryv1.EndpointSlice{slice(v4, &no, nil, &yes)}, 1},
		{[]*discoveryv1.EndpointSlice{slice(v4, &no, nil)}, 2},
		{nil, 3},
	} {
		w.see(noon.Add(time.Duration(i)*time.Second), step.all)
		if got := w.since(noon); len(got) != step.times {
			t.Errorf("step %d: %v; want %d", i, got, step.times)
		}
	}
	if got := w.since(noon.Add(3 * time.Second)); len(got) != 2 {
		t.Errorf("%v; want those from the third second on", got)
	}
}
