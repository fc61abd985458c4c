// Package apply is the controller's only writer. It makes the writes of a plan in the order of plan.Changes, and stops at the
// first that fails: what comes later may rest on what came before. Only what is evicted rests on nothing, and nothing on it.
//
// Each write carries the resourceVersion that the plan was made from, and only what differs from it: a merge patch. So fields
// that our types do not know survive, and a write that lost a race is refused with a conflict. It is then not tried again here:
// ErrStale tells the caller to read and plan anew.
package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

var (
	// ErrStale: the plan was made from objects that have changed since.
	ErrStale = errors.New("the objects have changed since they were read")
	// errNotOurs guards against a plan that would write what it may not; it is never expected.
	errNotOurs = errors.New("not an object that this controller made")
	// errOtherType: kube-proxy has a memory for each family, and a name is free for an empty slice of one only.
	errOtherType = errors.New("an EndpointSlice of the other address type has that name: delete it")
	// errNoEffect: the API server took a write, and nothing changed.
	errNoEffect = errors.New("the API server or a webhook has undone the change")
	// errForeignSlice: somebody has a slice of the name that one of ours has to have.
	errForeignSlice = errors.New("an EndpointSlice of this name exists and is not this controller's: delete it")
)

// ImportRefusedError is an import of ours that the API server does not take.
type ImportRefusedError struct{ cause error }

func (e *ImportRefusedError) Error() string { return e.cause.Error() }
func (e *ImportRefusedError) Unwrap() error { return e.cause }

// SlicesRefusedError are the slices of ours that the API server does not take, by name, each with the reason.
type SlicesRefusedError map[string]string

func (e SlicesRefusedError) Error() string {
	return fmt.Sprintf("%d EndpointSlices were refused: %s", len(e), slices.Sorted(maps.Values(e))[0])
}

// RefusedError is a derived Service that the API server does not take.
type RefusedError struct {
	observed.Refusal
	cause error
}

func (e *RefusedError) Error() string { return e.cause.Error() }
func (e *RefusedError) Unwrap() error { return e.cause }

// NoEffectError is a write that the API server took and that changed nothing: a field that it does not know, or that a webhook sets.
type NoEffectError struct{ Fields contested.Fields }

func (e *NoEffectError) Error() string {
	return fmt.Sprintf("a write of %d fields had no effect", len(e.Fields))
}

// Writer writes with Client. Live reads from the API server itself.
type Writer struct {
	Client client.Writer
	Status client.StatusClient
	Live   client.Reader
	Events events.EventRecorder
	// Written hears of each object that was made or changed for a name, and of the version that it had before; may be nil.
	Written func(of types.NamespacedName, object client.Object, before string)
	// Deleting hears of each slice before it is deleted with the labels that it has now. What it returns is called with the outcome. May be
	// nil.
	Deleting func(slice *discoveryv1.EndpointSlice) (done func(error))
	// Healed hears of each leak that has been mended in a namespace; may be nil.
	Healed func(namespace string, leak observed.Leak)
}

// Do makes the writes and tells the events. What leads to the derived Service and has to go goes whatever else fails, once the Service has
// lost the selector that it may come from. No other write waits for it: others could hold all of them up.
func (w *Writer) Do(ctx context.Context, st observed.State, c diff.Changes) error {
	err := inOrder(ctx, st, c, w.createImport, w.create, w.service)
	evicted := errors.Join(w.evict(ctx, st, c), w.heal(ctx, st, c))
	if err == nil {
		err = inOrder(ctx, st, c, w.mirrorAndImport, w.slices, w.delete, w.deleteImport, w.exportStatus)
	}
	if err == nil {
		w.Tell(st.Import, c.Events...)
		if len(c.ExportEvents) > 0 {
			w.Tell(st.Clusterset.Export, c.ExportEvents...)
		}
	}
	switch {
	case err != nil:
		return errors.Join(err, evicted)
	case evicted != nil:
		return &EvictionError{evicted}
	}
	return nil
}

// EvictionError says that all has been written, and that a slice that has to go is still there.
type EvictionError struct{ error }

// Unwrap gives what is in the way: ErrStale, or what the API server says.
func (e *EvictionError) Unwrap() error { return e.error }

