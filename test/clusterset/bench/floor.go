package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/plan"
	"github.com/clusterset-dns/multicluster/test/clusterset"
)

// floorNamespace is where the writes of the first sync are made again.
const floorNamespace = "floor"

// written is what a controller made of a name.
type written struct {
	imp    *mcsv1beta1.ServiceImport
	svc    *corev1.Service
	slices []*discoveryv1.EndpointSlice
	export *mcsv1beta1.ServiceExport
}

// floor makes the same writes as the first sync did, in another namespace, as many at a time as controllers do, and does nothing else:
// nobody can be faster with these API servers. The controllers have to be stopped.
func floor(ctx context.Context, set []*member) (took time.Duration, err error) {
	works := make([][]written, len(set))
	clients := make([]client.Client, len(set))
	if err := part("reading what the controllers wrote", func() error {
		group, ctx := errgroup.WithContext(ctx)
		for i, m := range set {
			group.Go(func() (err error) {
				account := rest.CopyConfig(m.Account)
				account.QPS = -1 // as the controller's
				if clients[i], err = client.New(account, client.Options{Scheme: clusterset.Scheme}); err != nil {
					return err
				}
				works[i], err = m.written(ctx)
				return errors.Join(err, m.prepareFloor(ctx, works[i]))
			})
		}
		return group.Wait()
	}); err != nil {
		return 0, err
	}
	began := time.Now()
	err = part("the same writes by a bare client", func() error {
		group, ctx := errgroup.WithContext(ctx)
		for i := range set {
			group.Go(func() error {
				return inParallel(ctx, 8, works[i], func(ctx context.Context, w written) error { return w.again(ctx, clients[i]) })
			})
		}
		return group.Wait()
	})
	return time.Since(began), err
}

// written reads what the controller made of each name.
func (m *member) written(ctx context.Context) ([]written, error) {
	var imports mcsv1beta1.ServiceImportList
	var services corev1.ServiceList
	var all discoveryv1.EndpointSliceList
	var exports mcsv1beta1.ServiceExportList
	for _, list := range []client.ObjectList{&imports, &services, &all, &exports} {
		if err := m.Admin.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
	}
	by := map[string]*written{}
	derived := map[string]*written{}
	for i := range imports.Items {
		w := &written{imp: &imports.Items[i]}
		by[w.imp.Name], derived[plan.DerivedName(w.imp)] = w, w
	}
	for i := range services.Items {
		if w := derived[services.Items[i].Name]; w != nil {
			w.svc = &services.Items[i]
		}
	}
	for i := range all.Items {
		if w := by[all.Items[i].Labels[mcsv1beta1.LabelServiceName]]; w != nil {
			w.slices = append(w.slices, &all.Items[i])
		}
	}
	for i := range exports.Items {
		if w := by[exports.Items[i].Name]; w != nil {
			w.export = &exports.Items[i]
		}
	}
	works := make([]written, 0, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if w := by[name]; w.svc == nil || w.export == nil || len(w.slices) == 0 {
			return nil, fmt.Errorf("%s has no whole set of what belongs to import %s", m.ID, name)
		}
		works = append(works, *by[name])
	}
	return works, nil
}

// prepareFloor makes what users would: the namespace and the exports.
func (m *member) prepareFloor(ctx context.Context, works []written) error {
	if err := m.Admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: floorNamespace}}); err != nil {
		return err
	}
	return inParallel(ctx, 8, works, func(ctx context.Context, w written) error {
		return m.Admin.Create(ctx, &mcsv1beta1.ServiceExport{ObjectMeta: fresh(w.export)})
	})
}

// fresh is the metadata of an object that is made anew in the floor's namespace.
func fresh(of client.Object, owners ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: floorNamespace, Name: of.GetName(), Labels: of.GetLabels(), Annotations: of.GetAnnotations(), OwnerReferences: owners,
	}
}

// again makes the writes of one name.
func (w written) again(ctx context.Context, c client.Client) error {
	imp := &mcsv1beta1.ServiceImport{ObjectMeta: fresh(w.imp), Spec: w.imp.Spec}
	imp.Spec.IPs = nil
	if err := c.Create(ctx, imp); err != nil {
		return err
	}
	owner := w.svc.OwnerReferences[0]
	owner.UID = imp.UID
	svc := &corev1.Service{ObjectMeta: fresh(w.svc, owner), Spec: w.svc.Spec}
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "", nil
	if err := c.Create(ctx, svc); err != nil {
		return err
	}
	for _, slice := range w.slices {
		again := &discoveryv1.EndpointSlice{ObjectMeta: fresh(slice, owner), AddressType: slice.AddressType, Ports: slice.Ports, Endpoints: slice.Endpoints}
		if err := c.Create(ctx, again); err != nil {
			return err
		}
	}
	filled := imp.DeepCopy()
	filled.Spec.IPs = svc.Spec.ClusterIPs
	if err := c.Patch(ctx, filled, client.MergeFrom(imp)); err != nil {
		return err
	}
	told := filled.DeepCopy()
	told.Status = w.imp.Status
	if err := c.Status().Patch(ctx, told, client.MergeFrom(filled)); err != nil {
		return err
	}
	export := &mcsv1beta1.ServiceExport{ObjectMeta: fresh(w.export)}
	valid := export.DeepCopy()
	valid.Status = w.export.Status
	return c.Status().Patch(ctx, valid, client.MergeFrom(export))
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
