package peers

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/lenient"
)

// A short answer can need hundreds of times its length when it is decoded.
func TestAnswersOfManyPartsAreRefused(t *testing.T) {
	list := func(kind, items string) []byte {
		return []byte(`{"kind":"` + kind + `","apiVersion":"x/v1","metadata":{"resourceVersion":"1"},"items":[` + items + `]}`)
	}
	slices := boundedSerializer{NegotiatedSerializer: codecs.WithoutConversion()}
	exports := boundedSerializer{NegotiatedSerializer: lenient.Serializer[serviceExport](mcsv1beta1.ServiceExportKindName)}
	for _, test := range []struct {
		name       string
		serializer runtime.NegotiatedSerializer
		mediaType  string
		data       []byte
	}{
		{"empty slices", slices, runtime.ContentTypeJSON, list("EndpointSliceList", strings.Repeat("{},", 500_000)+"{}")},
		{"slices that are null", slices, runtime.ContentTypeJSON, list("EndpointSliceList", strings.Repeat("null,", 500_000)+"null")},
		{"empty slices, protobuf", slices, runtime.ContentTypeProtobuf, inProtobuf(t, &discoveryv1.EndpointSliceList{Items: make([]discoveryv1.EndpointSlice, 500_000)})},
		{"a slice of empty endpoints", slices, runtime.ContentTypeJSON, list("EndpointSliceList", `{"endpoints":[`+strings.Repeat("{},", 1_000_000)+`{}]}`)},
		{"a slice of empty endpoints, protobuf", slices, runtime.ContentTypeProtobuf,
			inProtobuf(t, &discoveryv1.EndpointSlice{Endpoints: make([]discoveryv1.Endpoint, 1_000_000)})},
		{"an endpoint of empty addresses, protobuf", slices, runtime.ContentTypeProtobuf,
			inProtobuf(t, &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{Addresses: make([]string, 6_000_000)}}})},
		{"empty exports", exports, runtime.ContentTypeJSON, list("ServiceExportList", strings.Repeat("{},", 500_000)+"{}")},
		{"exports that are numbers", exports, runtime.ContentTypeJSON, list("ServiceExportList", strings.Repeat("0,", 500_000)+"0")},
	} {
		if len(test.data) > maxEvent {
			t.Errorf("%s: %d bytes would be too long anyway", test.name, len(test.data))
		}
		if _, err := decoded(t, test.serializer, test.mediaType, test.data); !errors.Is(err, errTooHeavy) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// A hundred thousand endpoints are far more than a cluster exports, and still below the limit.
func TestLargeAnswersAreTaken(t *testing.T) {
	const count, each = 1000, 100
	list := &discoveryv1.EndpointSliceList{TypeMeta: metav1.TypeMeta{Kind: "EndpointSliceList", APIVersion: "discovery.k8s.io/v1"}}
	for i := range count {
		slice := discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: fmt.Sprintf("cart-%d, with a comma and a \"quote", i), Labels: map[string]string{"a": "1", "b": "2", "c": "3"},
		}}
		for k := range each {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{fmt.Sprintf("10.%d.%d.%d", i>>8, i&0xff, k)}, Hostname: new(fmt.Sprint("cart-", k)), NodeName: new("node"), Zone: new("zone"),
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			})
		}
		list.Items = append(list.Items, slice)
	}
	serializer := boundedSerializer{NegotiatedSerializer: codecs.WithoutConversion()}
	for _, mediaType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		data := encoded(t, mediaType, list)
		got, err := decoded(t, serializer, mediaType, data)
		if err != nil {
			t.Errorf("%s of %d bytes: %v", mediaType, len(data), err)
			continue
		}
		if items := got.(*discoveryv1.EndpointSliceList).Items; len(items) != count || len(items[0].Endpoints) != each {
			t.Errorf("%s: %d items", mediaType, len(items))
		}
	}
}

// Answers are accepted up to the limit.
func TestAnswersAreTakenUpToTheLimit(t *testing.T) {
	const most = maxWeight/weightItem - 10 // the list itself has some fields
	serializer := boundedSerializer{NegotiatedSerializer: lenient.Serializer[serviceExport](mcsv1beta1.ServiceExportKindName)}
	for items, want := range map[int]error{most: nil, most + most/100: errTooHeavy} {
		data := []byte(`{"kind":"ServiceExportList","apiVersion":"x/v1","metadata":{"resourceVersion":"1"},"items":[` + strings.Repeat("{},", items-2) + `{}]}`)
		if _, err := decoded(t, serializer, runtime.ContentTypeJSON, data); !errors.Is(err, want) {
			t.Errorf("%d items: %v; want %v", items, err, want)
		}
	}
}

func decoded(t *testing.T, s runtime.NegotiatedSerializer, mediaType string, data []byte) (runtime.Object, error) {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatal("no decoder for " + mediaType)
	}
	return runtime.Decode(s.DecoderToVersion(info.Serializer, nil), data)
}

func inProtobuf(t *testing.T, object runtime.Object) []byte {
	t.Helper()
	return encoded(t, runtime.ContentTypeProtobuf, object)
}

func encoded(t *testing.T, mediaType string, object runtime.Object) []byte {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatal("no encoder for " + mediaType)
	}
	var data bytes.Buffer
	if err := codecs.EncoderForVersion(info.Serializer, discoveryv1.SchemeGroupVersion).Encode(object, &data); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}
