package simulated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/lenient"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/reflector"
	"github.com/clusterset-dns/multicluster/test/kube"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// small is the World of most tests.
var small = World{Peers: 1, Services: 7, Endpoints: 3, SliceSize: 2, HeadlessEvery: 3, Unexported: 2, Namespaces: 2}

// certificates are those of all tests.
var certificates = sync.OnceValues(NewCertificates)

// start starts a Server with the first peer of a World until the end of the test.
func start(t *testing.T, w World, options Options) *Server {
	t.Helper()
	shared, err := certificates()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(shared, options, w.Objects(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// config returns a client configuration from the Server's kubeconfig.
func (s *Server) config(t *testing.T) *rest.Config {
	t.Helper()
	text, err := s.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// readExport is the part of a ServiceExport that the controller reads, by a decoder of its own.
type readExport struct {
	lenient.Base
	Spec mcsv1beta1.ServiceExportSpec `json:"spec"`
}

// DeepCopyObject implements runtime.Object.
func (e *readExport) DeepCopyObject() runtime.Object { c := *e; return &c }

// versionOf returns a client of a version as the controller has it: protobuf for built-in kinds.
func (s *Server) versionOf(t *testing.T, gv schema.GroupVersion) reflector.Version {
	t.Helper()
	c := s.config(t)
	c.GroupVersion, c.APIPath = &gv, "/apis"
	switch gv.Group {
	case mcsv1beta1.GroupName:
		c.NegotiatedSerializer = lenient.Serializer[readExport](mcsv1beta1.ServiceExportKindName)
	case "":
		c.APIPath = "/api"
		fallthrough
	default:
		c.NegotiatedSerializer = serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()
		c.AcceptContentTypes, c.ContentType = runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON, runtime.ContentTypeProtobuf
	}
	one, err := rest.RESTClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	return reflector.Version{GroupVersion: gv, Client: one}
}

// follower follows one resource of a Server as the controller does.
type follower struct{ cache.Store }

func (s *Server) follow(t *testing.T, r reflector.Resource, versions ...schema.GroupVersion) *follower {
	t.Helper()
	for _, gv := range versions {
		r.Versions = append(r.Versions, s.versionOf(t, gv))
	}
	r.Whole = true
	finder, err := discovery.NewDiscoveryClientForConfig(s.config(t))
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{Store: cache.NewStore(cache.MetaNamespaceKeyFunc)}
	run := reflector.New(r, finder, f, func(reflector.Verb, error) {})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { run.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return f
}

// versions returns the names of the objects, with their versions.
func (f *follower) versions() (all []string) {
	for _, object := range f.List() {
		o := object.(client.Object)
		all = append(all, fmt.Sprintf("%s/%s@%s", o.GetNamespace(), o.GetName(), o.GetResourceVersion()))
	}
	slices.Sort(all)
	return all
}

// has returns the names of a kind's objects in the Server, with their versions.
func (s *Server) has(resource string, by selection) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.stores {
		if of.kind.resource != resource {
			continue
		}
		for _, one := range of.items {
			if by.has(one) {
				all = append(all, fmt.Sprintf("%s/%s@%d", one.namespace, one.name, one.version))
			}
		}
	}
	slices.Sort(all)
	return all
}

// equal waits until a follower has what the Server has.
func (f *follower) equal(t *testing.T, s *Server, resource string, by selection) {
	t.Helper()
	kube.Eventually(t, "the follower has the "+resource, func() error {
		if got, want := f.versions(), s.has(resource, by); !slices.Equal(got, want) {
			return fmt.Errorf("it has %v; want %v", got, want)
		}
		return nil
	})
}

func (f *follower) service(namespace, name string) (*corev1.Service, error) {
	object, found, err := f.GetByKey(namespace + "/" + name)
	if err == nil && !found {
		err = errors.New("it is not there")
	}
	if err != nil {
		return nil, err
	}
	return object.(*corev1.Service), nil
}

// The resources, as the controller follows them.
var (
	ofServices   = reflector.Resource{Name: "services", Object: &corev1.Service{}}
	ofExports    = reflector.Resource{Name: mcsv1beta1.ServiceExportPluralName, Object: &readExport{}}
	ofNamespaces = reflector.Resource{Name: "namespaces", Object: &corev1.Namespace{}}
	ofSlices     = reflector.Resource{Name: "endpointslices", Object: &discoveryv1.EndpointSlice{}, Labels: ownSlices}
)

const ownSlices = mcsv1beta1.LabelSourceCluster + "=p00," + discoveryv1.LabelManagedBy + "=" + mcs.ControllerName
