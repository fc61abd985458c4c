package simulation

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/apiserver"
	"github.com/clusterset-dns/multicluster/test/world"
)

// promise is what has to be true in each story.
type promise int

const (
	traffic  promise = iota // kube-proxy keeps a usable endpoint of a Service, while there is one
	endpoint                // without a fault for a while (calm), kube-proxy keeps each endpoint that is still there
	address                 // the address of an import stays while somebody exports the name
	theirs                  // the controller neither changes nor deletes what it has not made
	conflict                // no write is refused because it knows nothing of another one by the same controller
	restless                // a clusterset comes to rest
	granted                 // a hostile peer has no effect beyond what it was granted
	panics                  // no controller panics
	ending                  // in the end, each cluster has what the true state says
	promises
)

func (p promise) String() string {
	return [promises]string{"traffic", "endpoint", "address", "theirs", "conflict", "rest", "granted", "panic", "end"}[p]
}

// These count what all stories of this process did: how often each promise was judged, changes of objects, and virtual time.
var (
	exercises        [promises]atomic.Uint64
	changes, virtual atomic.Uint64
)

func exercised() (all []string) {
	for p := range promises {
		if n := exercises[p].Load(); n > 0 {
			all = append(all, fmt.Sprintf("%v %d", p, n))
		}
	}
	return all
}

// judges see each change of any object when it is stored, and find the promise that it breaks.
type judges struct {
	mu          sync.Mutex
	network     *network
	facts       map[string]*facts
	broken      []broken
	reads       map[string]int                             // of single objects, by controllers, since a story asked for writes: by cluster
	writes      map[[2]string]int                          // by controllers, made or refused, since a story asked: by cluster and resource
	disturbance time.Time                                  // when something was last disturbed
	faulty      time.Time                                  // the same, without what a hostile peer does
	linked      time.Time                                  // when links were last connected again
	resting     bool                                       // controllers have to write nothing
	trace       func(cluster string, r *apiserver.Request) // sees each change; may be nil
}

// broken is a promise that was not kept.
type broken struct {
	promise promise
	what    string
}

// Error implements error.
func (b broken) Error() string { return b.promise.String() + ": " + b.what }

// facts is what the judges know of a cluster.
type facts struct {
	*cluster
	objects            map[objectKey]client.Object
	proxy              *kubeProxy
	made               map[types.UID]bool                 // by the controller
	wrote              map[objectKey]lastWrite            // who wrote an object last
	address            map[types.NamespacedName]string    // of imports
	missed             map[types.NamespacedName]time.Time // since when an import is
	serving            map[types.NamespacedName]serving   // what is exported of a name, since when
	exported           map[types.NamespacedName]time.Time // since when a name is
	liar               bool                               // a hostile peer
	podsDown           bool                               // now
	pods               time.Time                          // when that last changed
	apiDown            bool
	apiSilent, apiBack time.Time // when the API server last went down, and came back
	restored           time.Time // the API server, from an older state
	started            time.Time // the controller
	twice              bool      // there was a second installation, which has no peers, and fights until it sees the first one
}

type objectKey struct {
	kind reflect.Type
	types.NamespacedName
}

type lastWrite struct {
	controller bool
	at         time.Time
}

// serving are the addresses with ports that are ready, each since a time, and the port of the Service that leads there.
type serving map[string]struct {
	since      time.Time
	port, name string
}

// These are times after which a change counts: until then, it may be on its way, or disturb.
const (
	known = 5 * time.Second
	calm  = 3 * time.Minute
)

func newJudges() *judges {
	return &judges{facts: map[string]*facts{}, reads: map[string]int{}, writes: map[[2]string]int{}}
}

func (j *judges) follow(c *cluster) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.network = c.network
	j.facts[c.id] = &facts{
		cluster: c, objects: map[objectKey]client.Object{}, proxy: newKubeProxy(), made: map[types.UID]bool{}, wrote: map[objectKey]lastWrite{},
		address: map[types.NamespacedName]string{}, missed: map[types.NamespacedName]time.Time{}, serving: map[types.NamespacedName]serving{},
		exported: map[types.NamespacedName]time.Time{},
	}
}

