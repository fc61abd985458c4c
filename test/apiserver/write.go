package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// maxBody bounds a request, as a kube-apiserver does.
const maxBody = 3 << 20

func (c *call) body() ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(c.request.Body, maxBody+1))
	if len(text) > maxBody {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	return text, err
}

// decode reads the object of a create or an update, in any encoding.
func (c *call) decode() (client.Object, error) {
	text, err := c.body()
	if err != nil {
		return nil, err
	}
	object := c.of.new()
	gvk := c.of.GroupVersionKind
	if _, _, err := codecs.UniversalDeserializer().Decode(text, &gvk, object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if c.key.Namespace != "" {
		object.SetNamespace(c.key.Namespace)
	}
	return object, nil
}

func (s *Server) post(c *call) error {
	c.verb = "create"
	object, err := c.decode()
	if err != nil {
		return err
	}
	c.key = client.ObjectKeyFromObject(object)
	return s.reply(c, func(client.Object) (client.Object, error) { return object, nil })
}

func (s *Server) replace(c *call) error {
	c.verb = "update"
	object, err := c.decode()
	if err != nil {
		return err
	}
	return s.reply(c, func(client.Object) (client.Object, error) { return object, nil })
}

// patch changes an object. A patch that is applied can also create it.
func (s *Server) patch(c *call) error {
	c.verb = "patch"
	text, err := c.body()
	if err != nil {
		return err
	}
	change := map[types.PatchType]func(old, text []byte) ([]byte, error){
		types.MergePatchType: jsonpatch.MergePatch,
		types.JSONPatchType: func(old, text []byte) ([]byte, error) {
			p, err := jsonpatch.DecodePatch(text)
			if err != nil {
				return nil, err
			}
			return p.Apply(old)
		},
		types.StrategicMergePatchType: func(old, text []byte) ([]byte, error) {
			return strategicpatch.StrategicMergePatch(old, text, c.of.new())
		},
	}
	media, _, _ := strings.Cut(c.request.Header.Get("Content-Type"), ";")
	if types.PatchType(media) == types.ApplyPatchType {
		return s.apply(c, text)
	}
	edit, known := change[types.PatchType(media)]
	if !known || c.of.custom && types.PatchType(media) == types.StrategicMergePatchType {
		err := apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "", "", 0, false)
		err.ErrStatus.Message = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
		return err
	}
	return s.reply(c, func(old client.Object) (client.Object, error) {
		before, err := json.Marshal(old)
		if err != nil {
			return nil, err
		}
		after, err := edit(before, text)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		object := c.of.new()
		if err := json.Unmarshal(after, object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return object, nil
	})
}

// apply is server-side apply.
func (s *Server) apply(c *call, text []byte) error {
	wanted := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &wanted.Object); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return s.reply(c, func(old client.Object) (client.Object, error) {
		if version := wanted.GetResourceVersion(); version != "" && (old == nil || old.GetResourceVersion() != version) {
			return nil, conflict(c)
		}
		if uid := wanted.GetUID(); uid != "" && (old == nil || old.GetUID() != uid) {
			return nil, apierrors.NewConflict(c.of.groupResource(), c.key.Name, errors.New("uid mismatch: the provided object specified uid "+string(uid)+", and no existing object was found"))
		}
		base := old
		if old == nil {
			base = c.of.new()
		}
		applied, err := fieldManagers[c.of.String()+"/"+c.sub].Apply(c.of.managed(base), wanted, c.manager, c.force)
		if err != nil {
			return nil, err
		}
		object := applied.(client.Object)
		if u, custom := object.(*unstructured.Unstructured); custom {
			object = c.of.new()
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		}
		object.SetName(c.key.Name)
		object.SetNamespace(c.key.Namespace)
		return object, nil
	})
}

