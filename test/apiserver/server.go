package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options are those of a Server.
type Options struct {
	// ServiceCIDRs are the ranges of ClusterIPs, the first one of the default family.
	ServiceCIDRs []netip.Prefix
	// Seed decides about UIDs, generated names and assigned addresses.
	Seed uint64
	// Admit can refuse a request, and answers with the error of an API server, or with any other one as with an internal error. A write
	// can be edited: Object is what will be stored. May be nil.
	Admit func(*Request) error
	// Now is the server's clock; time.Now if it is nil.
	Now func() time.Time
	// Stored sees each change when it is stored, in their order; Old is nil for a new object, and New for one that has gone. Refused sees each
	// write that is not stored. They must not call the Server. May be nil.
	Stored  func(*Request)
	Refused func(*Request, error)
}

// Request is a request, as authorization and admission see it.
type Request struct {
	Verb, Subresource string // "get", "list", "watch", "create", "update", "patch", "delete"
	Resource          schema.GroupResource
	types.NamespacedName
	User      string        // of the token, "" without one
	Old, New  client.Object // of a write: the state before, nil if there is none, and after; nil for a deletion
	UserAgent string
}

// Server is the API server of one cluster, with its etcd.
type Server struct {
	options Options

	mu      sync.Mutex
	random  *rand.Rand
	stores  []*store // by the place of the kind in kinds
	version uint64   // of the last change of any object, as etcd's revision
	leased  map[netip.Addr]types.NamespacedName
	given   map[types.NamespacedName]int // how many addresses Services of a name have got
}

// New returns a Server with the namespaces that a new cluster has.
func New(o Options) *Server {
	if len(o.ServiceCIDRs) == 0 {
		o.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{options: o, random: rand.New(rand.NewPCG(o.Seed, 0)), leased: map[netip.Addr]types.NamespacedName{}, given: map[types.NamespacedName]int{}, version: 1}
	for _, k := range kinds {
		s.stores = append(s.stores, newStore(k))
	}
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		n := s.namespaces().new()
		n.SetName(name)
		if _, err := s.create(n, "kube-apiserver"); err != nil {
			panic(err) // nothing is in its way
		}
	}
	return s
}

// create stores an object of a kind, as the API server itself does.
func (s *Server) create(object client.Object, manager string) (client.Object, error) {
	c, err := s.own("create", object, manager)
	if err != nil {
		return nil, err
	}
	return s.write(c, func(client.Object) (client.Object, error) { return object, nil })
}

// own is a request of the API server itself.
func (s *Server) own(verb string, object client.Object, manager string) (*call, error) {
	gvk, _, err := scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	of := s.stores[slices.IndexFunc(kinds, func(k *kind) bool { return k.GroupVersionKind == gvk[0] })]
	return &call{of: of, verb: verb, manager: manager, key: client.ObjectKeyFromObject(object)}, nil
}

// Put stores an object as it is given, with a UID and a version: without admission, defaults and managedFields, which take most of the time
// of a write, and also what no API server would accept, as a hostile one can show it. The object belongs to the Server then.
func (s *Server) Put(object client.Object) error {
	c, err := s.own("update", object, "")
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := c.of.items[c.key]; have != nil {
		object.SetUID(have.object.GetUID())
	} else {
		object.SetUID(s.uid())
	}
	s.put(c, object, false)
	return nil
}

// namespaces is the store of the Namespaces.
func (s *Server) namespaces() *store {
	return s.stores[slices.IndexFunc(kinds, func(k *kind) bool { return k.resource == "namespaces" })]
}

// uid returns a new UID.
func (s *Server) uid() types.UID {
	a, b := s.random.Uint64(), s.random.Uint64()
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0xfff, b&0xffffffffffff))
}

// call is a request to objects of a kind.
type call struct {
	of         *store
	verb, sub  string
	key        types.NamespacedName
	manager    string
	user       string
	media      runtime.SerializerInfo
	request    *http.Request
	writer     http.ResponseWriter
	force, dry bool
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if document := s.discovery(r.URL.Path); document != nil {
		answer(w, http.StatusOK, jsonMedia, document)
		return
	}
	c, found := s.parse(r)
	switch {
	case !found && slices.ContainsFunc(s.stores, func(of *store) bool { return strings.HasPrefix(r.URL.Path, path.Dir(groupPath(of.GroupVersion()))+"/") }):
		answer(w, http.StatusNotFound, jsonMedia, statusOf(apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "", 0, false)))
		return
	case !found: // nor the group
		http.NotFound(w, r)
		return
	}
	c.writer = w
	if err := s.dispatch(c); err != nil {
		status := statusOf(err)
		answer(w, int(status.Code), c.media, status)
	}
}

