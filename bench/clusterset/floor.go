package main

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/bench/measure"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/world"
)

// floor is the writes of a first sync by a bare client, which neither reads nor waits.
type floor struct {
	world   World
	most    int  // how many names of each sort are written: those that all clusters export, and the others
	exports bool // the cluster exports the names too, so that the conditions of its exports are written
}

// compare measures the floor before and after a first sync and what follows, and adds it behind the first row, which is the time of that
// sync. An API server takes longer for a Service, the more there are: it counts them all, twice. So the middle of both is taken.
func (f floor) compare(ctx context.Context, s set, what string, stages ...func(context.Context) []row) (rows []row) {
	before := f.measure(ctx, s, "floor-before")
	for _, stage := range stages {
		rows = append(rows, stage(ctx)...)
	}
	for _, m := range s {
		m.controller.Stop()
	}
	middle := (before + f.measure(ctx, s, "floor-after")).Seconds() / 2
	return slices.Insert(rows, 1, row{what: what, got: middle, unit: "s"},
		row{what: "first sync, in relation to the floor", got: rows[0].got / middle, unit: "x"})
}

// measure writes some names in a namespace of its own in each cluster, eight at a time, as a controller does, and deletes them. It gives
// the time for all imports of the World.
func (f floor) measure(ctx context.Context, s set, namespace string) (took time.Duration) {
	part("the writes of some names by a bare client", func() {
		clients := map[*member]bare{}
		for _, m := range s {
			clients[m] = f.prepare(ctx, m, namespace)
		}
		shared := f.average(ctx, s, clients, 0, f.world.Shared)
		others := f.average(ctx, s, clients, f.world.Shared, f.world.Services)
		took = shared*time.Duration(f.world.Shared) + others*time.Duration(f.world.Imports()-f.world.Shared)
		measure.Check(s.each(ctx, func(ctx context.Context, m *member) error { return m.removeNamespace(ctx, namespace) }))
	})
	return took
}

func (f floor) prepare(ctx context.Context, m *member, namespace string) bare {
	account := rest.CopyConfig(m.Account)
	account.QPS = -1
	b := bare{measure.Must(client.New(account, client.Options{Scheme: world.Scheme})), f, namespace}
	measure.Check(m.Admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	if f.exports {
		measure.Check(measure.Parallel(ctx, 8, min(f.most, f.world.Shared), func(ctx context.Context, i int) error {
			return m.Admin.Create(ctx, &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: f.world.Name(0, i)}})
		}))
	}
	return b
}

// average writes some of the names with the numbers from ≤ i < to, and gives the time for one in all clusters.
func (f floor) average(ctx context.Context, s set, clients map[*member]bare, from, to int) time.Duration {
	count := min(to-from, f.most)
	if count == 0 {
		return 0
	}
	began := time.Now()
	measure.Check(s.each(ctx, func(ctx context.Context, m *member) error {
		return measure.Parallel(ctx, 8, count, func(ctx context.Context, i int) error { return clients[m].write(ctx, from+i) })
	}))
	return time.Since(began) / time.Duration(count)
}

type bare struct {
	client.Client
	floor
	namespace string
}

// write makes the writes of one name, each with what it needs of those before.
func (b bare) write(ctx context.Context, i int) error {
	name := b.world.Name(0, i)
	imp := &mcsv1beta1.ServiceImport{ObjectMeta: b.meta(name), Spec: mcsv1beta1.ServiceImportSpec{
		Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
	}}
	if err := b.Create(ctx, imp); err != nil {
		return err
	}
	owner := metav1.OwnerReference{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceImportKindName, Name: imp.Name, UID: imp.UID}
	svc := &corev1.Service{ObjectMeta: b.meta("derived-"+name, owner), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	if err := b.Create(ctx, svc); err != nil {
		return err
	}
	for _, peer := range b.exporters(i) {
		slice := b.world.Slice(peer, i)
		labels := slice.Labels
		slice.ObjectMeta = b.meta(slice.Name, owner)
		slice.Labels = labels
		if err := b.Create(ctx, slice); err != nil {
			return err
		}
	}
	filled := imp.DeepCopy()
	filled.Spec.IPs = svc.Spec.ClusterIPs
	if err := b.Patch(ctx, filled, client.MergeFrom(imp)); err != nil {
		return err
	}
	return b.writeStatus(ctx, i, filled)
}

func (b bare) writeStatus(ctx context.Context, i int, imp *mcsv1beta1.ServiceImport) error {
	told := imp.DeepCopy()
	for _, peer := range b.exporters(i) {
		told.Status.Clusters = append(told.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: b.world.ID(peer)})
	}
	conditions(&told.Status.Conditions, "Ready")
	if err := b.Status().Patch(ctx, told, client.MergeFrom(imp)); err != nil || !b.exports {
		return err
	}
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: imp.Name}}
	valid := export.DeepCopy()
	conditions(&valid.Status.Conditions, "Valid", "Ready", "Conflict")
	return b.Status().Patch(ctx, valid, client.MergeFrom(export))
}

func conditions(of *[]metav1.Condition, kinds ...string) {
	for _, kind := range kinds {
		meta.SetStatusCondition(of, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, Message: "as long as a message is"})
	}
}

// exporters are the clusters that export a name.
func (b bare) exporters(i int) (peers []int) {
	if i >= b.world.Shared {
		return []int{0}
	}
	for peer := range b.world.Peers {
		peers = append(peers, peer)
	}
	return peers
}

func (b bare) meta(name string, owners ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: b.namespace, Name: name, Labels: map[string]string{discoveryv1.LabelManagedBy: mcs.ControllerName}, OwnerReferences: owners,
	}
}

// removeNamespace waits until nothing of it is there.
func (m *member) removeNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := m.Admin.Delete(ctx, namespace); err != nil {
		return err
	}
	return wait(ctx, "remove namespace "+name+" in "+m.ID, 500*time.Millisecond, func() error {
		switch err := m.Admin.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		default:
			return errors.New("it is still there")
		}
	})
}
