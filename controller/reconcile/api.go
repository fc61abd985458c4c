package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

var (
	// ErrNoCRD: the API server serves no version of ServiceImport that the controller supports.
	ErrNoCRD = errors.New("the API server does not serve ServiceImports: install the CRD of the Multi-Cluster Services API")
	// ErrNoExportCRD: the API server serves ServiceImports, but no ServiceExports in the same
	// version. A clusterset needs both.
	ErrNoExportCRD = errors.New("the API server does not serve ServiceExports: install the CRD of the Multi-Cluster Services API, or run without a cluster id")
	// ErrCRDChanged: the server's CRD is no longer the one that this process was started for.
	ErrCRDChanged = errors.New("the ServiceImport CRD has changed, so this process exits to start again")
)

// Discover asks the API server for the version to use and for the fields of that version. exports
// requires ServiceExports too. ErrNoCRD and ErrNoExportCRD are answers of the server. Any other
// error means that there was no answer.
func Discover(client discovery.DiscoveryInterface, exports bool) (observed.CRD, error) {
	return new(described).discover(client, exports)
}

// described is what the last OpenAPI document contains that was read.
type described struct {
	url     string // with the hash of the document
	crd     observed.CRD
	exports bool
}

// discover reads the OpenAPI document of the version to use, the only description of a CRD's fields that every
// authenticated client can read. The server publishes it a moment after it serves the CRD. A document is read again only
// if the server lists it with another hash.
func (d *described) discover(client discovery.DiscoveryInterface, exports bool) (observed.CRD, error) {
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return observed.CRD{}, fmt.Errorf("list the OpenAPI documents: %w", err)
	}
	for _, gv := range mcs.Versions {
		document, published := paths["apis/"+gv.String()]
		if !published {
			continue
		}
		if url := document.ServerRelativeURL(); url != d.url || !strings.Contains(url, "hash=") {
			text, err := document.Schema(runtime.ContentTypeJSON)
			if err != nil {
				return observed.CRD{}, fmt.Errorf("read the OpenAPI document of %s: %w", gv, err)
			}
			if *d, err = readDocument(text, gv); err != nil {
				return observed.CRD{}, err
			}
			d.url = url
		}
		switch {
		case d.crd.APIVersion == "": // another kind of that version
		case exports && !d.exports:
			return observed.CRD{}, ErrNoExportCRD
		default:
			return d.crd, nil
		}
	}
	return observed.CRD{}, ErrNoCRD
}

// openAPI is the part of an OpenAPI v3 document that is used.
type openAPI struct {
	Components struct {
		Schemas map[string]openAPISchema `json:"schemas"`
	} `json:"components"`
}

type openAPISchema struct {
	Properties map[string]openAPISchema `json:"properties"`
	MaxItems   *int                     `json:"maxItems"`
	Kinds      []struct {
		Kind    string `json:"kind"`
		Version string `json:"version"`
	} `json:"x-kubernetes-group-version-kind"`
}

func readDocument(text []byte, gv schema.GroupVersion) (d described, err error) {
	var document openAPI
	if err := json.Unmarshal(text, &document); err != nil {
		return d, fmt.Errorf("read the OpenAPI document of %s: %w", gv, err)
	}
	for _, object := range document.Components.Schemas {
		if len(object.Kinds) != 1 || object.Kinds[0].Version != gv.Version {
			continue
		}
		switch object.Kinds[0].Kind {
		case mcsv1beta1.ServiceExportKindName:
			d.exports = true
		case mcsv1beta1.ServiceImportKindName:
			spec, status := object.Properties["spec"].Properties, object.Properties["status"].Properties
			d.crd = observed.CRD{APIVersion: gv.String(), MaxIPs: 2}
			if most := spec["ips"].MaxItems; most != nil {
				d.crd.MaxIPs = *most
			}
			_, d.crd.IPFamilies = spec["ipFamilies"]
			_, d.crd.Policies = spec["internalTrafficPolicy"]
			_, d.crd.Conditions = status["conditions"]
			_, d.crd.EndpointSliceObjects = status["endpointSliceObjects"]
		}
	}
	return d, nil
}

// WaitForCRD repeats Discover until it succeeds. A cluster without the CRD is not an error: the CRD
// may be installed with the next member that joins.
func WaitForCRD(ctx context.Context, config *rest.Config, exports bool, every time.Duration, log logr.Logger) (observed.CRD, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return observed.CRD{}, err
	}
	var crd observed.CRD
	err = await(ctx, every, log, "waiting for the ServiceImport CRD", func() (failed error) {
		crd, failed = Discover(client, exports)
		return failed
	})
	return crd, err
}

// crdWatch stops the manager when the CRD is no longer the one that the manager was built for:
// types and watches of a running manager cannot change. The Deployment starts the process again.
type crdWatch struct {
	client  discovery.DiscoveryInterface
	crd     observed.CRD
	exports bool
	every   time.Duration
}

// NeedLeaderElection returns false: the standby has to restart as well.
func (*crdWatch) NeedLeaderElection() bool { return false }

// Start returns an error when the answer has differed twice: an API server that is just starting
// may not know any CRDs yet.
func (w *crdWatch) Start(ctx context.Context) error {
	var seen described
	different := 0
	return poll(ctx, w.every, false, func(context.Context) (bool, error) {
		switch crd, err := seen.discover(w.client, w.exports); {
		case err == nil && crd != w.crd, errors.Is(err, ErrNoCRD), errors.Is(err, ErrNoExportCRD):
			different++
		case err == nil:
			different = 0
		}
		if different < 2 {
			return false, nil
		}
		return true, fmt.Errorf("%w: it was %s", ErrCRDChanged, w.crd.APIVersion)
	})
}
