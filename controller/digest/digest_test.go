package digest

import (
	"reflect"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset-dns/multicluster/controller/preference"
)

// A slice without its endpoints is compared and counted as before, also on standby.
func TestKeep(t *testing.T) {
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	for i := range 12 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(i > 0), Serving: new(i > 0)},
		})
	}
	standby := slice.DeepCopy()
	standby.Labels = map[string]string{}
	reserve := standby.DeepCopy()
	preference.Disconnect(standby, preference.Off)
	preference.Disconnect(reserve, preference.Reserve)
	for what, whole := range map[string]*discoveryv1.EndpointSlice{"connected": slice, "on standby": standby, "in reserve": reserve, "empty": {}} {
		kept := whole.DeepCopy()
		Keep(kept)
		all, ready := Count(kept)
		if wantAll, wantReady := Count(whole); all != wantAll || ready != wantReady || all != len(whole.Endpoints) || all > 0 && ready != 11 {
			t.Errorf("%s: %d of %d are ready", what, ready, all)
		}
		if len(kept.Endpoints) > 0 || Of(kept) != Of(whole) {
			t.Errorf("%s: it is not the same without its endpoints", what)
		}
	}
	if Of(slice) == Of(standby) {
		t.Error("a slice on standby is the same as a connected one")
	}
}

// Each field of an endpoint and of a port is a part of the digest, also those of later releases of
// Kubernetes.
func TestEachFieldCounts(t *testing.T) {
	whole := func() *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{}}, Ports: []discoveryv1.EndpointPort{{}}}
	}
	count := 0
	var set func(path string, of func(*discoveryv1.EndpointSlice) reflect.Value)
	set = func(path string, of func(*discoveryv1.EndpointSlice) reflect.Value) {
		slice := whole()
		field := of(slice)
		switch field.Kind() {
		case reflect.Struct:
			for i := range field.NumField() {
				set(path+"."+field.Type().Field(i).Name, func(s *discoveryv1.EndpointSlice) reflect.Value { return of(s).Field(i) })
			}
			return
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
			set(path, func(s *discoveryv1.EndpointSlice) reflect.Value {
				pointer := of(s)
				pointer.Set(reflect.New(pointer.Type().Elem()))
				return pointer.Elem()
			})
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		case reflect.Map:
			field.Set(reflect.MakeMap(field.Type()))
			field.SetMapIndex(reflect.New(field.Type().Key()).Elem(), reflect.New(field.Type().Elem()).Elem())
		case reflect.String:
			field.SetString("text")
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Int32:
			field.SetInt(1)
		default:
			t.Fatalf("%s is a %s: add the kind to this test", path, field.Kind())
		}
		count++
		if Of(whole()) == Of(slice) {
			t.Errorf("%s is not a part of the digest", path)
		}
	}
	set("endpoint", func(s *discoveryv1.EndpointSlice) reflect.Value { return reflect.ValueOf(&s.Endpoints[0]).Elem() })
	set("port", func(s *discoveryv1.EndpointSlice) reflect.Value { return reflect.ValueOf(&s.Ports[0]).Elem() })
	if count < 20 {
		t.Errorf("%d fields were set", count)
	}
}

// Otherwise each pass would write a slice that has nil where the API server has an empty list.
func TestNilIsEmpty(t *testing.T) {
	empty := &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{}, Ports: []discoveryv1.EndpointPort{}}
	if Of(&discoveryv1.EndpointSlice{}) != Of(empty) {
		t.Error("no endpoints and an empty list of them differ")
	}
}
