package main

import (
	"context"
	"errors"
	"fmt"
	"time"

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
)

// floorNames is how many names the floor is measured with.
const floorNames = 300

// floor makes what a first sync writes of a few names, in a namespace of its own, as many at a time as controllers do, and does nothing
// else: it neither reads nor waits. It gives the time for one name in all clusters.
func floor(ctx context.Context, set []*member, namespace string, endpoints int) (time.Duration, error) {
	clients := make(map[*member]client.Client)
	for _, m := range set {
		account := rest.CopyConfig(m.Account)
		account.QPS = -1
		c, err := client.New(account, client.Options{Scheme: clusterset.Scheme})
		if err != nil {
			return 0, err
		}
		clients[m] = c
		if err := m.Admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			return 0, err
		}
		if err := inParallel(ctx, 8, numbers(0, floorNames), func(ctx context.Context, i int) error {
			return m.Admin.Create(ctx, &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceName(i)}})
		}); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	err := each(ctx, set, func(ctx context.Context, m *member) error {
		return inParallel(ctx, 8, numbers(0, floorNames), func(ctx context.Context, i int) error {
			return bare{clients[m], namespace, serviceName(i)}.write(ctx, set, i, endpoints)
		})
	})
	took := time.Since(began) / floorNames
	if err != nil {
		return 0, err
	}
	return took, each(ctx, set, func(ctx context.Context, m *member) error { return m.removeNamespace(ctx, namespace) })
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

// bare writes what belongs to a name.
type bare struct {
	client.Client
	namespace, name string
}

func (b bare) meta(name string, owners ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: b.namespace, Name: name, Labels: map[string]string{discoveryv1.LabelManagedBy: mcs.ControllerName}, OwnerReferences: owners,
	}
}

// write makes the eight writes, each with what it needs of those before.
func (b bare) write(ctx context.Context, set []*member, i, endpoints int) error {
	imp := &mcsv1beta1.ServiceImport{ObjectMeta: b.meta(b.name), Spec: mcsv1beta1.ServiceImportSpec{
		Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
	}}
	if err := b.Create(ctx, imp); err != nil {
		return err
	}
	owner := metav1.OwnerReference{
		APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceImportKindName, Name: imp.Name, UID: imp.UID,
	}
	svc := &corev1.Service{ObjectMeta: b.meta("derived-"+b.name, owner), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	if err := b.Create(ctx, svc); err != nil {
		return err
	}
	for _, source := range set {
		slice := source.slice(i, endpoints)
		slice.ObjectMeta = b.meta(fmt.Sprintf("%s.%s.ipv4-0123456789", b.name, source.ID), owner)
		slice.Labels[discoveryv1.LabelServiceName] = svc.Name
		slice.Labels[mcsv1beta1.LabelServiceName], slice.Labels[mcsv1beta1.LabelSourceCluster] = b.name, source.ID
		if err := b.Create(ctx, slice); err != nil {
			return err
		}
	}
	filled := imp.DeepCopy()
	filled.Spec.IPs = svc.Spec.ClusterIPs
	if err := b.Patch(ctx, filled, client.MergeFrom(imp)); err != nil {
		return err
	}
	return b.writeStatus(ctx, set, filled)
}

func (b bare) writeStatus(ctx context.Context, set []*member, imp *mcsv1beta1.ServiceImport) error {
	told := imp.DeepCopy()
	for _, source := range set {
		told.Status.Clusters = append(told.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: source.ID})
	}
	conditions(&told.Status.Conditions, "Ready")
	if err := b.Status().Patch(ctx, told, client.MergeFrom(imp)); err != nil {
		return err
	}
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: b.name}}
	valid := export.DeepCopy()
	conditions(&valid.Status.Conditions, "Valid", "Ready", "Conflict")
	return b.Status().Patch(ctx, valid, client.MergeFrom(export))
}

func conditions(of *[]metav1.Condition, kinds ...string) {
	for _, kind := range kinds {
		meta.SetStatusCondition(of, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, Message: "as long as a message is"})
	}
}
