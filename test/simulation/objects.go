package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/world"
)

// namespace is that of names without one.
const namespace = "shop"

// kinds are those that steps name.
var kinds = map[string]func() client.Object{
	"namespace":     func() client.Object { return new(corev1.Namespace) },
	"service":       func() client.Object { return new(corev1.Service) },
	"lease":         func() client.Object { return new(coordinationv1.Lease) },
	"secret":        func() client.Object { return new(corev1.Secret) },
	"endpointslice": func() client.Object { return new(discoveryv1.EndpointSlice) },
	"serviceexport": func() client.Object { return new(mcsv1beta1.ServiceExport) },
	"serviceimport": func() client.Object { return new(mcsv1beta1.ServiceImport) },
}

// keyOf reads a name such as "foo" or "depot/foo".
func keyOf(name string) types.NamespacedName {
	in, of, given := strings.Cut(name, "/")
	if !given {
		in, of = namespace, name
	}
	return types.NamespacedName{Namespace: in, Name: of}
}

// named returns an object of a kind and a name. "foo.member1.*" is the first one whose name begins so.
func (c *cluster) named(words []string) (client.Object, error) {
	if kinds[words[0]] == nil {
		return nil, fmt.Errorf("%q is no kind: want one of %s", words[0], strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	object, key := kinds[words[0]](), keyOf(words[1])
	if words[0] == "namespace" {
		key = types.NamespacedName{Name: words[1]}
	}
	if begin, is := strings.CutSuffix(key.Name, "*"); is {
		all := slices.DeleteFunc(c.server.Objects(), func(o client.Object) bool {
			return reflect.TypeOf(o) != reflect.TypeOf(object) || o.GetNamespace() != key.Namespace || !strings.HasPrefix(o.GetName(), begin)
		})
		if len(all) == 0 {
			return nil, fmt.Errorf("there is no %s %s: %w", words[0], words[1], errMoot)
		}
		key.Name = all[0].GetName()
	}
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	return object, nil
}

// options splits words such as "type=NodePort", of which the keys are known, from others.
func options(words []string, known ...string) (rest []string, of map[string]string, err error) {
	of = map[string]string{}
	for _, word := range words {
		key, value, is := strings.Cut(word, "=")
		switch {
		case !is || strings.ContainsAny(key, ".:/"):
			rest = append(rest, word)
		case !slices.Contains(known, key):
			err = errors.Join(err, fmt.Errorf("%q is no option: want some of %s", word, strings.Join(known, "=, ")+"="))
		default:
			of[key] = value
		}
	}
	return rest, of, err
}

// oneOf wants one of some words.
func oneOf(words []string, known ...string) (string, error) {
	is := strings.Join(words, " ")
	if !slices.Contains(known, is) {
		return "", fmt.Errorf("%q: want one of %s", is, strings.Join(known, ", "))
	}
	return is, nil
}

// service makes a Service with endpoints, or gives it another spec and other endpoints: "service foo 80 10.9.1.1", "service foo web:80
// dns:53/UDP type=NodePort affinity=ClientIP internal=Local 10.9.1.1". A number alone is the port http, and ":80" has no name. clusterip=None
// makes it headless. What cannot be changed is deleted and created, as people do it.
func (s *story) service(c *cluster, words []string) error {
	words, of, err := options(words, "type", "affinity", "internal", "distribution", "clusterip")
	if err == nil && len(words) == 0 {
		err = errors.New("want a name, ports and endpoints")
	}
	for option, known := range map[string][]string{
		"type": {"", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}, "affinity": {"", "None", "ClientIP"}, "internal": {"", "Cluster", "Local"},
	} {
		_, wrong := oneOf([]string{of[option]}, known...)
		err = errors.Join(err, wrong)
	}
	if err != nil {
		return err
	}
	key := keyOf(words[0])
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	var endpoints []string
	for _, word := range words[1:] {
		if isEndpoint(word) {
			endpoints = append(endpoints, word)
			continue
		}
		port, err := portOf(word)
		if err != nil {
			return err
		}
		svc.Spec.Ports = append(svc.Spec.Ports, port)
	}
	svc.Spec.Type = corev1.ServiceType(of["type"])
	svc.Spec.ClusterIP = of["clusterip"]
	svc.Spec.SessionAffinity = corev1.ServiceAffinity(of["affinity"])
	if policy := corev1.ServiceInternalTrafficPolicy(of["internal"]); policy != "" {
		svc.Spec.InternalTrafficPolicy = &policy
	}
	if distribution := of["distribution"]; distribution != "" {
		svc.Spec.TrafficDistribution = &distribution
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		svc.Spec.ExternalName = "example.org"
	}
	if err := c.apply(s.ctx, svc); err != nil || svc.Spec.Type == corev1.ServiceTypeExternalName {
		return err
	}
	return s.putSlice(c, svc, "", endpoints)
}

// apply creates a Service, or gives the one of its name the spec.
func (c *cluster) apply(ctx context.Context, svc *corev1.Service) error {
	live := new(corev1.Service)
	err := c.admin.Get(ctx, client.ObjectKeyFromObject(svc), live)
	switch {
	case apierrors.IsNotFound(err):
		return c.admin.Create(ctx, svc)
	case err != nil:
		return err
	case (live.Spec.ClusterIP == corev1.ClusterIPNone) != (svc.Spec.ClusterIP == corev1.ClusterIPNone) || live.Spec.Type == corev1.ServiceTypeExternalName:
		return errors.Join(c.admin.Delete(ctx, live), c.admin.Create(ctx, svc))
	}
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.ResourceVersion = live.Spec.ClusterIP, live.Spec.ClusterIPs, live.ResourceVersion
	svc.Labels, svc.Annotations, svc.Finalizers = live.Labels, live.Annotations, live.Finalizers
	if live.Labels[mcs.LabelNativeOf] != "" { // kubectl apply leaves this mark: it is the user's now
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, corev1.LastAppliedConfigAnnotation, "{}")
	}
	return c.admin.Update(ctx, svc)
}

func isEndpoint(word string) bool {
	address, _, _ := strings.Cut(word, "=")
	address, _, _ = strings.Cut(address, "..")
	_, err := netip.ParseAddr(address)
	return err == nil
}

// portOf reads "80", ":80", "web:80" and "dns:53/UDP".
func portOf(word string) (corev1.ServicePort, error) {
	text, protocol, _ := strings.Cut(word, "/")
	name, number, given := strings.Cut(text, ":")
	if !given {
		name, number = "http", text
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if _, wrong := oneOf([]string{protocol}, "", "TCP", "UDP", "SCTP"); err != nil || wrong != nil {
		return corev1.ServicePort{}, fmt.Errorf("%q is no port, such as 80, web:80 or dns:53/UDP", word)
	}
	return corev1.ServicePort{Name: name, Port: int32(n), Protocol: cmp.Or(corev1.Protocol(protocol), corev1.ProtocolTCP)}, nil
}

// endpoints replaces the endpoints of a Service, as Kubernetes' controller does when pods come and go: "endpoints foo 10.9.1.3 10.9.1.4=unready
// 10.9.1.5=terminating", where the last one still serves. "10.9.1.1..120" are 120 of them, and "slice=two" another EndpointSlice.
func (s *story) endpoints(c *cluster, words []string) error {
	words, of, err := options(words, "slice")
	if err != nil || len(words) == 0 {
		return cmp.Or(err, errors.New("want a name, and endpoints"))
	}
	svc := new(corev1.Service)
	if err := c.admin.Get(s.ctx, keyOf(words[0]), svc); err != nil {
		return err
	}
	return s.putSlice(c, svc, of["slice"], words[1:])
}

func (s *story) putSlice(c *cluster, svc *corev1.Service, suffix string, words []string) error {
	slice := world.Endpoints(svc, suffix)
	slice.Namespace = svc.Namespace
	slice.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(svc, corev1.SchemeGroupVersion.WithKind("Service"))}
	for _, word := range words {
		if err := addEndpoints(slice, word); err != nil {
			return err
		}
	}
	for _, e := range slice.Endpoints {
		if clusterOfPod(netip.MustParseAddr(e.Addresses[0])) != c.id {
			return fmt.Errorf("%s is not an address of a pod in %s: these are 10.9.%d.0 to 10.9.%d.255, and fd00::%d", e.Addresses[0], c.id, c.number, c.number, c.number)
		}
	}
	err := c.admin.Create(s.ctx, slice)
	if apierrors.IsAlreadyExists(err) {
		err = c.admin.Update(s.ctx, slice)
	}
	return err
}

func addEndpoints(slice *discoveryv1.EndpointSlice, word string) error {
	text, state, _ := strings.Cut(word, "=")
	if _, err := oneOf([]string{state}, "", "unready", "terminating"); err != nil {
		return err
	}
	ready, ends := state == "", state == "terminating"
	first, last, many := strings.Cut(text, "..")
	address, err := netip.ParseAddr(first)
	if err != nil {
		return err
	}
	count := 1
	if many {
		if count, err = strconv.Atoi(last); err != nil || count < 1 || count > 1000 {
			return fmt.Errorf("%q: want a number of endpoints from 1 to 1000 behind the first address", word)
		}
	}
	if slice.AddressType = discoveryv1.AddressTypeIPv4; address.Is6() {
		slice.AddressType = discoveryv1.AddressTypeIPv6
	}
	for range count {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address.String()}, Hostname: new(fmt.Sprintf("pod-%d", len(slice.Endpoints))), NodeName: new("node-1"), Zone: new("zone-a"),
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: new(ready || ends), Terminating: &ends},
		})
		address = address.Next()
	}
	return nil
}