// inOrder makes writes until one fails.
func inOrder(ctx context.Context, st observed.State, c diff.Changes, writes ...func(context.Context, observed.State, diff.Changes) error) error {
	for _, write := range writes {
		if err := write(ctx, st, c); err != nil {
			return err
		}
	}
	return nil
}

// Tell makes events of an object.
func (w *Writer) Tell(of runtime.Object, all ...desired.Event) {
	for _, e := range all {
		w.Events.Eventf(of, nil, e.Type, e.Reason, "Reconcile", "%s", e.Message)
	}
}

func (w *Writer) createImport(ctx context.Context, st observed.State, c diff.Changes) error {
	if c.CreateImport == nil {
		return nil
	}
	return importRefused(wrap(w.make(ctx, st, c.CreateImport.DeepCopy()), "create", c.CreateImport))
}

// make creates an object.
func (w *Writer) make(ctx context.Context, st observed.State, object client.Object) error {
	return w.written(st, object, "", w.Client.Create(ctx, object))
}

// written tells of a write, if it has changed anything.
func (w *Writer) written(st observed.State, object client.Object, before string, err error) error {
	if err == nil && w.Written != nil && object.GetResourceVersion() != before {
		w.Written(types.NamespacedName{Namespace: st.Namespace, Name: st.Name}, object, before)
	}
	return err
}

// deleteImport names the very object that was planned, as delete does.
func (w *Writer) deleteImport(ctx context.Context, _ observed.State, c diff.Changes) error {
	if c.DeleteImport == nil {
		return nil
	}
	if !ownership.OfImport(c.DeleteImport) {
		return fmt.Errorf("delete ServiceImport %s: %w", c.DeleteImport.Name, errNotOurs)
	}
	return wrap(w.Client.Delete(ctx, c.DeleteImport, exactly(c.DeleteImport)), "delete", c.DeleteImport)
}

func exactly(obj client.Object) client.Preconditions {
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	return client.Preconditions{UID: &uid, ResourceVersion: &version}
}

// mirrorAndImport writes the slices of ours before the addresses, so that a name that can be resolved leads somewhere. Slices that
// cannot be written keep no address back.
func (w *Writer) mirrorAndImport(ctx context.Context, st observed.State, c diff.Changes) error {
	err := w.mirror(ctx, st, c)
	if errors.As(err, new(SlicesRefusedError)) {
		return err // to be planned without them
	}
	return errors.Join(err, w.importAndStatus(ctx, st, c))
}

// mirror writes the slices of ours. They are many and independent: one that fails does not hold up the others.
func (w *Writer) mirror(ctx context.Context, st observed.State, c diff.Changes) error {
	var o outcomes
	for _, slice := range c.CreateSlices {
		o.note(slice, w.createSlice(ctx, st, slice))
	}
	for _, edit := range c.UpdateSlices {
		if !ownership.SliceIsOurs(edit.Old, st.Import) {
			return fmt.Errorf("update EndpointSlice %s: %w", edit.Old.Name, errNotOurs)
		}
		o.note(edit.New, w.updateSlice(ctx, st, edit.New.DeepCopy()))
	}
	for _, move := range c.MoveSlices {
		o.note(move.Slice, w.move(ctx, st, move))
	}
	for _, slice := range c.DeleteSlices {
		if !ownership.SliceIsOurs(slice, st.Import) {
			return fmt.Errorf("delete EndpointSlice %s: %w", slice.Name, errNotOurs)
		}
		o.note(slice, w.remove(ctx, st, slice))
	}
	return o.err()
}

// outcomes are those of writes of slices. The zero value is of none.
type outcomes struct {
	failed  []error
	refused SlicesRefusedError
}

// note tells what the server does not take, and what has no effect, from what may succeed when it is tried again.
func (o *outcomes) note(slice *discoveryv1.EndpointSlice, err error) {
	switch {
	case err == nil:
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), errors.Is(err, errForeignSlice), errors.Is(err, errNoEffect):
		if o.refused == nil {
			o.refused = SlicesRefusedError{}
		}
		o.refused[slice.Name] = err.Error()
	default:
		o.failed = append(o.failed, err)
	}
}

