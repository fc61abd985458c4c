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
	// ErrNoCRD: the API server serves no version of ServiceImport that we know.
	ErrNoCRD = errors.New("the API server does not serve ServiceImports: install the CRD of the Multi-Cluster Services API")
	// ErrNoExportCRD: it serves ServiceImports, and no ServiceExports in the same version, which a clusterset needs.
	ErrNoExportCRD = errors.New("the API server does not serve ServiceExports: install the CRD of the Multi-Cluster Services API, or run without a cluster id")
	// ErrCRDChanged: what this process was started for is no longer what the server has.
	ErrCRDChanged = errors.New("the ServiceImport CRD has changed and this process has to start again")
)

// Discover asks the API server for the version to use and for what it can hold; exports says whether ServiceExports are needed too.
// ErrNoCRD and ErrNoExportCRD are the server's answers; any other error means that there was none.
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

// resources are the names of what the server has in a group and version; none if it does not know it.
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

// capabilities come from the OpenAPI document of the group and version, the only description of a CRD's fields that every
// authenticated client may read. It is published a moment after the CRD is served: until then, ErrNoCRD.
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

// openAPI is the part of an OpenAPI v3 document that is read here.
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

// WaitForCRD asks until there is an answer. A cluster without the CRD is no error: it may come with the next member that joins.
func WaitForCRD(ctx context.Context, config *rest.Config, exports bool, every time.Duration, log logr.Logger) (observed.CRD, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return observed.CRD{}, err
	}
	said := ""
	for {
		crd, err := Discover(client, exports)
		if err == nil {
			return crd, nil
		}
		if err.Error() != said { // Once for each reason, not for each attempt.
			said = err.Error()
			log.Info("Waiting for the ServiceImport CRD", "reason", said)
		}
		select {
		case <-ctx.Done():
			return observed.CRD{}, ctx.Err()
		case <-time.After(every):
		}
	}
}

// crdWatch ends the manager when the CRD is no longer what the manager was built for: types and watches of a running manager
// cannot change. The Deployment starts the process again.
type crdWatch struct {
	client  discovery.DiscoveryInterface
	crd     observed.CRD
	exports bool
	every   time.Duration
}

// NeedLeaderElection is false: the standby has to start again as well.
func (*crdWatch) NeedLeaderElection() bool { return false }

// Start asks until the answer has been another one twice: an API server that is just starting may know no CRDs yet.
func (w *crdWatch) Start(ctx context.Context) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for different := 0; different < 2; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		switch crd, err := Discover(w.client, w.exports); {
		case err == nil && crd != w.crd, errors.Is(err, ErrNoCRD), errors.Is(err, ErrNoExportCRD):
			different++
		case err == nil:
			different = 0
		}
	}
	return fmt.Errorf("%w: it was %s", ErrCRDChanged, w.crd.APIVersion)
}
