package peers

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/member"
)

// A controller that starts with a wrong ID removes what the cluster imports and exports under the
// correct ID: the imports that only the cluster with the wrong ID exports, and the slices that
// peers read. So it does not start.
var (
	// ErrOtherID: the Lease in the controller's namespace announces another ID.
	ErrOtherID = errors.New("this cluster announces another cluster ID")
	// ErrPeersID: a peer has this cluster's ID.
	ErrPeersID = errors.New("a peer has this cluster's ID")
)

// CheckID returns an error if the controller of this cluster must not use the ID home. It writes
// nothing.
func CheckID(ctx context.Context, config *rest.Config, home, namespace string) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	own, err := client.CoordinationV1().Leases(namespace).Get(ctx, member.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		own, err = new(coordinationv1.Lease), nil
	}
	if err != nil {
		return fmt.Errorf("read the Lease %s/%s: %w", namespace, member.Name, err)
	}
	// List needs no permission in addition to those of the caches. Get would.
	peer := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", home).String(), LabelSelector: mcs.LabelPeer}
	secrets, err := client.CoreV1().Secrets(namespace).List(ctx, peer)
	if err != nil {
		return fmt.Errorf("list the Secrets of peers in %s: %w", namespace, err)
	}
	return idFault(home, namespace, member.Read(own).ID, len(secrets.Items) > 0)
}

// idFault checks the ID that the Lease in the namespace announces, and whether a peer's Secret is named after
// the ID home. If the Lease announces home, the Secret is the mistake: its peer is refused,
// with no other effect.
func idFault(home, namespace, announced string, peer bool) error {
	switch {
	case announced != "" && announced != home:
		return fmt.Errorf("%w: the Lease %s/%s announces %q, and this controller has the ID %q. Correct --cluster-id or the ClusterProperty. "+
			"To change the ID on purpose, run `kubectl -n %[2]s scale deployment %[6]s --replicas=0`, wait until no pod is left, run "+
			"`kubectl -n %[2]s delete lease %[3]s`, and start the controller again with `kubectl -n %[2]s scale deployment %[6]s --replicas=2`",
			ErrOtherID, namespace, member.Name, announced, home, mcs.ControllerName)
	case announced == "" && peer:
		return fmt.Errorf("%w: the Secret %s/%s is that of a peer, and this controller has the ID %[3]q. Find out which cluster this is. If it has "+
			"another ID, correct --cluster-id or the ClusterProperty. Only if it is %[3]q, delete the Secret with `kubectl -n %[2]s delete secret %[3]s`", ErrPeersID, namespace, home)
	}
	return nil
}

// idFault returns an error if this cluster's announcement and Secrets contradict its ID when the
// Registry starts.
func (r *Registry) idFault() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, peer := r.peers[r.options.Home]
	return idFault(r.options.Home, r.options.Namespace, r.home.members[r.options.Namespace].ID, peer)
}
