// Package badobjects has objects that an API server accepts from a user with permission to write them in one namespace, and that
// cost a program which watches all namespaces much more than other objects do. Tests create them beside good ones: those must stay
// as they are, and changes of them must be seen as soon as before.
package badobjects

import (
	"context"
	"fmt"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// Object is a bad object, with the Service or headless import that makes it count.
type Object struct {
	Name    string // a sentence for a test's name
	Objects []client.Object
	// Status is a merge patch of the first object's status. It is sent as it is, as no Go type holds it.
	Status string
}

// All are the bad objects, for one namespace. Their own names begin with "bad-".
func All(namespace string) []Object {
	return []Object{
		{
			Name:    "a status with a time that the CRD's schema accepts and metav1.Time does not",
			Objects: []client.Object{serviceImport(namespace, "bad-time", mcsv1beta1.ClusterSetIP, 1)},
			Status:  `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"A","message":"","lastTransitionTime":"2020-01-01t00:00:00z"}]}}`,
		},
		{
			Name:    "an EndpointSlice of 1000 endpoints and 8000 ports",
			Objects: []client.Object{serviceImport(namespace, "bad-wide", mcsv1beta1.Headless, 0), Slice(namespace, "bad-wide", "bad-wide", 1000, 8000)},
		},
		{
			Name:    "an import of 20000 ports with invalid names",
			Objects: []client.Object{serviceImport(namespace, "bad-ports", mcsv1beta1.ClusterSetIP, 20000)},
		},
		{
			Name:    "an import with a port name of 100 kB",
			Objects: []client.Object{longName(namespace, "bad-long")},
		},
		{
			Name:    "an EndpointSlice with 15000 long port names",
			Objects: []client.Object{serviceImport(namespace, "bad-names", mcsv1beta1.Headless, 0), longNames(Slice(namespace, "bad-names", "bad-names", 1, 15000))},
		},
	}
}

// serviceImport is one with as many ports of invalid names.
func serviceImport(namespace, name string, kind mcsv1beta1.ServiceImportType, ports int) *mcsv1beta1.ServiceImport {
	i := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: mcsv1beta1.ServiceImportSpec{Type: kind, Ports: []mcsv1beta1.ServicePort{}}}
	if kind == mcsv1beta1.ClusterSetIP {
		i.Spec.IPs = []string{"10.6.6.6"}
	}
	for n := range ports {
		i.Spec.Ports = append(i.Spec.Ports, mcsv1beta1.ServicePort{Name: fmt.Sprintf("A%05d", n), Port: 1})
	}
	return i
}

func longName(namespace, name string) *mcsv1beta1.ServiceImport {
	i := serviceImport(namespace, name, mcsv1beta1.ClusterSetIP, 1)
	i.Spec.Ports[0].Name = strings.Repeat("A", 100_000)
	return i
}

// Slice is an EndpointSlice for an import, of a cluster "c".
func Slice(namespace, name, service string, endpoints, ports int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		Labels: map[string]string{mcsv1beta1.LabelServiceName: service, mcsv1beta1.LabelSourceCluster: "c"}}}
	for n := range endpoints {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 1+n/62500, n/250%250, n%250+1)}})
	}
	for n := range ports {
		portName, number := fmt.Sprint("p", n), int32(n%65535+1)
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &portName, Port: &number})
	}
	return s
}

// longNames gives the ports names that no Service can have, as they are one letter too long.
func longNames(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	for n := range s.Ports {
		name := fmt.Sprintf("%s%06d", strings.Repeat("x", 57), n)
		s.Ports[n].Name = &name
	}
	return s
}

// Scheme is that of a client which writes the objects.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	gv := schema.GroupVersion{Group: mcsv1beta1.GroupName, Version: "v1beta1"}
	s.AddKnownTypes(gv, &mcsv1beta1.ServiceImport{}, &mcsv1beta1.ServiceImportList{})
	metav1.AddToGroupVersion(s, gv)
	if err := discoveryv1.AddToScheme(s); err != nil {
		panic(err)
	}
	return s
}

// Create creates the objects. The client's scheme is Scheme, or has its types.
func (o Object) Create(ctx context.Context, c client.Client) error {
	for _, object := range o.Objects {
		made := object.DeepCopyObject().(client.Object) // the client writes the server's answer into it
		if err := c.Create(ctx, made); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	if o.Status == "" {
		return nil
	}
	// Without an answer to decode: metav1.Time cannot.
	patch := client.RawPatch(types.MergePatchType, []byte(o.Status))
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.Objects[0].GetNamespace(), Name: o.Objects[0].GetName()}}
	target.SetGroupVersionKind(schema.GroupVersionKind{Group: mcsv1beta1.GroupName, Version: "v1beta1", Kind: "ServiceImport"})
	if err := c.Status().Patch(ctx, target, patch); err != nil {
		return fmt.Errorf("patch the status of %s: %w", target.Name, err)
	}
	return nil
}

// Delete deletes the objects that exist.
func (o Object) Delete(ctx context.Context, c client.Client) error {
	for _, object := range o.Objects {
		if err := client.IgnoreNotFound(c.Delete(ctx, object.DeepCopyObject().(client.Object))); err != nil {
			return fmt.Errorf("delete %s: %w", object.GetName(), err)
		}
	}
	return nil
}
