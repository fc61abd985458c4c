package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/clusterset"
	"github.com/clusterset-dns/multicluster/bench/simulated"
)

// floorNames is how many names of each sort the floor is measured with: those that all peers export, and the others.
const floorNames = 200

// bare writes what a first sync writes of a name, and neither reads nor waits.
type bare struct {
	client.Client
	world     simulated.World
	namespace string
}

// floor writes a few names in a namespace of its own, as many at a time as the controller does, and deletes them. It gives the time for all
// imports of the World.
func floor(ctx context.Context, c *clusterset.Cluster, w simulated.World, namespace string) (time.Duration, error) {
	account := rest.CopyConfig(c.Account)
	account.QPS = -1
	api, err := client.New(account, client.Options{Scheme: clusterset.Scheme})
	if err != nil {
		return 0, err
	}
	if err := c.Admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return 0, err
	}
	b := bare{api, w, namespace}
	shared, err := b.average(ctx, 0, w.Shared)
	if err != nil {
		return 0, err
	}
	others, err := b.average(ctx, w.Shared, w.Services)
	if err != nil {
		return 0, err
	}
	return shared*time.Duration(w.Shared) + others*time.Duration(w.Imports()-w.Shared), remove(ctx, c.Admin, namespace)
}

// average writes some of the names with the numbers from ≤ i < to, and gives the time for one.
func (b bare) average(ctx context.Context, from, to int) (time.Duration, error) {
	to = min(to, from+floorNames)
	if from == to {
		return 0, nil
	}
	began := time.Now()
	group, limited := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := from; i < to; i++ {
		group.Go(func() error { return b.write(limited, i) })
	}
	err := group.Wait()
	return time.Since(began) / time.Duration(to-from), err
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
	from := b.exporters(i)
	for _, peer := range from {
		for part := range b.world.Slices() / (b.world.Peers * b.world.Services) {
			slice := b.world.Slice(peer, i, part)
			labels := slice.Labels
			slice.ObjectMeta = b.meta(slice.Name, owner)
			slice.Labels = labels
			if err := b.Create(ctx, slice); err != nil {
				return err
			}
		}
	}
	filled := imp.DeepCopy()
	filled.Spec.IPs = svc.Spec.ClusterIPs
	if err := b.Patch(ctx, filled, client.MergeFrom(imp)); err != nil {
		return err
	}
	told := filled.DeepCopy()
	for _, peer := range from {
		told.Status.Clusters = append(told.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: b.world.ID(peer)})
	}
	meta.SetStatusCondition(&told.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", Message: "as long as a message is"})
	return b.Status().Patch(ctx, told, client.MergeFrom(filled))
}

// exporters are the peers that export a name.
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

// remove deletes a namespace and waits until nothing of it is there.
func remove(ctx context.Context, admin client.Client, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := admin.Delete(ctx, namespace); err != nil {
		return err
	}
	return wait(ctx, "remove namespace "+name, 500*time.Millisecond, func() error {
		switch err := admin.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return fmt.Errorf("get it: %w", err)
		default:
			return errors.New("it is still there")
		}
	})
}
