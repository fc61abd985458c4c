package watch

import (
	"errors"
	"fmt"
	"net/http"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset-dns/multicluster/internal/lenient"
)

// sliceSerializer reads EndpointSlices.
var sliceSerializer = func() runtime.NegotiatedSerializer {
	s := runtime.NewScheme()
	if err := discoveryv1.AddToScheme(s); err != nil {
		panic(err) // the type is compiled in: this cannot fail at run time
	}
	return serializer.NewCodecFactory(s).WithoutConversion()
}()

// LoadConfig returns the client configuration of a kubeconfig file and context ("" for the current
// one). If the file is "", it returns that of the pod. The error contains what to do.
func LoadConfig(kubeconfig, context string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("not in a pod, so name the API server by `kubeconfig FILE [CONTEXT]`")
		}
		return config, err
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: context},
	).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return config, nil
}

// restClient returns a client of one API group version, over the connections of an HTTP client.
func restClient(config *rest.Config, over *http.Client, gv schema.GroupVersion) (*rest.RESTClient, error) {
	c := rest.CopyConfig(config)
	c.APIPath = "/apis"
	c.GroupVersion = &gv
	c.NegotiatedSerializer = lenient.Serializer[serviceImport]("ServiceImport")
	if gv == discoveryv1.SchemeGroupVersion { // custom resources have no protobuf form
		c.NegotiatedSerializer = sliceSerializer
		c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		c.ContentType = runtime.ContentTypeProtobuf
	}
	return rest.RESTClientForConfigAndClient(c, over)
}