// err is what has failed, or else what was refused.
func (o *outcomes) err() error {
	if len(o.failed) > 0 || len(o.refused) == 0 {
		return errors.Join(o.failed...)
	}
	return o.refused
}

// remove deletes a slice, finalizers and all: ours have none, and with one a slice would stay for as long as somebody likes.
func (w *Writer) remove(ctx context.Context, st observed.State, slice *discoveryv1.EndpointSlice) error {
	if len(slice.Finalizers) > 0 {
		free := slice.DeepCopy()
		free.Finalizers = nil
		if err := w.patchSlice(ctx, st, slice, free); err != nil {
			return err
		}
		slice = free
	}
	if slice.DeletionTimestamp != nil {
		return nil
	}
	done := func(error) {}
	if w.Deleting != nil {
		done = w.Deleting(slice)
	}
	err := w.Client.Delete(ctx, slice, exactly(slice))
	done(err)
	return wrap(err, "delete", slice)
}

// move copies a slice under another name, with the label of another Service, and deletes it. kube-proxy has no moment without it.
func (w *Writer) move(ctx context.Context, st observed.State, move diff.Move) error {
	live := new(discoveryv1.EndpointSlice)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(move.Slice), live); err != nil {
		return wrap(err, "read", move.Slice)
	}
	if live.ResourceVersion != move.Slice.ResourceVersion || !ownership.SliceIsOurs(live, st.Import) {
		return fmt.Errorf("move EndpointSlice %s: %w", live.Name, ErrStale)
	}
	slice := move.Moved(live)
	if err := w.make(ctx, st, slice); err != nil && !apierrors.IsAlreadyExists(err) {
		return wrap(err, "create", slice)
	}
	return w.remove(ctx, st, live)
}

// heal has kube-proxy forget endpoints of slices that have lost the label of their Service: an empty slice of the same name, with the
// label, takes their place in its memory, and is deleted.
func (w *Writer) heal(ctx context.Context, st observed.State, c diff.Changes) error {
	var failed []error
	for _, leak := range c.Heal {
		err := w.healOne(ctx, st, leak)
		if err == nil && w.Healed != nil {
			w.Healed(st.Namespace, leak)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (w *Writer) healOne(ctx context.Context, st observed.State, leak observed.Leak) error {
	live := new(discoveryv1.EndpointSlice)
	key := client.ObjectKey{Namespace: st.Namespace, Name: leak.Slice}
	switch err := w.Live.Get(ctx, key, live); {
	case apierrors.IsNotFound(err):
		return w.healGone(ctx, st, leak)
	case err != nil:
		return fmt.Errorf("read EndpointSlice %s: %w", key, err)
	case live.AddressType != leak.Type:
		return fmt.Errorf("have kube-proxy forget endpoints of a former EndpointSlice %s, of %s: %w", key, leak.Type, errOtherType)
	case live.Labels[discoveryv1.LabelServiceName] == leak.Service:
		return nil // It has the label again.
	}
	return w.healPresent(ctx, live, leak.Service)
}

// healGone is for a slice that is no longer there.
func (w *Writer) healGone(ctx context.Context, st observed.State, leak observed.Leak) error {
	empty := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: st.Namespace, Name: leak.Slice, Labels: map[string]string{
			discoveryv1.LabelServiceName: leak.Service, discoveryv1.LabelManagedBy: mcs.ControllerName,
		}},
		AddressType: leak.Type,
	}
	if err := w.Client.Create(ctx, empty); err != nil {
		return wrap(err, "create empty", empty)
	}
	return w.remove(ctx, st, empty)
}

// healPresent is for a slice that is still there: it is empty and has the label for a moment, and then is what it was. Where the process ends
// in between, the slice belongs to our Service, as it did before it lost the label, and is deleted, as it would have been with the label.
func (w *Writer) healPresent(ctx context.Context, live *discoveryv1.EndpointSlice, service string) error {
	empty := live.DeepCopy()
	if empty.Labels == nil {
		empty.Labels = map[string]string{}
	}
	empty.Labels[discoveryv1.LabelServiceName], empty.Endpoints = service, nil
	if err := w.Client.Patch(ctx, empty, difference(live)); err != nil {
		return wrap(err, "empty", live)
	}
	again := live.DeepCopy()
	again.ResourceVersion = empty.ResourceVersion
	return wrap(w.Client.Patch(ctx, again, difference(empty)), "restore", live)
}

// createSlice takes back a slice of ours that is there, but not in the caches, because somebody took its labels away, or because
// they lag behind.
func (w *Writer) createSlice(ctx context.Context, st observed.State, slice *discoveryv1.EndpointSlice) error {
	err := w.make(ctx, st, slice.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return wrap(err, "create", slice)
	}
	live := new(discoveryv1.EndpointSlice)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(slice), live); err != nil {
		return wrap(err, "read", slice)
	}
	if !ownedAlike(live, slice) {
		return fmt.Errorf("create EndpointSlice %s/%s: %w", slice.Namespace, slice.Name, errForeignSlice)
	}
	if diff.Misassociated(live, slice.Labels[discoveryv1.LabelServiceName]) {
		if err := w.remove(ctx, st, live); err != nil {
			return err
		}
		return fmt.Errorf("make EndpointSlice %s anew, as its label must not change: %w", slice.Name, ErrStale)
	}
	edited := diff.Overlay(live, slice)
	edited.OwnerReferences = slice.OwnerReferences
	if diff.SameSlice(live, edited) {
		return nil
	}
	return w.updateSlice(ctx, st, edited)
}

