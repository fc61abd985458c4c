package simulated

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

const ownSlices = mcsv1beta1.LabelSourceCluster + "=p00," + discoveryv1.LabelManagedBy + "=" + mcs.ControllerName

// always are requests, and what is to be the same of their answers.
var always = map[string]func(context.Context, *rest.Config) ([]string, error){
	"versions and resources": func(_ context.Context, config *rest.Config) (found []string, err error) {
		api := kubernetes.NewForConfigOrDie(config).Discovery()
		groups, err := api.ServerGroups()
		if err != nil {
			return nil, err
		}
		for _, k := range kinds {
			list, err := api.ServerResourcesForGroupVersion(k.GroupVersion().String())
			if err != nil {
				return nil, err
			}
			for _, group := range groups.Groups {
				for _, resource := range list.APIResources {
					if group.Name == k.Group && resource.Name == k.resource {
						found = append(found, fmt.Sprint(group.PreferredVersion.GroupVersion, resource.Name, resource.SingularName, resource.Kind, resource.Namespaced))
					}
				}
			}
		}
		return found, nil
	},
	"a version that is not there": func(_ context.Context, config *rest.Config) ([]string, error) {
		_, err := kubernetes.NewForConfigOrDie(config).Discovery().ServerResourcesForGroupVersion("discovery.k8s.io/v9")
		return nil, err
	},
	"a write": func(ctx context.Context, config *rest.Config) ([]string, error) {
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Services(compared.Namespace(0)).Create(ctx,
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
		return nil, err
	},
	"a probe, which selects nothing": list(metav1.ListOptions{FieldSelector: "metadata.name=none.clusterset-dns.io", ResourceVersion: "0"}),
	"a namespace by its name":        list(metav1.ListOptions{FieldSelector: "metadata.name=kube-system"}),
	"another field":                  list(metav1.ListOptions{FieldSelector: "spec.other=1"}),
	"exports, in JSON": func(ctx context.Context, config *rest.Config) (names []string, err error) {
		config = rest.CopyConfig(config)
		config.ContentType = runtime.ContentTypeJSON
		exports := dynamic.NewForConfigOrDie(config).Resource(mcsv1beta1.SchemeGroupVersion.WithResource(mcsv1beta1.ServiceExportPluralName))
		all, err := exports.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return names, all.EachListItem(func(object runtime.Object) error {
			names = append(names, object.(*unstructured.Unstructured).GetName())
			return nil
		})
	},
	"own slices, then a bookmark": events(metav1.ListOptions{
		LabelSelector: ownSlices, SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	}),
}

// afterRestart are requests to an API server that has forgotten its changes.
var afterRestart = map[string]func(context.Context, *rest.Config) ([]string, error){
	"a watch from a version that is too old": events(metav1.ListOptions{ResourceVersion: "2"}),
}

func list(options metav1.ListOptions) func(context.Context, *rest.Config) ([]string, error) {
	return func(ctx context.Context, config *rest.Config) (names []string, err error) {
		all, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().List(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, one := range all.Items {
			names = append(names, one.Name)
		}
		return names, nil
	}
}

// events are those of EndpointSlices up to the first that is none of an object.
func events(options metav1.ListOptions) func(context.Context, *rest.Config) ([]string, error) {
	return func(ctx context.Context, config *rest.Config) (seen []string, err error) {
		w, err := kubernetes.NewForConfigOrDie(config).DiscoveryV1().EndpointSlices("").Watch(ctx, options)
		if err != nil {
			return nil, err
		}
		defer w.Stop()
		for event := range w.ResultChan() {
			switch object := event.Object.(type) {
			case *discoveryv1.EndpointSlice:
				seen = append(seen, fmt.Sprint(event.Type, object.Name, object.Annotations[metav1.InitialEventsAnnotationKey], len(object.Endpoints)))
			default:
				return seen, apierrors.FromObject(event.Object)
			}
			if event.Type == watch.Bookmark {
				slices.Sort(seen)
				return seen, nil
			}
		}
		return seen, ctx.Err()
	}
}

func answerTheSame(t *testing.T, actual, simulated *rest.Config, requests map[string]func(context.Context, *rest.Config) ([]string, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what, ask := range requests {
		var answers [2]string
		for i, config := range []*rest.Config{actual, simulated} {
			config = rest.CopyConfig(config)
			config.ContentType = runtime.ContentTypeProtobuf
			found, err := ask(ctx, config)
			answers[i] = fmt.Sprintf("%q %s", found, apierrors.ReasonForError(err))
			if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
				t.Errorf("%s: %s: %v", what, of[i], err)
			}
		}
		if answers[0] != answers[1] {
			t.Errorf("%s:\n%s: %s\n%s: %s", what, of[0], answers[0], of[1], answers[1])
		}
	}
}
