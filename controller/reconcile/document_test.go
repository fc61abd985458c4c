package reconcile

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
)

// documents is the discovery of an API server with one OpenAPI document.
type documents struct {
	discovery.DiscoveryInterface
	openapi.Client
	url, text string
	reads     int
}

func (d *documents) OpenAPIV3() openapi.Client { return d }

func (d *documents) Paths() (map[string]openapi.GroupVersion, error) {
	return map[string]openapi.GroupVersion{"apis/multicluster.x-k8s.io/v1beta1": d}, nil
}

func (d *documents) Schema(string) ([]byte, error) {
	d.reads++
	return []byte(d.text), nil
}

func (d *documents) ServerRelativeURL() string { return d.url }

// A document is read again when its hash has changed, or if the server lists none.
func TestAnUnchangedDocumentIsReadOnce(t *testing.T) {
	const kind = `"x":{"properties":{"spec":{"properties":{"ips":{"maxItems":%d}}}},"x-kubernetes-group-version-kind":[{"kind":"ServiceImport","version":"v1beta1"}]}`
	server, seen := &documents{}, described{}
	for i, c := range []struct {
		url              string
		ips, reads, want int
	}{{"/a?hash=1", 2, 1, 2}, {"/a?hash=1", 3, 1, 2}, {"/a?hash=2", 3, 2, 3}, {"/a", 4, 3, 4}, {"/a", 5, 4, 5}} {
		server.url, server.text = c.url, fmt.Sprintf(`{"components":{"schemas":{`+kind+`}}}`, c.ips)
		if crd, err := seen.discover(server, false); err != nil || crd.MaxIPs != c.want || server.reads != c.reads {
			t.Errorf("look %d: %d addresses, %d reads, %v; want %d, %d", i, crd.MaxIPs, server.reads, err, c.want, c.reads)
		}
	}
	if _, err := seen.discover(server, true); !errors.Is(err, ErrNoExportCRD) {
		t.Errorf("without ServiceExports: %v", err)
	}
}
