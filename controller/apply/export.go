package apply

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// ExportWriter creates and deletes the ServiceExports of Services that are exported by a label of
// their namespace.
type ExportWriter struct{ Client client.Writer }

// Create creates the ServiceExport of a Service, with the controller's label. An existing one stays.
//
// The ServiceExport has no owner reference to the Service. The garbage collector would delete it
// with a Service that is replaced by force, and the name would lose its addresses in all clusters.
func (w ExportWriter) Create(ctx context.Context, svc *corev1.Service) error {
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{
		Namespace: svc.Namespace, Name: svc.Name, Labels: map[string]string{mcs.LabelManagedBy: mcs.ControllerName},
	}}
	if err := w.Client.Create(ctx, export); err != nil && !apierrors.IsAlreadyExists(err) {
		return wrap(err, "create ServiceExport", export)
	}
	return nil
}

// Delete deletes a ServiceExport of the controller. If it has changed since it was read, the error
// is a conflict.
func (w ExportWriter) Delete(ctx context.Context, export *mcsv1beta1.ServiceExport) error {
	if export.Labels[mcs.LabelManagedBy] != mcs.ControllerName {
		return fmt.Errorf("delete ServiceExport %s: %w", export.Name, errNotOurs)
	}
	return wrap(client.IgnoreNotFound(w.Client.Delete(ctx, export, exactly(export))), "delete ServiceExport", export)
}