// parse reads whom a request is about: /apis/GROUP/VERSION[/namespaces/NAMESPACE]/RESOURCE[/NAME[/SUBRESOURCE]].
func (s *Server) parse(r *http.Request) (c *call, found bool) {
	for _, of := range s.stores {
		rest, ok := strings.CutPrefix(r.URL.Path, groupPath(of.GroupVersion())+"/")
		if !ok {
			continue
		}
		c := &call{of: of, request: r, media: of.media(r.Header.Get("Accept")), manager: r.URL.Query().Get("fieldManager")}
		if c.manager == "" {
			c.manager, _, _ = strings.Cut(r.UserAgent(), "/")
		}
		c.user = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		parts := strings.Split(rest, "/")
		if parts[0] == "namespaces" && !of.cluster && len(parts) > 2 {
			c.key.Namespace, parts = parts[1], parts[2:]
		}
		if parts[0] != of.resource || len(parts) > 3 {
			continue
		}
		parts = append(parts, "", "")
		c.key.Name, c.sub = parts[1], parts[2]
		if c.sub == "" || c.sub == "status" {
			return c, true
		}
	}
	return nil, false
}

func (s *Server) dispatch(c *call) error {
	query := c.request.URL.Query()
	c.dry = query.Get("dryRun") != ""
	c.force = query.Get("force") == "true"
	switch {
	case c.sub != "" && !c.of.status:
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	case c.request.Method == http.MethodGet && c.key.Name != "":
		return s.get(c)
	case c.request.Method == http.MethodGet:
		return s.read(c)
	case c.request.Method == http.MethodPost && c.key.Name == "":
		return s.post(c)
	case c.request.Method == http.MethodPut && c.key.Name != "":
		return s.replace(c)
	case c.request.Method == http.MethodPatch && c.key.Name != "":
		return s.patch(c)
	case c.request.Method == http.MethodDelete:
		return s.remove(c)
	default:
		return apierrors.NewMethodNotSupported(c.of.groupResource(), c.request.Method)
	}
}

// admit asks whether a request is allowed.
func (s *Server) admit(c *call, old, object client.Object) error {
	if s.options.Admit == nil {
		return nil
	}
	return s.options.Admit(c.asked(old, object))
}

// asked is a request as others see it.
func (c *call) asked(old, object client.Object) *Request {
	r := &Request{Verb: c.verb, Subresource: c.sub, Resource: c.of.groupResource(), NamespacedName: c.key, User: c.user, Old: old, New: object, UserAgent: c.manager}
	if c.request != nil {
		r.UserAgent = c.request.UserAgent()
	}
	return r
}

// discovery returns the document at a path, or nil. It is the form of discovery with one request for each version, which clients use
// where they are not answered with the aggregated one.
func (s *Server) discovery(path string) any {
	versions := map[schema.GroupVersion]*metav1.APIResourceList{}
	var groups []metav1.APIGroup
	for _, of := range s.stores {
		gv := of.GroupVersion()
		if versions[gv] == nil {
			versions[gv] = &metav1.APIResourceList{TypeMeta: metaV1("APIResourceList"), GroupVersion: gv.String()}
			if gv.Group != "" {
				v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
				groups = append(groups, metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
			}
		}
		verbs := metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
		list := versions[gv]
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: of.resource, SingularName: strings.ToLower(of.Kind), Namespaced: !of.cluster, Kind: of.Kind, Verbs: verbs})
		if of.status {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: of.resource + "/status", Namespaced: !of.cluster, Kind: of.Kind, Verbs: metav1.Verbs{"get", "patch", "update"}})
		}
	}
	switch path {
	case "/api":
		return &metav1.APIVersions{TypeMeta: metaV1("APIVersions"), Versions: []string{"v1"}}
	case "/apis":
		return &metav1.APIGroupList{TypeMeta: metaV1("APIGroupList"), Groups: groups}
	case "/openapi/v3":
		return openAPIPaths(slices.Collect(maps.Keys(versions)))
	}
	for gv, list := range versions {
		switch path {
		case groupPath(gv):
			return list
		case "/openapi/v3" + groupPath(gv):
			return openAPI(gv)
		}
	}
	return nil
}

// statusOf returns an error as an API server sends it.
func statusOf(err error) *metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}}
	}
	status := known.Status()
	status.TypeMeta = metaV1("Status")
	return &status
}

// now is the time as it is stored: in seconds.
func (s *Server) now() metav1.Time { return metav1.NewTime(s.options.Now().Truncate(time.Second)) }