func keyed(o client.Object) objectKey {
	return objectKey{reflect.TypeOf(o), client.ObjectKeyFromObject(o)}
}

// disturbed notes that something was disturbed, or that this ended.
func (j *judges) disturbed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fault()
}

// fault notes a disturbance that is not one of a hostile peer.
func (j *judges) fault() { j.disturbance, j.faulty = time.Now(), time.Now() }

// connected notes that links work again.
func (j *judges) connected() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.linked = time.Now()
}

func (j *judges) podsAre(cluster string, down bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f := j.facts[cluster]; f.podsDown != down {
		f.podsDown, f.pods = down, time.Now()
		j.fault()
	}
}

// apiIs notes that an API server ends, or begins.
func (j *judges) apiIs(cluster string, down bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f := j.facts[cluster]
	if down || f.apiDown {
		j.fault()
	}
	switch {
	case down && !f.apiDown:
		f.apiDown, f.apiSilent = true, time.Now()
	case !down && f.apiDown:
		f.apiDown, f.apiBack = false, time.Now()
	}
}

// began notes that a controller has started: it knows nothing of former writes, nor of the address of an import that was deleted with its Service, or
// whose Service the garbage collector is about to delete.
func (j *judges) began(cluster string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f := j.facts[cluster]
	maps.DeleteFunc(f.address, func(key types.NamespacedName, _ string) bool {
		derived := get[*corev1.Service](f, derivedOf(key))
		return get[*mcsv1beta1.ServiceImport](f, key) == nil && (derived == nil || len(derived.OwnerReferences) > 0)
	})
	j.facts[cluster].started = time.Now()
	j.fault()
}

// installed notes that a second installation has started.
func (j *judges) installed(cluster string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.facts[cluster].twice = true
}

// restore notes that an API server has an older state. The controller reads one kind of objects after the other again: for a while, it knows slices
// of the old state and Services of the new one.
func (j *judges) restore(c *cluster) {
	j.restart(c)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.facts[c.id].restored = time.Now()
}

// restart has the kube-proxies of a cluster read all anew, also after a restore.
func (j *judges) restart(c *cluster) {
	all := c.server.Objects()
	j.mu.Lock()
	defer j.mu.Unlock()
	f := j.facts[c.id]
	f.proxy, f.objects, f.address, f.wrote = newKubeProxy(), map[objectKey]client.Object{}, map[types.NamespacedName]string{}, map[objectKey]lastWrite{}
	for _, o := range all {
		f.objects[keyed(o)] = o
		f.proxy.sees(nil, o)
		if imp, ok := o.(*mcsv1beta1.ServiceImport); ok && len(imp.Spec.IPs) > 0 {
			f.address[client.ObjectKeyFromObject(imp)] = imp.Spec.IPs[0]
		}
	}
	for _, name := range append(f.names(), slices.Collect(maps.Keys(f.serving))...) {
		f.serves(name)
	}
	j.fault()
}

// uses is what kube-proxy uses of a Service.
func (j *judges) uses(cluster string, svc types.NamespacedName) proxied {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.facts[cluster].proxy.uses(svc)
}

// quiet says that nothing is left to write.
func (j *judges) quiet() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.resting = true
	exercises[restless].Add(1)
}

// panicked has the text of the last panic of a controller, which goes on after it.
var panicked atomic.Pointer[string]

// verdict returns the first promises that are broken.
func (j *judges) verdict() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	const enough = 3
	if fault := panicked.Swap(nil); fault != nil {
		j.say(panics, "one of them", "the controller panics: %s", *fault)
	}
	var errs []error
	for _, b := range j.broken[:min(enough, len(j.broken))] {
		errs = append(errs, b)
	}
	return errors.Join(errs...)
}

func (j *judges) say(p promise, cluster, format string, args ...any) {
	j.broken = append(j.broken, broken{p, "in " + cluster + ", " + fmt.Sprintf(format, args...)})
}

