package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	for _, gv := range mcs.Versions {
		served, err := resources(client, gv)
		switch {
		case err != nil:
			return observed.CRD{}, fmt.Errorf("discover %s: %w", gv, err)
		case !slices.Contains(served, mcsv1beta1.ServiceImportPluralName):
		case exports && !slices.Contains(served, mcsv1beta1.ServiceExportPluralName):
			return observed.CRD{}, ErrNoExportCRD
		default:
			return capabilities(client, gv)
		}
	}
	return observed.CRD{}, ErrNoCRD
}

// resources returns the names of the resources in a group and version, none if the server does not
// have it.
func resources(client discovery.DiscoveryInterface, gv schema.GroupVersion) ([]string, error) {
	list, err := client.ServerResourcesForGroupVersion(gv.String())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range list.APIResources {
		names = append(names, r.Name)
	}
	return names, nil
}

// capabilities reads the OpenAPI document of the group and version, the only description of a CRD's
// fields that every authenticated client can read. The server publishes it a moment after it serves
// the CRD. Until then the result is ErrNoCRD.
func capabilities(client discovery.DiscoveryInterface, gv schema.GroupVersion) (observed.CRD, error) {
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return observed.CRD{}, fmt.Errorf("list the OpenAPI documents: %w", err)
	}
	document, ok := paths["apis/"+gv.String()]
	if !ok {
		return observed.CRD{}, ErrNoCRD
	}
	text, err := document.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return observed.CRD{}, fmt.Errorf("read the OpenAPI document of %s: %w", gv, err)
	}
	return readCapabilities(text, gv)
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

func readCapabilities(text []byte, gv schema.GroupVersion) (observed.CRD, error) {
	var document openAPI
	if err := json.Unmarshal(text, &document); err != nil {
		return observed.CRD{}, fmt.Errorf("read the OpenAPI document of %s: %w", gv, err)
	}
	for _, object := range document.Components.Schemas {
		if len(object.Kinds) != 1 || object.Kinds[0].Kind != mcsv1beta1.ServiceImportKindName || object.Kinds[0].Version != gv.Version {
			continue
		}
		spec, status := object.Properties["spec"].Properties, object.Properties["status"].Properties
		crd := observed.CRD{APIVersion: gv.String(), MaxIPs: 2}
		if most := spec["ips"].MaxItems; most != nil {
			crd.MaxIPs = *most
		}
		_, crd.IPFamilies = spec["ipFamilies"]
		_, crd.Policies = spec["internalTrafficPolicy"]
		_, crd.Conditions = status["conditions"]
		_, crd.EndpointSliceObjects = status["endpointSliceObjects"]
		return crd, nil
	}
	return observed.CRD{}, ErrNoCRD
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
	different := 0
	return poll(ctx, w.every, false, func(context.Context) (bool, error) {
		switch crd, err := Discover(w.client, w.exports); {
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