// reply makes a write and answers with its result.
func (s *Server) reply(c *call, edit func(old client.Object) (client.Object, error)) error {
	code := http.StatusOK
	object, err := s.write(c, func(old client.Object) (client.Object, error) {
		if old == nil {
			code = http.StatusCreated
		}
		return edit(old)
	})
	if err != nil {
		return err
	}
	answer(c.writer, code, c.media, c.of.typed(object, ""))
	return nil
}

// write stores what edit makes of an object. edit gets nil if there is none.
func (s *Server) write(c *call, edit func(old client.Object) (client.Object, error)) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var old client.Object
	if c.verb != "create" {
		if have := c.of.items[c.key]; have != nil {
			old = have.object
		} else if c.sub != "" || c.request.Header.Get("Content-Type") != string(types.ApplyPatchType) && (c.verb != "update" || !c.of.upsert) {
			return nil, apierrors.NewNotFound(c.of.groupResource(), c.key.Name)
		}
	}
	object, err := edit(old)
	if err != nil {
		return nil, s.refused(c, old, nil, err)
	}
	applied := c.request != nil && strings.HasPrefix(c.request.Header.Get("Content-Type"), "application/apply-patch")
	var stored client.Object
	if uid := object.GetUID(); old == nil && c.verb == "update" && uid != "" {
		err = apierrors.NewConflict(c.of.groupResource(), c.key.Name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: ", c.of.etcdKey(c.key), uid))
	} else if old == nil {
		stored, err = s.add(c, object, applied)
	} else {
		stored, err = s.change(c, old, object, applied)
	}
	return stored, s.refused(c, old, object, err)
}

func (s *Server) refused(c *call, old, object client.Object, err error) error {
	if err != nil && s.options.Refused != nil {
		s.options.Refused(c.asked(old, object), err)
	}
	return err
}

// add stores a new object.
func (s *Server) add(c *call, object client.Object, applied bool) (client.Object, error) {
	if object.GetName() == "" && object.GetGenerateName() != "" {
		object.SetName(object.GetGenerateName() + s.suffix())
		c.key.Name = object.GetName()
	}
	if err := s.named(c, object); err != nil {
		return nil, err
	}
	object.SetUID(s.uid())
	object.SetCreationTimestamp(s.now())
	object.SetDeletionTimestamp(nil)
	object.SetDeletionGracePeriodSeconds(nil)
	object.SetSelfLink("")
	if c.of.generation != nil {
		object.SetGeneration(1)
	}
	if c.of.status {
		clearStatus(object)
	}
	if err := s.inNamespace(c); err != nil {
		return nil, err
	}
	distinct(object)
	if c.of.defaults != nil {
		c.of.defaults(object)
	}
	if !applied {
		object = c.manage(c.of.new(), object)
	}
	if err := s.admit(c, nil, object); err != nil {
		return nil, err
	}
	leased := s.leased
	if c.of.released != nil {
		leased = maps.Clone(leased) // what is refused after it has got addresses gives them back
	}
	err := s.prepare(c, nil, object)
	if err == nil {
		err = c.new(object)
	}
	if err != nil || c.dry {
		s.leased = leased
		return object, err
	}
	return s.put(c, object, false).object, nil
}

// new refuses an object that cannot be a new one.
func (c *call) new(object client.Object) error {
	have := c.of.items[c.key]
	switch {
	case object.GetResourceVersion() != "":
		return errors.New("resourceVersion should not be set on objects to be created")
	case have == nil:
		return nil
	}
	err := apierrors.NewAlreadyExists(c.of.groupResource(), c.key.Name)
	if have.object.GetDeletionTimestamp() != nil {
		err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
	}
	return err
}

