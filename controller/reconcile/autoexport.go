package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/apply"
	"github.com/clusterset-dns/multicluster/controller/autoexport"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// AutoExport is whether Services are exported by labels of namespaces and annotations of Services.
type AutoExport string

const (
	// AutoExportOff creates and deletes nothing. It is the default.
	AutoExportOff AutoExport = "off"
	// AutoExportReport only emits events.
	AutoExportReport AutoExport = "report"
	// AutoExportOn creates and deletes ServiceExports.
	AutoExportOn AutoExport = "on"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *AutoExport) UnmarshalText(text []byte) error {
	switch mode := AutoExport(text); mode {
	case AutoExportOff, AutoExportReport, AutoExportOn:
		*a = mode
		return nil
	default:
		return fmt.Errorf("want %s, %s or %s", AutoExportOff, AutoExportReport, AutoExportOn)
	}
}

// MarshalText implements encoding.TextMarshaler.
func (a AutoExport) MarshalText() ([]byte, error) { return []byte(a), nil }

// exportReconciler creates and deletes ServiceExports.
type exportReconciler struct {
	cache      client.Reader
	writer     apply.ExportWriter
	events     events.EventRecorder
	report     bool
	annotation string
	grace      time.Duration
	now        func() time.Time
	since      sync.Map // exports whose reason is gone: key -> time.Time
	emitted    sync.Map // Services with an event: key -> text
}

func addAutoExport(mgr manager.Manager, options Options, grace time.Duration) error {
	if options.AutoExport != AutoExportOn && options.AutoExport != AutoExportReport {
		return nil
	}
	r := &exportReconciler{
		cache: mgr.GetCache(), writer: apply.ExportWriter{Client: client.WithFieldOwner(mgr.GetClient(), mcs.ControllerName)},
		events: mgr.GetEventRecorder(mcs.ControllerName), report: options.AutoExport == AutoExportReport,
		annotation: options.AutoExportAnnotation, grace: grace, now: options.Now,
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("autoexport").
		Watches(&corev1.Service{}, &handler.EnqueueRequestForObject{}).
		Watches(&mcsv1beta1.ServiceExport{}, &handler.EnqueueRequestForObject{}).
		Watches(&mcsv1beta1.ServiceImport{}, handler.EnqueueRequestsFromMapFunc(derivedOf)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.servicesIn), ofNamespaces).
		WithOptions(controller.Options{RateLimiter: newLimiter(), SkipNameValidation: new(true)}).
		Complete(r)
}

// derivedOf returns the derived Service of an import.
func derivedOf(_ context.Context, imp client.Object) []ctrl.Request {
	return []ctrl.Request{request(imp.GetNamespace(), ownership.DerivedName(imp.(*mcsv1beta1.ServiceImport)))}
}

// servicesIn returns the Services of a namespace.
func (r *exportReconciler) servicesIn(ctx context.Context, namespace client.Object) []ctrl.Request {
	var all corev1.ServiceList
	// The only possible errors are programming errors.
	if err := r.cache.List(ctx, &all, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "cannot list Services", "namespace", namespace.GetName())
	}
	requests := make([]ctrl.Request, len(all.Items))
	for i := range all.Items {
		requests[i] = request(namespace.GetName(), all.Items[i].Name)
	}
	return requests
}

// Reconcile creates or deletes the ServiceExport of one Service.
func (r *exportReconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	key := request.NamespacedName
	in := autoexport.Input{Annotation: r.annotation}
	if in.Namespace, err = found(ctx, r.cache, types.NamespacedName{Name: key.Namespace}, new(corev1.Namespace)); err != nil {
		return result, err
	}
	if in.Service, err = found(ctx, r.cache, key, new(corev1.Service)); err != nil {
		return result, err
	}
	if in.Export, err = found(ctx, r.cache, key, new(mcsv1beta1.ServiceExport)); err != nil {
		return result, err
	}
	var of mcsv1beta1.ServiceImportList
	if err = r.cache.List(ctx, &of, client.InNamespace(key.Namespace), client.MatchingFields{indexDerived: key.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return result, err
	}
	in.Derived = len(of.Items) > 0
	decision, reason := autoexport.Decide(in)
	if decision != autoexport.Delete {
		r.since.Delete(key)
	}
	switch decision {
	case autoexport.Create:
		return result, r.create(ctx, in.Service, reason)
	case autoexport.Delete:
		return r.remove(ctx, in, reason)
	default:
		r.emitted.Delete(key)
		return result, nil
	}
}

func (r *exportReconciler) create(ctx context.Context, svc *corev1.Service, reason string) error {
	if r.report {
		r.emit(svc, "would create a ServiceExport, because "+reason)
		return nil
	}
	err := r.writer.Create(ctx, svc)
	if err == nil {
		r.emit(svc, "created a ServiceExport, because "+reason)
	}
	return err
}

// remove deletes an export whose reason is gone for a while. Labels and Services are also removed by
// mistake, and come back: `kubectl replace --force`, a GitOps tool.
func (r *exportReconciler) remove(ctx context.Context, in autoexport.Input, reason string) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(in.Export)
	if r.report {
		if in.Service != nil {
			r.emit(in.Service, "would delete the ServiceExport, because "+reason)
		}
		return ctrl.Result{}, nil
	}
	since, _ := r.since.LoadOrStore(key, r.now())
	if left := r.grace - r.now().Sub(since.(time.Time)); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	err := r.writer.Delete(ctx, in.Export)
	if err == nil && in.Service != nil {
		r.emit(in.Service, "deleted the ServiceExport, because "+reason)
	}
	return ctrl.Result{}, err
}

// emit emits an event on a Service, once for each text.
func (r *exportReconciler) emit(svc *corev1.Service, text string) {
	if last, ok := r.emitted.Swap(client.ObjectKeyFromObject(svc), text); ok && last == text {
		return
	}
	r.events.Eventf(svc, nil, corev1.EventTypeNormal, "AutoExport", "AutoExport", "%s", text)
}
