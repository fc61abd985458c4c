package peers

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/lenient"
	"github.com/clusterset-dns/multicluster/internal/reflector"
)

// followProfiles returns a Follower of the ClusterProfiles. v1alpha1 is read if it is served: only
// that version has the older field credentialProviders.
func (r *Registry) followProfiles(config *rest.Config) (*reflector.Follower, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.WarningHandler = "/apis", rest.NoWarnings{} // v1alpha1 can be deprecated
	limit := newBudget()
	config.NegotiatedSerializer = boundedSerializer{lenient.Serializer[clusterProfile]("ClusterProfile"), limit}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client.Transport = boundedTransport{client.Transport, limit}
	all := reflector.Resource{Name: "clusterprofiles", Namespace: r.inventory.namespace, Object: &clusterProfile{}, Whole: true}
	for _, version := range []string{"v1alpha1", "v1alpha2"} {
		config.GroupVersion = &schema.GroupVersion{Group: mcsv1beta1.GroupName, Version: version}
		one, err := rest.RESTClientForConfigAndClient(config, client)
		if err != nil {
			return nil, err
		}
		all.Versions = append(all.Versions, reflector.Version{GroupVersion: *config.GroupVersion, Client: one})
	}
	store := newStore(r, r.inventory.profiles, &r.inventory.synced, trimProfile, func([]types.NamespacedName) { r.notifyAll() })
	return reflector.New(all, store, r.reportProfiles()), nil
}

// reportProfiles returns the function that receives the results of lists and watches.
func (r *Registry) reportProfiles() reflector.Report {
	var trouble reflector.Trouble
	said := ""
	return func(verb reflector.Verb, err error) {
		if err = trouble.Note(verb, err); err != nil {
			err = profileTrouble(r.inventory.namespace, err)
		}
		r.mu.Lock()
		r.inventory.trouble = err
		r.mu.Unlock()
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != said && text != "" {
			r.options.Log.Info("cannot read ClusterProfiles; the addresses that were read before stay in use", "reason", harmless(text))
		}
		said = text
		r.notifyAll()
	}
}

func profileTrouble(namespace string, err error) error {
	switch {
	case errors.Is(err, reflector.ErrAbsent):
		return errors.New("this cluster does not serve ClusterProfiles: install the CRD of the Cluster Inventory API, or put a kubeconfig into the Secret")
	case apierrors.IsForbidden(err):
		return fmt.Errorf("cannot read the ClusterProfiles in the namespace %s: the controller needs the Role of deploy/cluster-profiles there: %w", namespace, err)
	}
	return fmt.Errorf("cannot read the ClusterProfiles in the namespace %s: %w", namespace, err)
}

// watchProfiles reads the ClusterProfiles until ctx ends, if there is a namespace of them.
func (r *Registry) watchProfiles(ctx context.Context) error {
	if r.inventory.namespace == "" {
		return nil
	}
	follower, err := r.followProfiles(r.options.Config)
	if err != nil {
		return fmt.Errorf("watch ClusterProfiles: %w", err)
	}
	r.running.Go(func() { follower.Run(ctx) })
	return nil
}
