package watch

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/lenient"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/plugin/index"
)

// serviceImport contains the fields of a ServiceImport that answers depend on. These fields are
// equal in all versions of the API (mcs-api v0.5.2). Nothing else is decoded, and an import that
// cannot be decoded does not affect others: the schema of the CRD accepts times that metav1.Time
// does not. EndpointSlices cannot have that fault: the API server decodes them into its own types
// when they are written, and sends them as protobuf.
type serviceImport struct {
	lenient.Base
	Spec struct {
		Type  mcsv1beta1.ServiceImportType `json:"type"`
		IPs   []string                     `json:"ips"`
		Ports []importPort                 `json:"ports"`
	} `json:"spec"`
}

type importPort struct {
	Name     string          `json:"name"`
	Protocol corev1.Protocol `json:"protocol"`
	Port     int32           `json:"port"`
}

// DeepCopyObject implements runtime.Object. No code edits an import, so the copy shares its lists.
func (i *serviceImport) DeepCopyObject() runtime.Object {
	c := *i
	return &c
}

// trimImport keeps the parts of a ServiceImport that its answers depend on.
func trimImport(in *serviceImport) *trimmed[index.Service] {
	t := &trimmed[index.Service]{head: headOf(in)}
	service := index.Service{Key: index.NewKey(in.Namespace, in.Name)}
	if in.Err != nil || in.Name == "" {
		t.problem("object", "the object cannot be decoded: %s", clip(errorText(in.Err)))
		return t
	}
	switch in.Spec.Type {
	case mcsv1beta1.ClusterSetIP:
	case mcsv1beta1.Headless:
		service.Type = index.Headless
	default:
		t.problem("type", "spec.type is %q, want ClusterSetIP or Headless", clip(string(in.Spec.Type)))
		return t
	}
	if !isLabel(in.Name) {
		t.problem("name", "metadata.name must be one DNS label to be resolvable: lower case letters, digits and dashes, at most 63")
		return t
	}
	t.value = &service
	if service.Type == index.Headless {
		service.Managed = ownership.OfImport(in)
		return t // its IPs and ports do not count: the endpoints have their own
	}
	for _, text := range in.Spec.IPs[:t.atMost("ips", "spec.ips", len(in.Spec.IPs), maxIPs)] {
		t.keepIP(&service.IPs, text)
	}
	for _, p := range in.Spec.Ports[:t.atMost("ports", "spec.ports", len(in.Spec.Ports), maxPorts)] {
		t.keepPort(&service.Ports, p.Name, p.Protocol, p.Port)
	}
	return t
}

func errorText(err error) string {
	if err == nil {
		return "it has no name"
	}
	return err.Error()
}

// keepIP keeps an address that a Service can have. The controller refuses the same addresses for
// derived Services. Other addresses would send a client to itself, or to its own link.
func (t *trimmed[T]) keepIP(ips *[]netip.Addr, text string) {
	ip, err := parseIP(text)
	switch {
	case err != nil:
		t.problem("ip", "spec.ips has %q, want an IP address", clip(text))
	case ip.IsUnspecified() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast():
		t.problem("ip", "spec.ips has %s, want no unspecified, loopback, link-local or multicast address", ip)
	default:
		*ips = append(*ips, ip)
	}
}
