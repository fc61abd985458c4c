package reconcile

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// mostWrites is more than any scenario needs.
const mostWrites = 7

// crash is a scenario whose controller stops at one of its writes.
type crash struct {
	scenario
	death
	*place
	memory
}

func (c *crash) String() string {
	return fmt.Sprintf("%s; dies at write %d, made: %t", c.name, c.n, c.made)
}

// TestRestartInTheMiddleOfEachStep stops a controller at its n-th write, before or after the server
// executes the write. A new controller continues with the objects of the first one. The result must
// be the same as without the interruption. All scenarios and all n run at the same time, each in
// its own namespace. The first controller makes no further write in a namespace after the n-th.
func TestRestartInTheMiddleOfEachStep(t *testing.T) {
	cluster := shared.Cluster(t)
	config := account(t, cluster)
	var crashes []*crash
	for _, s := range scenarios {
		for n := 1; n <= mostWrites; n++ {
			for _, made := range []bool{false, true} {
				crashes = append(crashes, &crash{scenario: s, death: death{n, made}, place: newPlace(t, cluster)})
			}
		}
	}

	first := newWire()
	stop := start(t, first.config(config))
	each(t, crashes, func(c *crash) error { return c.before(c.place) })
	each(t, crashes, func(c *crash) error { return eventually(t, func() error { return c.settled(c.place) }) })
	for _, c := range crashes {
		first.arm(c.namespace, c.death)
	}
	each(t, crashes, func(c *crash) error { return c.change(c.place, &c.memory) })
	each(t, crashes, func(c *crash) error {
		return eventually(t, func() error {
			if first.isDead(c.namespace) {
				return nil
			}
			return c.done(c.place, c.memory)
		})
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	died := map[string]int{}
	for _, c := range crashes {
		if first.isDead(c.namespace) {
			died[c.name]++
			if c.n == mostWrites {
				t.Errorf("%s: takes more writes than are tried", c)
			}
		}
	}
	for _, s := range scenarios {
		if died[s.name] == 0 {
			t.Errorf("%s: no controller died: the scenario writes nothing", s.name)
		}
	}
	t.Logf("controllers that died, by scenario: %v", died)

	second := newWire()
	stop = start(t, second.config(config))
	each(t, crashes, func(c *crash) error { return eventually(t, func() error { return c.done(c.place, c.memory) }) })
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	// A third controller finds that nothing is missing.
	var all mcsv1beta1.ServiceImportList
	admin := crashes[0].Client
	if err := admin.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	before, versions := reconciles(t), versionsOf(t, admin)
	third := newWire()
	start(t, third.config(config))
	kube.Eventually(t, "every import reconciled once", func() error {
		if done := reconciles(t) - before; done < len(all.Items) {
			return fmt.Errorf("%d of %d", done, len(all.Items))
		}
		return nil
	})
	if n := third.allWrites(); n > 0 {
		t.Errorf("a restart in an unchanged world wrote %d times: %v", n, third.requests)
	}
	for key, version := range versionsOf(t, admin) {
		if versions[key] != version {
			t.Errorf("%s changed over a restart", key)
		}
	}
}

func versionsOf(t *testing.T, admin client.Client) map[string]string {
	t.Helper()
	versions := map[string]string{}
	var imports mcsv1beta1.ServiceImportList
	var services corev1.ServiceList
	for _, err := range []error{admin.List(t.Context(), &imports), admin.List(t.Context(), &services, client.MatchingLabels{mcs.LabelManagedBy: mcs.ControllerName})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range imports.Items {
		versions["import "+client.ObjectKeyFromObject(&imports.Items[i]).String()] = imports.Items[i].ResourceVersion
	}
	for i := range services.Items {
		versions["service "+client.ObjectKeyFromObject(&services.Items[i]).String()] = services.Items[i].ResourceVersion
	}
	return versions
}

// each runs a step for all crashes, several at the same time.
func each(t *testing.T, crashes []*crash, step func(*crash) error) {
	t.Helper()
	limit := make(chan struct{}, 16)
	var group sync.WaitGroup
	for _, c := range crashes {
		limit <- struct{}{}
		group.Go(func() {
			defer func() { <-limit }()
			if err := step(c); err != nil {
				t.Errorf("%s: %v", c, err)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