// stored judges a change of an object.
func (j *judges) stored(cluster string, r *apiserver.Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	changes.Add(1)
	f, object := j.facts[cluster], r.New
	if object == nil {
		object = r.Old
	}
	if j.trace != nil {
		j.trace(cluster, r)
	}
	key, ours := keyed(object), isController(r.UserAgent)
	j.count(cluster, r)
	services := concerned(r.Old, r.New)
	before := map[types.NamespacedName]map[string]bool{}
	for _, svc := range services {
		before[svc] = f.proxy.uses(svc).addresses()
	}
	f.proxy.sees(r.Old, r.New)
	if r.New == nil {
		delete(f.objects, key)
	} else {
		f.objects[key] = r.New
	}
	if ours && r.Old == nil {
		f.made[object.GetUID()] = true
	}
	f.wrote[key] = lastWrite{ours, time.Now()}
	if name, concerns := exportOf(object); concerns {
		f.serves(name)
	}
	if _, is := object.(*mcsv1beta1.ServiceExport); is && (r.Old == nil || r.New == nil) {
		f.exported[key.NamespacedName] = time.Now()
	}
	if ours {
		j.judgeGranted(f, r)
		j.judgeTheirs(f, r)
		j.judgeRest(f, r, key)
	}
	for _, svc := range services {
		j.judgeTraffic(f, svc, before[svc], f.proxy.uses(svc).addresses(), ours)
	}
	if imp, ok := object.(*mcsv1beta1.ServiceImport); ok {
		j.judgeAddress(f, imp, r.New == nil)
	}
}

