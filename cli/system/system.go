// Package system reads what the controllers of a cluster have written down: the cluster's ID, and the
// state of its peers. It only reads.
package system

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/member"
)

const (
	// Namespace is the namespace of the controller.
	Namespace = "multicluster-system"
	// Controller is the name of the controller's Deployment, and the app.kubernetes.io/name of its pods.
	Controller = "multicluster-controller"
	// KubeconfigKey is the key of the kubeconfig in a peer's Secret, and TokenKey that of the token.
	KubeconfigKey, TokenKey = "kubeconfig", "token"
	// AnnotationLeaving marks a Secret and a Lease of a peer that leaves on purpose.
	AnnotationLeaving = "clusterset-dns.io/leaving"
	// AnnotationRenew with the value "true" on a peer's Secret lets the controller renew its token.
	AnnotationRenew = "clusterset-dns.io/renew-token"

	// LabelConnected on the Lease of a peer is "True" while the controller reads it.
	LabelConnected = "clusterset-dns.io/connected"

	labelReason        = "clusterset-dns.io/reason"
	labelPath          = "clusterset-dns.io/data-path"
	annotationMessage  = "clusterset-dns.io/message"
	annotationPath     = "clusterset-dns.io/data-path-message"
	annotationExpiry   = "clusterset-dns.io/token-expiry"
	annotationRenewing = "clusterset-dns.io/token-message"
)

// pageSize bounds one answer of a list.
const pageSize = 500

// Identity is what a cluster announces.
type Identity struct {
	// Installed is false if the controller's namespace does not exist.
	Installed bool
	// ID is the announced cluster ID, or "".
	ID string
	// Heartbeat is when the controller last showed that it runs, by the clock of its node, or zero.
	Heartbeat time.Time
	// UID identifies the cluster: two contexts with one UID are one cluster.
	UID string
	// Exporting are the namespaces that it exports from, if Limited is true. Otherwise it exports from all.
	Exporting []string
	Limited   bool
}

// ReadIdentity reads the namespaces of the controller and of the system, and the Lease by which the controller
// announces the cluster. After an error, it returns what it has read before it.
func ReadIdentity(ctx context.Context, kube kubernetes.Interface) (Identity, error) {
	var found Identity
	_, err := kube.CoreV1().Namespaces().Get(ctx, Namespace, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return found, fmt.Errorf("read namespace %s: %w", Namespace, err)
	}
	found.Installed = err == nil
	all, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return found, fmt.Errorf("read namespace %s: %w", metav1.NamespaceSystem, err)
	}
	found.UID = string(all.UID)
	lease, err := kube.CoordinationV1().Leases(Namespace).Get(ctx, member.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return found, nil
	}
	if err != nil {
		return found, fmt.Errorf("read Lease %s/%s: %w", Namespace, member.Name, err)
	}
	announced := member.Read(lease)
	found.ID, found.Heartbeat = announced.ID, announced.Renewed.UTC()
	found.Exporting, found.Limited = slices.Sorted(maps.Keys(announced.Namespaces())), announced.Limited
	return found, nil
}

// Peer is a cluster that another one reads, by its Secret and its Lease in the reading cluster.
type Peer struct {
	ID string `json:"id"`
	// HasSecret is false for a peer that leaves, or whose Secret is missing.
	HasSecret bool `json:"hasSecret"`
	// HasLease is false until the controller has looked at the Secret.
	HasLease bool `json:"hasLease"`
	// LeaseVersion changes when the controller has looked at a changed Secret.
	LeaseVersion string `json:"-"`
	Connected    bool   `json:"connected"`
	Reason       string `json:"reason,omitempty"`
	Message      string `json:"message,omitempty"`
	// DataPath tells whether the peer's endpoints accept connections: Reachable, Unknown and so on.
	DataPath        string `json:"dataPath,omitempty"`
	DataPathMessage string `json:"dataPathMessage,omitempty"`
	// LastConnected is zero if the peer was never connected.
	LastConnected time.Time `json:"lastConnected,omitzero"`
	// Server is the address of the peer's API server in the Secret.
	Server string `json:"server,omitempty"`
	// CA is the certificate authority of the peer's API server in the Secret, as PEM.
	CA []byte `json:"-"`
	// UID identifies the cluster that the controller was last connected to, or is "".
	UID string `json:"uid,omitempty"`
	// TokenExpiry is zero if the token does not expire.
	TokenExpiry time.Time `json:"tokenExpiry,omitzero"`
	// TokenIssued is zero if the token does not contain it.
	TokenIssued time.Time `json:"tokenIssued,omitzero"`
	// TokenMessage is set if the controller cannot renew the token.
	TokenMessage string `json:"tokenMessage,omitempty"`
	// Renews is true if the Secret asks the controller to renew the token.
	Renews bool `json:"renews,omitempty"`
	// Annotations are those of the Secret, such as limits of the peer.
	Annotations map[string]string `json:"-"`
}