func (w *Writer) updateSlice(ctx context.Context, st observed.State, slice *discoveryv1.EndpointSlice) error {
	before := slice.ResourceVersion
	err := w.written(st, slice, before, w.Client.Update(ctx, slice))
	if err == nil && slice.ResourceVersion == before {
		err = errNoEffect
	}
	return wrap(err, "update", slice)
}

// ownedAlike is true where two slices belong to imports of one name.
func ownedAlike(a, b *discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(a.OwnerReferences, func(have metav1.OwnerReference) bool {
		return slices.ContainsFunc(b.OwnerReferences, func(want metav1.OwnerReference) bool {
			return have.Kind == want.Kind && have.Name == want.Name
		})
	})
}

func (w *Writer) exportStatus(ctx context.Context, st observed.State, c diff.Changes) error {
	if c.ExportStatus == nil {
		return nil
	}
	edit := c.ExportStatus
	fields := (&diff.Changes{ExportStatus: edit}).Written()
	return hadEffect(w.patchStatus(ctx, st, edit.Old, edit.New), edit.Old, edit.New, fields)
}

// create first asks the API server whether the import is still what the plan saw: a cache that lags behind by the annotation
// with the former addresses would give the import another one (C24), and nothing would refuse the create.
func (w *Writer) create(ctx context.Context, st observed.State, c diff.Changes) error {
	if c.Create == nil {
		return nil
	}
	imp := st.Import
	live := new(mcsv1beta1.ServiceImport)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(imp), live); err != nil {
		return wrap(err, "read import of", c.Create)
	}
	if live.ResourceVersion != imp.ResourceVersion {
		return fmt.Errorf("create Service %s: %w", c.Create.Name, ErrStale)
	}
	return refused(wrap(w.make(ctx, st, c.Create.DeepCopy()), "create", c.Create))
}

func (w *Writer) service(ctx context.Context, st observed.State, c diff.Changes) error {
	imp := st.Import
	switch {
	case c.Service != nil:
		if !ours(imp, c.Service.Old) {
			return fmt.Errorf("patch Service %s: %w", c.Service.Old.Name, errNotOurs)
		}
		return w.patchService(ctx, st, c.Service)
	case c.ServiceStatus != nil:
		if !ours(imp, c.ServiceStatus.Old) {
			return fmt.Errorf("patch the status of Service %s: %w", c.ServiceStatus.Old.Name, errNotOurs)
		}
		fields := (&diff.Changes{ServiceStatus: c.ServiceStatus}).Written()
		return refused(hadEffect(w.patchStatus(ctx, st, c.ServiceStatus.Old, c.ServiceStatus.New), c.ServiceStatus.Old, c.ServiceStatus.New, fields))
	default:
		return nil
	}
}