// export exports Services, with exported labels and annotations if there are any: "export foo bar label=team:blue annotation=note:x".
func (s *story) export(c *cluster, words []string) error {
	names, of, err := options(words, "label", "annotation")
	for option, mark := range of {
		if !strings.Contains(mark, ":") {
			err = errors.Join(err, fmt.Errorf("%q: want %s=KEY:VALUE", option+"="+mark, option))
		}
	}
	if err != nil {
		return err
	}
	return each(names, func(name string) error {
		key := keyOf(name)
		e := world.Export(key.Name)
		e.Namespace = key.Namespace
		if label, value, given := strings.Cut(of["label"], ":"); given {
			e.Spec.ExportedLabels = map[string]string{label: value}
		}
		if label, value, given := strings.Cut(of["annotation"], ":"); given {
			e.Spec.ExportedAnnotations = map[string]string{label: value}
		}
		err := c.admin.Create(s.ctx, e)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		spec, err := json.Marshal(e.Spec)
		if err != nil {
			return err
		}
		return c.admin.Patch(s.ctx, e, client.RawPatch(types.JSONPatchType, fmt.Appendf(nil, `[{"op": "add", "path": "/spec", "value": %s}]`, spec)))
	})
}

// create makes any object: "create endpointslice foo-1 {...}", "create namespace depot".
func (s *story) create(c *cluster, words []string) error {
	object, err := c.named(words)
	if err != nil {
		return err
	}
	if text := strings.Join(words[2:], " "); text != "" {
		if err := json.Unmarshal([]byte(text), object); err != nil {
			return fmt.Errorf("the content of %s: %w", words[1], err)
		}
	}
	return c.admin.Create(s.ctx, object)
}