// ReadPeers lists the peers of a cluster, sorted by ID.
func ReadPeers(ctx context.Context, kube kubernetes.Interface) ([]Peer, error) {
	all := map[string]*Peer{}
	at := func(id string) *Peer {
		if all[id] == nil {
			all[id] = &Peer{ID: output.Clean(id)}
		}
		return all[id]
	}
	options := metav1.ListOptions{LabelSelector: mcs.LabelPeer, Limit: pageSize}
	secrets, err := kube.CoreV1().Secrets(Namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("list Secrets of namespace %s: %w", Namespace, err)
	}
	for i := range secrets.Items {
		at(secrets.Items[i].Name).readSecret(&secrets.Items[i])
	}
	leases, err := kube.CoordinationV1().Leases(Namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("list Leases of namespace %s: %w", Namespace, err)
	}
	for i := range leases.Items {
		at(leases.Items[i].Name).readLease(&leases.Items[i])
	}
	sorted := make([]Peer, 0, len(all))
	for _, p := range all {
		sorted = append(sorted, *p)
	}
	slices.SortFunc(sorted, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return sorted, nil
}

func (p *Peer) readSecret(s *corev1.Secret) {
	p.HasSecret, p.Annotations = true, s.Annotations
	p.Renews = s.Annotations[AnnotationRenew] == "true"
	if config, err := clientcmd.Load(s.Data[KubeconfigKey]); err == nil {
		if context := config.Contexts[config.CurrentContext]; context != nil && config.Clusters[context.Cluster] != nil {
			p.Server, p.CA = output.Clean(config.Clusters[context.Cluster].Server), config.Clusters[context.Cluster].CertificateAuthorityData
		}
	}
	if claims, ok := ReadClaims(TokenOf(s)); ok {
		p.TokenIssued, p.TokenExpiry = moment(claims.Issued), moment(claims.Expires)
	}
}

func (p *Peer) readLease(l *coordinationv1.Lease) {
	p.HasLease, p.LeaseVersion = true, l.ResourceVersion
	p.Connected = l.Labels[LabelConnected] == "True"
	p.Reason, p.Message = l.Labels[labelReason], output.Clean(l.Annotations[annotationMessage])
	p.DataPath, p.DataPathMessage = l.Labels[labelPath], output.Clean(l.Annotations[annotationPath])
	if l.Spec.RenewTime != nil {
		p.LastConnected = l.Spec.RenewTime.Time
	}
	p.UID = output.Clean(l.Annotations[mcs.AnnotationClusterUID])
	if expiry, err := time.Parse(time.RFC3339, l.Annotations[annotationExpiry]); err == nil {
		p.TokenExpiry = expiry
	}
	p.TokenMessage = output.Clean(l.Annotations[annotationRenewing])
}

// ReadLeases lists the peers of a cluster by their Leases only, sorted by ID: for users without the right
// to read Secrets.
func ReadLeases(ctx context.Context, kube kubernetes.Interface) ([]Peer, error) {
	leases, err := kube.CoordinationV1().Leases(Namespace).List(ctx, metav1.ListOptions{LabelSelector: mcs.LabelPeer, Limit: pageSize})
	if err != nil {
		return nil, fmt.Errorf("list Leases of namespace %s: %w", Namespace, err)
	}
	all := make([]Peer, len(leases.Items))
	for i := range leases.Items {
		all[i].ID = output.Clean(leases.Items[i].Name)
		all[i].readLease(&leases.Items[i])
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}