func (w *Writer) importAndStatus(ctx context.Context, st observed.State, c diff.Changes) error {
	switch {
	case c.Import != nil:
		return w.patchImport(ctx, st, c.Import)
	case c.ImportStatus != nil:
		edit := c.ImportStatus
		fields := (&diff.Changes{ImportStatus: edit}).Written()
		return hadEffect(w.patchStatus(ctx, st, edit.Old, edit.New), edit.Old, edit.New, fields)
	default:
		return nil
	}
}

// patchService is a NoEffectError, or a refusal, where the server has taken the patch and left the Service as it was.
func (w *Writer) patchService(ctx context.Context, st observed.State, edit *diff.Edit[*corev1.Service]) error {
	fields := (&diff.Changes{Service: edit}).Written() // before the answer takes the place of what was wanted
	if err := w.patch(ctx, st, edit.Old, edit.New); err != nil || edit.New.ResourceVersion != edit.Old.ResourceVersion {
		return refused(err)
	}
	if len(fields) > 0 {
		return &NoEffectError{fields}
	}
	return &RefusedError{observed.Refusal{Message: errNoEffect.Error()}, fmt.Errorf("patch Service %s: %w", edit.Old.Name, errNoEffect)}
}

func (w *Writer) patchImport(ctx context.Context, st observed.State, edit *diff.Edit[*mcsv1beta1.ServiceImport]) error {
	fields := (&diff.Changes{Import: edit}).Written()
	return importRefused(hadEffect(w.patch(ctx, st, edit.Old, edit.New), edit.Old, edit.New, fields))
}

// hadEffect gives the error of a patch, or a NoEffectError where the server has taken the patch and left the object as it was.
func hadEffect(err error, old, answer client.Object, fields contested.Fields) error {
	if err == nil && answer.GetResourceVersion() == old.GetResourceVersion() && len(fields) > 0 {
		return &NoEffectError{fields}
	}
	return err
}

// slices are many and independent: one that fails does not hold up the others.
func (w *Writer) slices(ctx context.Context, st observed.State, c diff.Changes) error {
	var o outcomes
	for _, edit := range c.Slices {
		o.note(edit.Old, w.patchSlice(ctx, st, edit.Old, edit.New.DeepCopy()))
	}
	return o.err()
}

// patchSlice patches labels or finalizers.
func (w *Writer) patchSlice(ctx context.Context, st observed.State, old, edited *discoveryv1.EndpointSlice) error {
	err := w.patch(ctx, st, old, edited)
	if err == nil && edited.ResourceVersion == old.ResourceVersion {
		err = wrap(errNoEffect, "patch", old)
	}
	return err
}

// evict deletes slices of others, and tells of it. It asks the API server first: the caches may lag behind somebody who has put a Service
// of his own in the place of ours, or has taken over the import, and what leads there is his then.
func (w *Writer) evict(ctx context.Context, st observed.State, c diff.Changes) error {
	if len(c.Evict) == 0 {
		return nil
	}
	imp, svc, err := w.stillOurs(ctx, st)
	if err != nil {
		return err
	}
	var failed []error
	var evicted []string
	for _, slice := range c.Evict {
		takenBack := slices.ContainsFunc(c.CreateSlices, func(s *discoveryv1.EndpointSlice) bool { return s.Name == slice.Name })
		if takenBack { // It is ours, and has lost its labels.
			continue
		}
		gone, err := w.evictSlice(ctx, st, slice, imp, svc)
		failed = append(failed, err)
		if gone {
			evicted = append(evicted, slice.Name)
		}
	}
	if len(evicted) > 0 {
		w.Tell(st.Import, diff.EvictedEvent(svc, evicted))
	}
	return errors.Join(failed...)
}