// change stores the next state of an object. A write without an effect leaves the version as it is.
func (s *Server) change(c *call, old, object client.Object, applied bool) (client.Object, error) {
	if err := c.isCurrent(old, object); err != nil {
		return nil, err
	}
	object = c.kept(old, object)
	distinct(object)
	if c.of.defaults != nil {
		c.of.defaults(object)
	}
	if applied {
		object.SetManagedFields(keepTimes(old.GetManagedFields(), object.GetManagedFields()))
	} else {
		object = c.manage(old, object)
	}
	if err := s.admit(c, old, object); err != nil {
		return nil, err
	}
	if err := s.prepare(c, old, object); err != nil {
		return nil, err
	}
	if c.of.generation != nil && c.of.generation(old, object) {
		object.SetGeneration(old.GetGeneration() + 1)
	}
	switch {
	case same(old, object):
		return old, nil
	case c.dry:
		return object, nil
	case object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 && !c.of.kept(object):
		last := shallow(object).(client.Object) // with the version that it had
		s.drop(c, object)
		return last, nil
	}
	return s.put(c, object, false).object, nil
}

// distinct removes references to owners that are there twice.
func distinct(o client.Object) {
	var refs []metav1.OwnerReference
	for _, r := range o.GetOwnerReferences() {
		if !slices.ContainsFunc(refs, func(have metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(have, r) }) {
			refs = append(refs, r)
		}
	}
	if len(refs) < len(o.GetOwnerReferences()) {
		o.SetOwnerReferences(refs)
	}
}

