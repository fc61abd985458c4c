package simulated

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/test/world"
)

// peer is what the test changes: a Server, or a real API server.
type peer interface {
	Apply(object client.Object) error
	Delete(object client.Object) error
	// restart is a short outage, after which watches cannot go on where they ended.
	restart() error
}

// model is a Server as a peer.
type model struct {
	*Server
	ctx context.Context
}

func (p model) restart() error {
	if err := p.Refuse(); err != nil {
		return err
	}
	p.Forget()
	return p.Resume(p.ctx)
}

// realPeer is a kube-apiserver that gets the same objects as a Server.
type realPeer struct {
	*world.Cluster
	ctx context.Context
}

func (p realPeer) restart() error {
	p.StopAPIServer()
	return p.StartAPIServer(p.ctx)
}

// fill creates all objects.
func (p realPeer) fill(objects iter.Seq[client.Object]) error {
	for object := range objects {
		if err := p.Apply(object); err != nil {
			return err
		}
	}
	return nil
}

// Apply creates or replaces an object, without what only the server sets. There are no owners: a garbage collector would delete what they
// own, and nothing that reads a peer reads them.
func (p realPeer) Apply(object client.Object) error {
	object.SetUID("")
	object.SetManagedFields(nil)
	object.SetOwnerReferences(nil)
	object.SetResourceVersion("")
	if svc, is := object.(*corev1.Service); is && svc.Spec.ClusterIP != corev1.ClusterIPNone {
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "", nil // the server's own range is smaller
	}
	old := reflect.New(reflect.TypeOf(object).Elem()).Interface().(client.Object)
	err := p.Admin.Get(p.ctx, client.ObjectKeyFromObject(object), old)
	switch {
	case apierrors.IsNotFound(err):
		err = p.Admin.Create(p.ctx, object)
	case err == nil:
		object.SetResourceVersion(old.GetResourceVersion())
		if svc, is := object.(*corev1.Service); is {
			svc.Spec.ClusterIP, svc.Spec.ClusterIPs = old.(*corev1.Service).Spec.ClusterIP, old.(*corev1.Service).Spec.ClusterIPs
		}
		err = p.Admin.Update(p.ctx, object)
	}
	if err != nil {
		return fmt.Errorf("%T %s/%s: %w", object, object.GetNamespace(), object.GetName(), err)
	}
	return nil
}

// Delete deletes an object.
func (p realPeer) Delete(object client.Object) error { return p.Admin.Delete(p.ctx, object) }