// stillOurs are the import and its derived Service as they are now, if they are those of the plan, and ours.
func (w *Writer) stillOurs(ctx context.Context, st observed.State) (*mcsv1beta1.ServiceImport, *corev1.Service, error) {
	imp, svc := new(mcsv1beta1.ServiceImport), new(corev1.Service)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(st.Import), imp); err != nil {
		return nil, nil, wrap(err, "read import", st.Import)
	}
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(st.Service), svc); err != nil {
		return nil, nil, wrap(err, "read Service", st.Service)
	}
	if imp.UID != st.Import.UID || !ownership.OfImport(imp) || svc.UID != st.Service.UID || ownership.KindOf(imp, svc) != ownership.Ours {
		return nil, nil, fmt.Errorf("delete slices that lead to Service %s/%s: %w", svc.Namespace, svc.Name, ErrStale)
	}
	return imp, svc, nil
}

// evictSlice deletes a slice if it still is what the plan saw.
func (w *Writer) evictSlice(
	ctx context.Context, st observed.State, slice *discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport, svc *corev1.Service,
) (gone bool, err error) {
	live := new(discoveryv1.EndpointSlice)
	switch err := w.Live.Get(ctx, client.ObjectKeyFromObject(slice), live); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, wrap(err, "read", slice)
	case live.UID != slice.UID || !ownership.Stray(live, imp, svc):
		return false, nil
	}
	source, err := w.deleteSource(ctx, svc, live), w.remove(ctx, st, live)
	return err == nil, errors.Join(source, err)
}

// deleteSource deletes the Endpoints of our Service that a slice was made from: it would be made again. Others that a slice names, by
// another name or made meanwhile, stay.
func (w *Writer) deleteSource(ctx context.Context, svc *corev1.Service, slice *discoveryv1.EndpointSlice) error {
	if slice.Labels[discoveryv1.LabelManagedBy] != desired.SliceMirroring {
		return nil
	}
	for _, ref := range slice.OwnerReferences {
		if ref.APIVersion != "v1" || ref.Kind != "Endpoints" || ref.Name != svc.Name {
			continue
		}
		source := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: ref.Name, UID: ref.UID}}
		source.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(ref.Kind))
		err := w.Client.Delete(ctx, source, client.Preconditions{UID: &ref.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return wrap(err, "delete Endpoints", source)
		}
	}
	return nil
}

// delete names the very object that was planned: one made meanwhile under its name stays.
func (w *Writer) delete(ctx context.Context, st observed.State, c diff.Changes) error {
	for _, svc := range c.Delete {
		if !ours(st.Import, svc) {
			return fmt.Errorf("delete Service %s: %w", svc.Name, errNotOurs)
		}
		if err := wrap(w.Client.Delete(ctx, svc, exactly(svc)), "delete", svc); err != nil {
			return err
		}
	}
	return nil
}

func ours(imp *mcsv1beta1.ServiceImport, svc *corev1.Service) bool {
	return svc.Namespace == imp.Namespace && slices.Contains(ownership.OwnerImports(svc), imp.Name)
}

func (w *Writer) patch(ctx context.Context, st observed.State, old, edited client.Object) error {
	return wrap(w.written(st, edited, old.GetResourceVersion(), w.Client.Patch(ctx, edited, difference(old))), "patch", old)
}

func (w *Writer) patchStatus(ctx context.Context, st observed.State, old, edited client.Object) error {
	return wrap(w.written(st, edited, old.GetResourceVersion(), w.Status.Status().Patch(ctx, edited, difference(old))), "patch the status of", old)
}

func difference(old client.Object) client.Patch {
	return client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})
}

// wrap says what was written, and which errors mean that the plan was made from a stale object.
func wrap(err error, verb string, obj client.Object) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s %s/%s: %w: %w", verb, obj.GetNamespace(), obj.GetName(), ErrStale, err)
	default:
		return fmt.Errorf("%s %s/%s: %w", verb, obj.GetNamespace(), obj.GetName(), err)
	}
}

func importRefused(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err) {
		return &ImportRefusedError{err}
	}
	return err
}

// refused tells a derived Service that the server does not take from a server that does not work.
func refused(err error) error {
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		return err
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	r := observed.Refusal{Message: status.Status().Message}
	if details := status.Status().Details; details != nil && len(details.Causes) > 0 {
		first := details.Causes[0]
		r = observed.Refusal{Field: first.Field, Message: first.Message}
	}
	return &RefusedError{r, err}
}
