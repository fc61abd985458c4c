package reconcile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fieldselector "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/lenient"
	"github.com/clusterset-dns/multicluster/internal/reflector"
)

// A CRD accepts more than its Go type: `format: date-time` accepts 2020-01-01t00:00:00z, but
// metav1.Time does not. The decoders of client-go fail a list, and restart a watch, at the first
// such object. A user with permission to write one object in one namespace would stop the
// controller for all namespaces. tolerant decodes such objects without the parts that do not fit.

// tolerantInformer returns a function that creates the informers of a cache. They refuse lists that
// are not from an API server. The informers of ServiceImports and ServiceExports, which users write,
// are tolerant.
func tolerantInformer(config *rest.Config, gv schema.GroupVersion, scheme *runtime.Scheme) (newInformer, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/apis", &gv
	config.NegotiatedSerializer = tolerantSerializer{serializer.NewCodecFactory(scheme).WithoutConversion()}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", gv, err)
	}
	plurals := map[reflect.Type]string{
		reflect.TypeFor[*mcsv1beta1.ServiceImport](): mcsv1beta1.ServiceImportPluralName,
		reflect.TypeFor[*mcsv1beta1.ServiceExport](): mcsv1beta1.ServiceExportPluralName,
	}
	return func(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		if plural := plurals[reflect.TypeOf(object)]; plural != "" {
			lw = toolscache.NewListWatchFromClient(client, plural, metav1.NamespaceAll, fieldselector.Everything())
		}
		return toolscache.NewSharedIndexInformer(reflector.Versioned(lw), object, resync, indexers)
	}, nil
}

type newInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

type tolerantSerializer struct{ runtime.NegotiatedSerializer }

// DecoderToVersion implements runtime.NegotiatedSerializer. Like that of controller-runtime, the
// decoder keeps the kind of an object.
func (tolerantSerializer) DecoderToVersion(of runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return tolerant{of}
}

// tolerant decodes with the Decoder, and again without the parts that do not fit if that fails. An
// object that fits has no extra cost.
type tolerant struct{ runtime.Decoder }

// Decode implements runtime.Decoder.
//
//nolint:revive // three results, as runtime.Decoder wants
func (d tolerant) Decode(data []byte, kind *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object, found, err := d.Decoder.Decode(data, kind, into)
	if err == nil {
		return object, found, nil
	}
	fit, failed := d.fit(data)
	if failed != nil {
		return nil, nil, err // the error of the whole object
	}
	return d.Decoder.Decode(fit, kind, into)
}

type fields = map[string]json.RawMessage

// fit returns an object, or a list of objects, without the parts that do not fit the Go type.
func (d tolerant) fit(data []byte) ([]byte, error) {
	var whole fields
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, err
	}
	if _, list := whole["items"]; !list {
		return d.fitOne(whole)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(whole["items"], &items); err != nil {
		return nil, err
	}
	for i, item := range items {
		if _, _, err := d.Decoder.Decode(item, nil, nil); err == nil {
			continue
		}
		fit, err := d.fit(item)
		if err != nil {
			return nil, err
		}
		items[i] = fit
	}
	return with(whole, "items", items)
}

// fitOne leaves out as little as possible: invalid times, the status, or the spec. The controller
// repairs an import that it owns, as after any other edit.
func (d tolerant) fitOne(whole fields) (text []byte, err error) {
	for _, leaveOut := range []func(fields) ([]byte, error){withTimes, without("status"), without("spec")} {
		if text, err = leaveOut(whole); err != nil {
			return nil, err
		}
		if _, _, err = d.Decoder.Decode(text, nil, nil); err == nil {
			return text, nil
		}
	}
	return nil, err
}

// withTimes replaces invalid times in conditions. With a valid time, the conditions can be written
// again, which repairs the object.
func withTimes(whole fields) ([]byte, error) {
	var status fields
	var conditions []map[string]any
	if json.Unmarshal(whole["status"], &status) != nil || json.Unmarshal(status["conditions"], &conditions) != nil {
		return json.Marshal(whole)
	}
	for _, c := range conditions {
		if text, _ := c["lastTransitionTime"].(string); lenient.ParseTime(text).IsZero() {
			c["lastTransitionTime"] = time.Unix(0, 0).UTC().Format(time.RFC3339)
		}
	}
	text, err := with(status, "conditions", conditions)
	if err != nil {
		return nil, err
	}
	return with(whole, "status", json.RawMessage(text))
}

func without(key string) func(fields) ([]byte, error) {
	return func(whole fields) ([]byte, error) {
		delete(whole, key)
		return json.Marshal(whole)
	}
}

func with(all fields, key string, value any) (text []byte, err error) {
	if all[key], err = json.Marshal(value); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}
