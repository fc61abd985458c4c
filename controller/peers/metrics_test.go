package peers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

// series returns the values of a peer in a metric, by the value of another label, or by "".
func series(t testing.TB, of *prometheus.GaugeVec, peer, label string) map[string]float64 {
	t.Helper()
	collected := make(chan prometheus.Metric, 1000)
	of.Collect(collected)
	close(collected)
	all := map[string]float64{}
	for metric := range collected {
		var m dto.Metric
		if err := metric.Write(&m); err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{}
		for _, pair := range m.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		if labels["peer"] == peer {
			all[labels[label]] = m.GetGauge().GetValue()
		}
	}
	return all
}

// measures waits until the reason is the only one in the metric of a peer.
func (r *reader) measures(id, reason string) {
	r.t.Helper()
	kube.Eventually(r.t, "the metric has "+reason, func() error {
		if got := series(r.t, peerInfo, id, "reason"); len(got) != 1 || got[reason] != 1 {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}

// The version that a peer announces is in its metric, unless it is no version. This cluster announces its own.
func TestVersionsOfControllers(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	says := func(version string) {
		there.announcing(func(a *member.Announcement) { a.Version = version })
	}
	shows := func(want string) {
		t.Helper()
		kube.Eventually(t, "the metric has "+want, func() error {
			if got := series(t, peerInfo, there.id, "version"); len(got) != 1 || got[want] != 1 {
				return fmt.Errorf("it has %v", got)
			}
			return nil
		})
	}
	says("v1.2.3")
	p := newPlace(t)
	r := p.read(t, func(o *Options) { o.Version = "v2.0.0-1-gabcdef" })
	r.join(there.id, kubeconfig(t, there.config))
	r.is(there.id, Connected)
	shows("v1.2.3")
	says("v1.3.0+dirty")
	shows("v1.3.0+dirty")
	says("v1.4.0")
	shows("v1.4.0")
	kube.Eventually(t, "the own version is announced", func() error {
		got, err := announcedIn(t, home.Cluster(t), r.namespace)
		if err == nil && got.Version != "v2.0.0-1-gabcdef" {
			err = fmt.Errorf("it announces %+v", got)
		}
		return err
	})
}

func contactOf(t testing.TB, id string) time.Time {
	t.Helper()
	at := series(t, peerContact, id, "")[""]
	return time.UnixMilli(int64(at * 1000))
}

// The time of the last contact stays when a peer falls silent, also over a restart, and moves on when it answers again. All series
// of a peer go with it.
func TestTheLastContactOfAPeer(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	api, err := faultproxy.Before(there.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	throughProxy, err := api.Kubeconfig(there.config)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	r := p.read(t)
	began := time.Now().Add(-time.Millisecond)
	r.join(there.id, throughProxy)
	r.is(there.id, Connected)
	if at := contactOf(t, there.id); at.Before(began) || at.After(time.Now()) {
		t.Errorf("the last contact is %v, and the start was %v", at, began)
	}
	resume, err := api.Refuse()
	if err != nil {
		t.Fatal(err)
	}
	r.is(there.id, Unreachable)
	last := contactOf(t, there.id)
	r.stop()
	if got := series(t, peerContact, there.id, ""); len(got) > 0 {
		t.Errorf("after the end there is %v", got)
	}
	r = p.read(t)
	r.is(there.id, Unreachable)
	if at := contactOf(t, there.id); at.IsZero() || at.After(last.Add(time.Minute)) {
		t.Errorf("after a restart, the last contact is %v, and it was %v", at, last)
	}
	silent := contactOf(t, there.id)
	if err := resume(); err != nil {
		t.Fatal(err)
	}
	r.is(there.id, Connected)
	kube.Eventually(t, "another contact", func() error {
		if at := contactOf(t, there.id); !at.After(silent) {
			return fmt.Errorf("it is %v", at)
		}
		return nil
	})
	r.leave(there.id)
	kube.Eventually(t, "no series", func() error {
		if i := slices.IndexFunc(ofPeers, func(metric *prometheus.GaugeVec) bool { return len(series(t, metric, there.id, "")) > 0 }); i >= 0 {
			return fmt.Errorf("metric %d of ofPeers has some", i)
		}
		return nil
	})
}