// concerned are the Services of which kube-proxy's opinion can change.
func concerned(old, now client.Object) (all []types.NamespacedName) {
	for _, o := range []client.Object{old, now} {
		switch o := o.(type) {
		case *corev1.Service:
			all = append(all, client.ObjectKeyFromObject(o))
		case *discoveryv1.EndpointSlice:
			if of, labelled := serviceOf(o); labelled {
				all = append(all, of)
			}
		}
	}
	slices.SortFunc(all, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// exportOf is the name of which an object can change what is exported.
func exportOf(o client.Object) (name types.NamespacedName, concerns bool) {
	switch o := o.(type) {
	case *corev1.Service, *mcsv1beta1.ServiceExport, *mcsv1beta1.ServiceImport:
		return client.ObjectKeyFromObject(o), true
	case *discoveryv1.EndpointSlice:
		return serviceOf(o)
	}
	return name, false
}

func get[T client.Object](f *facts, key types.NamespacedName) T {
	one, _ := f.objects[objectKey{reflect.TypeFor[T](), key}].(T)
	return one
}

// names are those that the cluster exports.
func (f *facts) names() (all []types.NamespacedName) {
	for key := range f.objects {
		if key.kind == reflect.TypeFor[*mcsv1beta1.ServiceExport]() {
			all = append(all, key.NamespacedName)
		}
	}
	return all
}

// serves computes what the cluster exports of a name, from what its users made.
func (f *facts) serves(name types.NamespacedName) {
	now := serving{}
	if svc := get[*corev1.Service](f, name); svc != nil && f.isExported(name, svc) {
		for key, object := range f.objects {
			slice, ok := object.(*discoveryv1.EndpointSlice)
			if !ok || key.Namespace != name.Namespace || !isSource(slice, name.Name) {
				continue
			}
			for at, port := range ready(slice, svc) {
				one, already := f.serving[name][at]
				is := fmt.Sprintf("%s/%d", port.Protocol, port.Port)
				if !already || one.port != is || one.name != port.Name {
					one.since, one.port, one.name = time.Now(), is, port.Name
				}
				now[at] = one
			}
		}
	}
	f.serving[name] = now
}

// isExported reports whether a Service has an export that counts, and is a user's own.
func (f *facts) isExported(name types.NamespacedName, svc *corev1.Service) bool {
	export, imp := get[*mcsv1beta1.ServiceExport](f, name), get[*mcsv1beta1.ServiceImport](f, name)
	if export == nil || export.DeletionTimestamp != nil || imp != nil && !ownership.OfImport(imp) {
		return false
	}
	return svc.Spec.Type != corev1.ServiceTypeExternalName && !ownership.NativeService(svc)
}

// isSource reports whether Kubernetes made a slice for a user's Service, in the family that all Services here have.
func isSource(slice *discoveryv1.EndpointSlice, service string) bool {
	return slice.Labels[discoveryv1.LabelServiceName] == service && slice.AddressType == discoveryv1.AddressTypeIPv4 && slice.Labels[mcsv1beta1.LabelServiceName] == ""
}

// ready are the addresses of a slice that a Service's ports lead to, each with the port.
func ready(slice *discoveryv1.EndpointSlice, svc *corev1.Service) map[string]corev1.ServicePort {
	all := map[string]corev1.ServicePort{}
	for _, to := range slice.Ports {
		for _, port := range svc.Spec.Ports {
			for _, e := range slice.Endpoints {
				if is, _ := states(e); is && port.Name == *to.Name && port.Protocol == *to.Protocol {
					all[fmt.Sprintf("%s:%d", e.Addresses[0], *to.Port)] = port
				}
			}
		}
	}
	return all
}

// good are the addresses of a name that clients in a cluster can use, and that it has had time to know of; or also the new ones. A port reaches
// only the Services that have it (C14).
func (j *judges) good(in *facts, name types.NamespacedName, alsoNew bool) map[string]bool {
	all, ports := map[string]bool{}, map[string]bool{}
	if imp := get[*mcsv1beta1.ServiceImport](in, name); imp != nil {
		for _, p := range imp.Spec.Ports {
			ports[fmt.Sprintf("%s/%d", p.Protocol, p.Port)] = true
		}
	}
	for id, from := range j.facts {
		if !in.reads(id) || in.limits(id) || from.liar || !j.reaches(in, from) {
			continue
		}
		for at, one := range from.serving[name] {
			if (alsoNew || from.knows(one.since)) && ports[one.port] {
				all[at] = true
			}
		}
	}
	return all
}

// reaches reports whether the pods of a cluster answer to clients in another one, and have done so for a while.
func (j *judges) reaches(in, to *facts) bool {
	if to.podsDown || time.Since(to.pods) < calm && !to.pods.IsZero() {
		return false
	}
	return in == to || j.network.passes(in.id, to.id) && (j.linked.IsZero() || time.Since(j.linked) >= calm)
}

// knows reports whether others have had time to know of what happened in a cluster at a time. After an outage of its API server, everybody reads
// one kind of objects after the other again.
func (f *facts) knows(since time.Time) bool {
	if time.Since(since) < known {
		return false
	}
	return since.Before(f.apiSilent) || !f.apiDown && time.Since(f.apiBack) >= calm
}

// reads reports whether a cluster is itself or a peer.
func (f *facts) reads(id string) bool {
	return f.id == id || get[*corev1.Secret](f, types.NamespacedName{Namespace: world.SystemNamespace, Name: id}) != nil
}

// limits reports whether a cluster takes only a part of what a peer exports.
func (f *facts) limits(id string) bool {
	secret := get[*corev1.Secret](f, types.NamespacedName{Namespace: world.SystemNamespace, Name: id})
	return secret != nil && len(secret.Annotations) > 0
}

// judgeTraffic compares what kube-proxy used of a derived Service with what it uses now.
func (j *judges) judgeTraffic(f *facts, svc types.NamespacedName, before, after map[string]bool, ours bool) {
	name, derived := strings.CutPrefix(svc.Name, "derived-")
	key := types.NamespacedName{Namespace: svc.Namespace, Name: name}
	if !derived || !ours || !f.answersFor(key, svc) || !j.decides(key) {
		return
	}
	good := j.good(f, key, false)
	maps.DeleteFunc(good, func(at string, _ bool) bool { return !before[at] })
	if len(good) == 0 {
		return
	}
	exercises[traffic].Add(1)
	left := maps.Clone(good)
	maps.DeleteFunc(left, func(at string, _ bool) bool { return !after[at] })
	others := j.good(f, key, true)
	maps.DeleteFunc(others, func(at string, _ bool) bool { return !after[at] })
	if j.isCalm() {
		exercises[endpoint].Add(1)
	}
	switch {
	case len(left)+len(others) == 0:
		j.say(traffic, f.id, "kube-proxy uses no endpoint of %s any more that works; before, it used %v", svc, sortedTrue(good))
	case len(left) < len(good) && j.isCalm() && !j.isChosen(key):
		maps.DeleteFunc(good, func(at string, _ bool) bool { return after[at] })
		j.say(endpoint, f.id, "kube-proxy does not use %v for %s any more, which still serves", sortedTrue(good), svc)
	}
}

// decides reports whether it is the controller's decision which endpoints of a name are left.
func (j *judges) decides(name types.NamespacedName) bool {
	if j.anyHeadless(name) || j.mayLeave(name) {
		return false
	}
	return !j.isChosen(name) || j.isCalm() && !j.anyVacant(name) // a choice can be from the moment before a link was cut, or a Service was deleted
}

// answersFor reports whether the controller answers for the traffic to a derived Service: it and the import are the controller's own, and stay.
func (f *facts) answersFor(key, svc types.NamespacedName) bool {
	imp := get[*mcsv1beta1.ServiceImport](f, key)
	if imp == nil || imp.Spec.Type == mcsv1beta1.Headless || !ownership.OfImport(imp) || f.twice || !f.restored.IsZero() && time.Since(f.restored) < calm {
		return false
	}
	if is := get[*corev1.Service](f, svc); is != nil && is.Labels[mcs.LabelManagedBy] != mcs.ControllerName {
		return false // somebody has taken away the mark that it is ours
	}
	in := get[*corev1.Namespace](f, types.NamespacedName{Name: svc.Namespace})
	return in != nil && in.DeletionTimestamp == nil && (f.imported == nil || f.imported.Matches(labels.Set(in.Labels)))
}

// anyHeadless reports whether the type of a name can change for that of another cluster.
func (j *judges) anyHeadless(name types.NamespacedName) bool {
	for _, f := range j.facts {
		if svc := get[*corev1.Service](f, name); svc != nil && svc.Spec.ClusterIP == corev1.ClusterIPNone {
			return true
		}
	}
	return false
}

// anyVacant reports whether an export of a name has no Service: others keep its endpoints for a minute.
func (j *judges) anyVacant(name types.NamespacedName) bool {
	for _, f := range j.facts {
		if get[*mcsv1beta1.ServiceExport](f, name) != nil && get[*corev1.Service](f, name) == nil {
			return true
		}
	}
	return false
}

// isCalm reports whether nothing is disturbed, nor was a moment ago.
func (j *judges) isCalm() bool {
	if !j.disturbance.IsZero() && time.Since(j.disturbance) < calm || j.network.disturbed() {
		return false
	}
	for _, f := range j.facts {
		if !f.undisturbed() {
			return false
		}
	}
	return true
}

// choosing are the annotations that say which clusters get traffic, or import the name. Of these, leaving can leave none.
var (
	leaving  = []string{mcs.AnnotationPreferClusters, mcs.AnnotationToClusters}
	choosing = append([]string{mcs.AnnotationMinReady, mcs.AnnotationReturnAfter}, leaving...)
)

// isChosen reports whether an annotation of an export or an import restricts which clusters get traffic, or import the name: there are other rules then.
func (j *judges) isChosen(name types.NamespacedName) bool {
	return len(j.choices(name, choosing)) > 0
}

// choices are what the exports and imports of a name say with some annotations, each as "annotation=value".
func (j *judges) choices(name types.NamespacedName, with []string) (all []string) {
	for _, f := range j.facts {
		var annotations []map[string]string
		if export := get[*mcsv1beta1.ServiceExport](f, name); export != nil {
			annotations = append(annotations, export.Annotations)
		}
		if imp := get[*mcsv1beta1.ServiceImport](f, name); imp != nil {
			annotations = append(annotations, imp.Annotations)
		}
		for _, of := range annotations {
			for key, value := range mcs.Only(of, with...) {
				all = append(all, key+"="+value)
			}
		}
	}
	return all
}

// mayLeave reports whether the clusters that are chosen for a name can be such that no endpoint is left for one that uses it.
func (j *judges) mayLeave(name types.NamespacedName) bool {
	return slices.ContainsFunc(j.choices(name, leaving), func(is string) bool { return !strings.HasSuffix(is, "any") })
}

// judgeAddress wants the address that an import had, for as long as somebody exports the name.
func (j *judges) judgeAddress(f *facts, imp *mcsv1beta1.ServiceImport, gone bool) {
	key := client.ObjectKeyFromObject(imp)
	if !ownership.OfImport(imp) {
		delete(f.address, key)
		return
	}
	if gone {
		// a controller that has just started may not have read the import before
		if f.missed[key] = time.Now(); !j.exported(f, key) || time.Since(f.started) < known {
			delete(f.address, key)
		}
		return
	}
	if since, was := f.missed[key]; was && time.Since(since) > time.Minute {
		delete(f.address, key) // the controller remembers it for a minute, and was kept from making the import for longer
	}
	delete(f.missed, key)
	if len(imp.Spec.IPs) == 0 || f.wrote[keyed(imp)] == (lastWrite{}) || !f.wrote[keyed(imp)].controller {
		return
	}
	had, is := f.address[key], imp.Spec.IPs[0]
	if had != "" && had != is && !f.isTaken(had, key) {
		j.say(address, f.id, "the import %s has the address %s, and had %s", key, is, had)
	}
	exercises[address].Add(1)
	f.address[key] = is
	if had == "" {
		j.judgeFirstAddress(f, key)
	}
}

// judgeFirstAddress wants an import to have endpoints before it has an address.
func (j *judges) judgeFirstAddress(f *facts, key types.NamespacedName) {
	if svc := derivedOf(key); j.isCalm() && f.answersFor(key, svc) && !j.anyHeadless(key) && !j.isChosen(key) {
		used, good := f.proxy.uses(svc).addresses(), j.good(f, key, false)
		maps.DeleteFunc(good, func(at string, _ bool) bool { return !j.isUsedElsewhere(f, svc, at) }) // otherwise it may not be exported yet
		if maps.DeleteFunc(used, func(at string, _ bool) bool { return !good[at] }); len(good) > 0 && len(used) == 0 {
			j.say(traffic, f.id, "the import %s has an address before it has any of the endpoints %v", key, sortedTrue(good))
		}
	}
}

func (j *judges) isUsedElsewhere(in *facts, svc types.NamespacedName, at string) bool {
	for _, f := range j.facts {
		if f != in && f.proxy.uses(svc).addresses()[at] {
			return true
		}
	}
	return false
}

// derivedOf is the derived Service of an import.
func derivedOf(name types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: name.Namespace, Name: "derived-" + name.Name}
}

// isTaken reports whether another Service has the address that an import had.
func (f *facts) isTaken(address string, of types.NamespacedName) bool {
	for key, object := range f.objects {
		svc, ok := object.(*corev1.Service)
		if ok && svc.Spec.ClusterIP == address && key.NamespacedName != derivedOf(of) {
			return true
		}
	}
	return false
}

// exported reports whether a cluster knows an export of a name, with a Service.
func (j *judges) exported(f *facts, name types.NamespacedName) bool {
	for id, from := range j.facts {
		svc := get[*corev1.Service](from, name)
		if f.reads(id) && get[*mcsv1beta1.ServiceExport](from, name) != nil && svc != nil && svc.Spec.Type != corev1.ServiceTypeExternalName {
			return true
		}
	}
	return false
}

// judgeTheirs wants what the controller has not made to be as it was.
func (j *judges) judgeTheirs(f *facts, r *apiserver.Request) {
	if slice, ok := r.Old.(*discoveryv1.EndpointSlice); ok {
		of := slice.Labels[discoveryv1.LabelServiceName]
		svc := get[*corev1.Service](f, types.NamespacedName{Namespace: slice.Namespace, Name: of})
		if strings.HasPrefix(of, "derived-") || svc != nil && svc.Labels[mcs.LabelNativeOf] != "" {
			return // a Service of the controller's own takes no endpoints of others
		}
	}
	if r.Old == nil || f.made[r.Old.GetUID()] || r.Old.GetLabels()[mcs.LabelManagedBy] == mcs.ControllerName || r.Old.GetLabels()[discoveryv1.LabelManagedBy] == mcs.ControllerName {
		return
	}
	exercises[theirs].Add(1)
	if !leaves(r.Old, r.New) {
		j.say(theirs, f.id, "the controller has changed or deleted %T %s, which it has not made", r.Old, client.ObjectKeyFromObject(r.Old))
	}
}

// leaves reports whether a write of the controller leaves to others what is theirs: all but the status, and of an import the addresses.
func leaves(old, now client.Object) bool {
	if now == nil {
		return false
	}
	same := equality.Semantic.DeepEqual(old.GetLabels(), now.GetLabels()) && equality.Semantic.DeepEqual(old.GetFinalizers(), now.GetFinalizers()) &&
		equality.Semantic.DeepEqual(old.GetOwnerReferences(), now.GetOwnerReferences())
	switch old := old.(type) {
	case *corev1.Service:
		return same && equality.Semantic.DeepEqual(old.Spec, now.(*corev1.Service).Spec)
	case *mcsv1beta1.ServiceExport:
		return same && equality.Semantic.DeepEqual(old.Spec, now.(*mcsv1beta1.ServiceExport).Spec)
	case *mcsv1beta1.ServiceImport:
		a, b := old.Spec.DeepCopy(), now.(*mcsv1beta1.ServiceImport).Spec.DeepCopy()
		a.IPs, a.IPFamilies, b.IPs, b.IPFamilies = nil, nil, nil, nil
		return ownership.OfImport(old) || equality.Semantic.DeepEqual(a, b)
	case *discoveryv1.EndpointSlice:
		return false
	}
	return true
}

// isSignOfLife reports whether a write says that a controller runs: it is made when nothing else happens.
func isSignOfLife(r *apiserver.Request) bool {
	return r.Resource.Resource == "leases" || r.Resource.Resource == "events" || r.Resource.Resource == "namespaces" && (r.Name == world.SystemNamespace || r.Name == secondNamespace)
}

// judgeRest wants no write once the clusterset has converged, except signs of life.
func (j *judges) judgeRest(f *facts, r *apiserver.Request, key objectKey) {
	if !j.resting || isSignOfLife(r) {
		return
	}
	j.say(restless, f.id, "the controller writes %s %s (%s %s), and nothing has changed for long", r.Resource.Resource, key.NamespacedName, r.Verb, r.Subresource)
}

// read counts what a controller reads from its API server besides lists and watches.
func (j *judges) read(cluster string, r *apiserver.Request) {
	if r.Verb != "get" || isSignOfLife(r) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reads[cluster]++
}

func (j *judges) count(cluster string, r *apiserver.Request) {
	if isController(r.UserAgent) && !isSignOfLife(r) {
		j.writes[[2]string{cluster, r.Resource.Resource}]++
	}
}

// refused judges a write that was not made.
func (j *judges) refused(cluster string, r *apiserver.Request, err error) {
	if r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" {
		j.mu.Lock()
		j.count(cluster, r)
		j.mu.Unlock()
	}
	if !isController(r.UserAgent) || !apierrors.IsConflict(err) || r.Resource.Resource == "leases" || r.Old == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	exercises[conflict].Add(1)
	f := j.facts[cluster]
	if last := f.wrote[keyed(r.Old)]; last.controller && last.at.After(f.started) && j.isCalm() {
		j.say(conflict, cluster, "at %s, %s %s %s (%s) is refused: the controller knows nothing of its own write of %s", time.Now().Format(time.StampMilli), r.Verb, r.Resource.Resource, r.NamespacedName, r.Subresource, last.at.Format(time.StampMilli))
	}
}