// finalizers refuses new ones of an object that is being deleted.
func (c *call) finalizers(old, object client.Object) error {
	if old == nil {
		return nil
	}
	more := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return slices.Contains(old.GetFinalizers(), f) })
	if old.GetDeletionTimestamp() == nil || len(more) == 0 {
		return nil
	}
	return c.invalid(field.Forbidden(field.NewPath("metadata", "finalizers"),
		fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers %#v", more)))
}

// invalid is about the metadata of an object. That of a custom one is looked at twice.
func (c *call) invalid(fault *field.Error) error {
	faults := field.ErrorList{fault}
	if c.of.custom {
		faults = append(faults, fault)
	}
	return apierrors.NewInvalid(c.of.GroupKind(), c.key.Name, faults)
}

// isCurrent refuses a write that is based on another state, or on another object of the name.
func (c *call) isCurrent(old, object client.Object) error {
	switch version := object.GetResourceVersion(); {
	case version == "" && c.verb == "update" && c.of.versioned:
		return apierrors.NewInvalid(schema.GroupKind{Group: c.of.Group, Kind: c.of.resource}, c.key.Name,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
	case version != "" && version != old.GetResourceVersion():
		return conflict(c)
	}
	uid := object.GetUID()
	switch {
	case uid == "" || uid == old.GetUID():
	case c.verb == "patch":
		return c.invalid(field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable"))
	default:
		return apierrors.NewConflict(c.of.groupResource(), c.key.Name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid, old.GetUID())) //nolint:staticcheck // as the API server says it
	}
	return nil
}

// kept returns an object with what no client can change, and of a write of the status nothing but that.
func (c *call) kept(old, object client.Object) client.Object {
	object.SetUID(old.GetUID())
	object.SetName(old.GetName())
	object.SetNamespace(old.GetNamespace())
	object.SetCreationTimestamp(old.GetCreationTimestamp())
	object.SetDeletionTimestamp(old.GetDeletionTimestamp())
	object.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	object.SetGenerateName(old.GetGenerateName())
	object.SetGeneration(old.GetGeneration())
	object.SetResourceVersion(old.GetResourceVersion())
	switch {
	case c.sub == "status":
		return withStatus(old, object)
	case c.of.status:
		setStatus(object, old)
	}
	return object
}

// prepare refuses what is wrong with an object, and allocates what it needs.
func (s *Server) prepare(c *call, old, object client.Object) error {
	if err := c.finalizers(old, object); err != nil {
		return err
	}
	switch {
	case c.sub == "status":
		if svc, ok := object.(*corev1.Service); ok && len(svc.Status.LoadBalancer.Ingress) > 0 && svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
			return invalid(svc, field.Forbidden(field.NewPath("status", "loadBalancer", "ingress"), "may only be used when `spec.type` is 'LoadBalancer'"))
		}
		return nil
	case c.of.prepare == nil:
		return nil
	}
	return c.of.prepare(s, old, object)
}

// manage records in managedFields what a write has changed.
func (c *call) manage(old, object client.Object) client.Object {
	from, to := c.of.managed(old), c.of.managed(object)
	was, is := from.(*corev1.Service)
	if is && was.Spec.Type == corev1.ServiceTypeExternalName { // nobody gets the default that it has after that
		to.(*corev1.Service).Spec.InternalTrafficPolicy = was.Spec.InternalTrafficPolicy
	}
	managed, err := fieldManagers[c.of.String()+"/"+c.sub].Update(from, to, c.manager)
	if err != nil {
		return object
	}
	all := managed.(metav1.Object).GetManagedFields()
	// An entry whose fields are the same keeps its time.
	object.SetManagedFields(keepTimes(old.GetManagedFields(), all))
	return object
}

func keepTimes(old, all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for i, entry := range all {
		for _, was := range old {
			if was.Time == nil || entry.Time == nil {
				continue
			}
			same := was
			same.Time = entry.Time
			if equality.Semantic.DeepEqual(same, entry) {
				all[i].Time = was.Time
			}
		}
	}
	return all
}

// same compares two states.
func same(a, b client.Object) bool {
	x, y := shallow(a).(client.Object), shallow(b).(client.Object)
	for _, o := range []client.Object{x, y} {
		o.GetObjectKind().SetGroupVersionKind(a.GetObjectKind().GroupVersionKind())
	}
	return equality.Semantic.DeepEqual(x, y)
}

func conflict(c *call) error {
	return apierrors.NewConflict(c.of.groupResource(), c.key.Name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

// named refuses an object without a name.
func (s *Server) named(c *call, object client.Object) error {
	if object.GetName() == "" {
		return apierrors.NewInvalid(c.of.GroupKind(), "", field.ErrorList{field.Required(field.NewPath("metadata", "name"), "name or generateName is required")})
	}
	return nil
}

// inNamespace refuses new objects in a namespace that does not exist, or that ends.
func (s *Server) inNamespace(c *call) error {
	if c.of.cluster {
		return nil
	}
	in := s.namespaces().items[types.NamespacedName{Name: c.key.Namespace}]
	switch {
	case in == nil:
		return apierrors.NewNotFound(s.namespaces().groupResource(), c.key.Namespace)
	case in.object.GetDeletionTimestamp() != nil:
		err := apierrors.NewForbidden(c.of.groupResource(), c.key.Name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.key.Namespace))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating", Message: fmt.Sprintf("namespace %s is being terminated", c.key.Namespace), Field: "metadata.namespace"}}
		return err
	}
	return nil
}

const suffixes = "bcdfghjklmnpqrstvwxz2456789"

func (s *Server) suffix() string {
	text := make([]byte, 5)
	for i := range text {
		text[i] = suffixes[s.random.IntN(len(suffixes))]
	}
	return string(text)
}

// remove deletes an object, or all that are selected.
func (s *Server) remove(c *call) error {
	c.verb = "delete"
	text, err := c.body()
	if err != nil {
		return err
	}
	var o metav1.DeleteOptions
	if len(text) > 0 {
		if err := runtime.DecodeInto(codecs.UniversalDeserializer(), text, &o); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	if policy := c.request.URL.Query().Get("propagationPolicy"); policy != "" {
		o.PropagationPolicy = (*metav1.DeletionPropagation)(&policy)
	}
	if c.key.Name == "" {
		return s.removeAll(c, o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	left, err := s.delete(c, o)
	if err != nil {
		return s.refused(c, nil, nil, err)
	}
	if left != nil {
		answer(c.writer, http.StatusOK, c.media, c.of.typed(left, ""))
		return nil
	}
	answer(c.writer, http.StatusOK, c.media, &metav1.Status{TypeMeta: metaV1("Status"), Status: metav1.StatusSuccess})
	return nil
}

func (s *Server) removeAll(c *call, o metav1.DeleteOptions) error {
	query := c.request.URL.Query()
	var list metav1.ListOptions
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &list, nil); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	by, err := c.selection(list)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range c.of.sorted(by) {
		each := *c
		each.key = one.NamespacedName
		if _, err := s.delete(&each, o); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	answer(c.writer, http.StatusOK, c.media, &metav1.Status{TypeMeta: metaV1("Status"), Status: metav1.StatusSuccess})
	return nil
}

// delete deletes an object, or marks it as deleted if finalizers keep it. It returns what the answer shows of it.
func (s *Server) delete(c *call, o metav1.DeleteOptions) (left client.Object, err error) {
	have := c.of.items[c.key]
	if have == nil {
		return nil, apierrors.NewNotFound(c.of.groupResource(), c.key.Name)
	}
	if err := c.meets(o.Preconditions, have.object); err != nil {
		return nil, err
	}
	if err := s.admit(c, have.object, nil); err != nil {
		return nil, err
	}
	if c.dry {
		return nil, nil
	}
	object := have.object.DeepCopyObject().(client.Object)
	propagate(object, o.PropagationPolicy)
	if len(object.GetFinalizers()) == 0 && !c.of.kept(object) {
		s.drop(c, object)
		if c.of.returned {
			return object, nil
		}
		return nil, nil
	}
	if object.GetDeletionTimestamp() == nil {
		at := s.now()
		object.SetDeletionTimestamp(&at)
		object.SetDeletionGracePeriodSeconds(new(int64))
		if object.GetGeneration() > 0 {
			object.SetGeneration(object.GetGeneration() + 1)
		}
		c.of.terminate(object)
		return s.put(c, object, false).object, nil
	}
	if !slices.Equal(object.GetFinalizers(), have.object.GetFinalizers()) {
		return s.put(c, object, false).object, nil
	}
	return have.object, nil
}

// meets refuses a deletion that is meant for another object, or for another state.
func (c *call) meets(p *metav1.Preconditions, have client.Object) error {
	switch {
	case p == nil:
		return nil
	case p.UID != nil && *p.UID != have.GetUID():
		return apierrors.NewConflict(c.of.kindAsResource(), c.key.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, have.GetUID()))
	case p.ResourceVersion != nil && *p.ResourceVersion != have.GetResourceVersion():
		return apierrors.NewConflict(c.of.kindAsResource(), c.key.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, have.GetResourceVersion()))
	}
	return nil
}

// propagate sets the finalizer by which the garbage collector knows what to do with what an object owns.
func propagate(object client.Object, policy *metav1.DeletionPropagation) {
	known := map[string]metav1.DeletionPropagation{metav1.FinalizerOrphanDependents: metav1.DeletePropagationOrphan, metav1.FinalizerDeleteDependents: metav1.DeletePropagationForeground}
	if policy == nil {
		return
	}
	finalizers := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return known[f] != "" })
	for finalizer, of := range known {
		if of == *policy {
			finalizers = append(finalizers, finalizer)
		}
	}
	object.SetFinalizers(finalizers)
}

// drop removes an object for good.
func (s *Server) drop(c *call, object client.Object) {
	if c.of.released != nil {
		c.of.released(s, object)
	}
	s.put(c, object, true)
}

// The status of typed objects is a field of that name.

func statusField(o client.Object) reflect.Value {
	return reflect.ValueOf(o).Elem().FieldByName("Status")
}

func clearStatus(o client.Object) { statusField(o).SetZero() }

func setStatus(to, from client.Object) { statusField(to).Set(statusField(from)) }

// withStatus returns the old object with the status of another, and its managedFields.
func withStatus(old, object client.Object) client.Object {
	edited := old.DeepCopyObject().(client.Object)
	setStatus(edited, object)
	edited.SetManagedFields(object.GetManagedFields())
	return edited
}