// delete deletes an object: "delete serviceexport foo", "delete service foo cascade=orphan".
func (s *story) delete(c *cluster, words []string) error {
	words, of, err := options(words, "cascade")
	if err != nil {
		return err
	}
	object, err := c.named(words)
	if err != nil {
		return err
	}
	how, err := oneOf([]string{cmp.Or(of["cascade"], "background")}, "background", "orphan", "foreground")
	if err != nil {
		return err
	}
	policy := metav1.DeletionPropagation(strings.ToUpper(how[:1]) + how[1:])
	return c.admin.Delete(s.ctx, object, client.PropagationPolicy(policy))
}

// mark sets a label or an annotation, or removes it: "label service derived-foo app.kubernetes.io/managed-by=Helm", "annotate service foo note-".
func (s *story) mark(c *cluster, what string, words []string) error {
	object, err := c.named(words)
	if err != nil {
		return err
	}
	key, value, set := strings.Cut(words[2], "=")
	text := strconv.Quote(value)
	if !set {
		removed := false
		if key, removed = strings.CutSuffix(key, "-"); !removed {
			return fmt.Errorf("%q: want KEY=VALUE, or KEY- to remove it", words[2])
		}
		text = "null"
	}
	return c.admin.Patch(s.ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata": {%q: {%q: %s}}}`, what, key, text)))
}

// patch merges JSON into an object, or into its status: "patch serviceimport foo {"spec": {"ips": null}}", "patch serviceimport/status foo {...}".
func (s *story) patch(c *cluster, words []string) error {
	kind, sub, _ := strings.Cut(words[0], "/")
	object, err := c.named(append([]string{kind}, words[1:]...))
	if err != nil {
		return err
	}
	text := []byte(strings.Join(words[2:], " "))
	if !json.Valid(text) {
		return fmt.Errorf("%s is not JSON", text)
	}
	change := client.RawPatch(types.MergePatchType, text)
	if sub == "status" {
		return c.admin.Status().Patch(s.ctx, object, change)
	}
	return c.admin.Patch(s.ctx, object, change)
}
