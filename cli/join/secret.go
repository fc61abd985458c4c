package join

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/deploy/peer"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// peerSecret is the reading side of a link as it is stored. The zero value is one that does not exist.
type peerSecret struct {
	object *corev1.Secret
	// server is that of the kubeconfig's current context, nil without a kubeconfig. token is the one that the controller uses.
	server *api.Cluster
	token  string
	// user is the name of the kubeconfig's current user.
	user string
	// lease is that of the peer, or nil.
	lease *coordinationv1.Lease
}

// leaseVersion changes when the controller has looked at the Secret.
func (s *peerSecret) leaseVersion() string {
	if s.lease == nil {
		return ""
	}
	return s.lease.ResourceVersion
}

// stored reads the Secret and the Lease of the link in To.
func (l *Link) stored(ctx context.Context) (*peerSecret, error) {
	secret, err := l.To.Cluster.Kube.CoreV1().Secrets(system.Namespace).Get(ctx, l.From.id, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read Secret %s/%s in %s: %w", system.Namespace, l.From.id, output.Clean(l.To.Context), err)
	}
	found := &peerSecret{}
	if err == nil {
		found.object = secret
		found.server, found.user = currentContext(secret.Data[system.KubeconfigKey])
		found.token = system.TokenOf(secret)
	}
	found.lease, err = l.lease(ctx)
	return found, err
}

// lease reads that of the peer. It is nil if there is none.
func (l *Link) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	lease, err := l.To.Cluster.Kube.CoordinationV1().Leases(system.Namespace).Get(ctx, l.From.id, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Lease %s/%s in %s: %w", system.Namespace, l.From.id, output.Clean(l.To.Context), err)
	}
	if _, ours := lease.Labels[mcs.LabelPeer]; !ours {
		return nil, nil
	}
	return lease, nil
}

// profiled reports whether the Secret has a token only. The controller then takes the address from a
// ClusterProfile, and a kubeconfig would override that.
func (s *peerSecret) profiled() bool {
	return s.object != nil && len(s.object.Data[system.KubeconfigKey]) == 0 && len(s.object.Data[system.TokenKey]) > 0
}

// foreign reports whether the Secret belongs to somebody else, who has chosen its name by chance. One
// that has lost its label does not: the controller remembers the peer, and the kubeconfig is of join.
func (s *peerSecret) foreign() bool {
	return s.object != nil && !s.labelled() && (s.lease == nil || s.user != peer.Account)
}

func (s *peerSecret) labelled() bool {
	_, is := s.object.Labels[mcs.LabelPeer]
	return is
}

// notForeign returns an error if the Secret must not be overwritten.
func (w *work) notForeign(s *peerSecret) error {
	if !s.foreign() {
		return nil
	}
	return &fault{output.Problem{
		ID:     "ForeignSecret",
		What:   fmt.Sprintf("%s has a Secret %s/%s without the label %s, so it is not a peer's Secret", output.Clean(w.To.Context), system.Namespace, w.From.id, mcs.LabelPeer),
		Advice: fmt.Sprintf("Delete it, or set another --cluster-id in %s.", output.Clean(w.From.Context)),
		Fix:    []string{output.Kubectl(w.To.Context, "delete", "secret", "-n", system.Namespace, w.From.id), w.again},
	}}
}

// notAnother returns an error if the reader is connected to another cluster under this ID: a token of this
// one would break the link.
func (w *work) notAnother(s *peerSecret) error {
	if s.lease == nil || s.lease.Labels[system.LabelConnected] != "True" {
		return nil
	}
	uid := s.lease.Annotations[mcs.AnnotationClusterUID]
	if uid == "" || w.From.uid == "" || uid == w.From.uid {
		return nil
	}
	at := "another address"
	if s.server != nil {
		at = output.Clean(s.server.Server)
	}
	return &fault{output.Problem{
		ID:   "OtherCluster",
		What: fmt.Sprintf("%s reads another cluster with the ID %s, at %s. The context %s leads to a second cluster that announces this ID", w.To.called(), w.From.id, at, output.Clean(w.From.Context)),
		Advice: fmt.Sprintf("Nothing was changed. Each cluster needs an ID of its own: set another --cluster-id in one of the two. If %s replaces the other cluster, leave that one first: ", output.Clean(w.From.Context)) +
			w.command("leave"),
		Link: output.Docs + "join.md#the-cluster-id",
	}}
}

// notOfHelm returns an error if the Secret belongs to a Helm release, which would compete with this
// program for the kubeconfig. A Secret of existingSecret does not.
func (l *Link) notOfHelm(s *peerSecret) error {
	if s.object == nil || s.foreign() || s.object.Labels[mcs.LabelManagedBy] != "Helm" {
		return nil
	}
	return belongsToHelm("Secret "+system.Namespace+"/"+l.From.id, l.To.Context,
		"Change or remove the kubeconfig of this peer under peers in the values of that release, and upgrade it. Or set existingSecret there: then join, leave and rotate write the Secret. A token is revoked by leave, after the Secret has gone.")
}

// currentContext returns the cluster and the user of a kubeconfig, or zero values.
func currentContext(text []byte) (server *api.Cluster, user string) {
	config, err := clientcmd.Load(text)
	if err != nil || config.Contexts[config.CurrentContext] == nil {
		return nil, ""
	}
	current := config.Contexts[config.CurrentContext]
	return config.Clusters[current.Cluster], current.AuthInfo
}

// content returns the data of the Secret: the token, and with a server a kubeconfig.
func (l *Link) content(server *api.Cluster, token string) (map[string]string, error) {
	data := map[string]string{system.TokenKey: token}
	if server == nil {
		return data, nil
	}
	text, err := l.kubeconfig(server)
	if err != nil {
		return nil, fmt.Errorf("encode the kubeconfig for %s: %w", l.To.called(), err)
	}
	data[system.KubeconfigKey] = string(text)
	return data, nil
}

// kubeconfig returns what the controller of To needs to read From, without the token.
func (l *Link) kubeconfig(server *api.Cluster) ([]byte, error) {
	config := api.NewConfig()
	config.Clusters[l.From.id] = server
	config.AuthInfos[peer.Account] = api.NewAuthInfo()
	config.Contexts[l.From.id] = &api.Context{Cluster: l.From.id, AuthInfo: peer.Account, Namespace: peer.Namespace}
	config.CurrentContext = l.From.id
	return clientcmd.Write(*config)
}

// secret returns the Secret without its data.
func (l *Link) secret(renewed bool) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("Secret")
	o.SetNamespace(system.Namespace)
	o.SetName(l.From.id)
	o.SetLabels(map[string]string{mcs.LabelPeer: ""})
	if renewed {
		o.SetAnnotations(map[string]string{system.AnnotationRenew: "true"})
	}
	return o
}

// store writes the Secret in To, if something in it differs. Without a server, it has the token only.
func (l *Link) store(ctx context.Context, old *peerSecret, server *api.Cluster, c credential) (Change, error) {
	change := Unchanged
	if !old.has(server, c) {
		if err := l.notOfHelm(old); err != nil {
			return Failed, err
		}
		change = Updated
		if old.object == nil {
			change = Created
		}
		content, err := l.content(server, c.token)
		if err != nil {
			return Failed, err
		}
		if old.lease != nil {
			// The controller renews it. A renewal from before the write says nothing about the new Secret.
			if old.lease, err = l.lease(ctx); err != nil {
				return Failed, err
			}
		}
		want := l.secret(c.renewed)
		data := map[string]any{}
		for key, text := range content {
			data[key] = base64.StdEncoding.EncodeToString([]byte(text))
		}
		want.Object["data"] = data
		options := metav1.ApplyOptions{FieldManager: manager, Force: true}
		if _, err := client(l.To.Cluster, want).Apply(ctx, want.GetName(), want, options); err != nil {
			return Failed, fmt.Errorf("apply %s in %s: %s", describe(want), output.Clean(l.To.Context), without(err, c.token))
		}
	}
	unmarked, err := l.unmark(ctx, old, c.renewed)
	if unmarked && change == Unchanged {
		change = Updated
	}
	return change, err
}

// without returns the text of an error without secrets, which an admission webhook may have added.
func without(err error, secrets ...string) string {
	text := err.Error()
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "(redacted)")
		text = strings.ReplaceAll(text, base64.StdEncoding.EncodeToString([]byte(secret)), "(redacted)")
	}
	return text
}

// has reports whether the Secret has all that is wanted. Who wrote it does not matter, and in which form.
func (s *peerSecret) has(server *api.Cluster, c credential) bool {
	return s.object != nil && s.labelled() && s.token == c.token && (server == nil || sameServer(s.server, server)) && (!c.renewed || s.renews())
}

func (s *peerSecret) renews() bool {
	return s.object != nil && s.object.Annotations[system.AnnotationRenew] == "true"
}

// unmark removes the marks of an earlier state: of a leave that did not finish, and of a token that was
// renewed.
func (l *Link) unmark(ctx context.Context, old *peerSecret, renewed bool) (bool, error) {
	var did bool
	if old.object != nil {
		var gone []string
		if _, marked := old.object.Annotations[system.AnnotationLeaving]; marked {
			gone = append(gone, system.AnnotationLeaving)
		}
		if _, marked := old.object.Annotations[system.AnnotationRenew]; marked && !renewed {
			gone = append(gone, system.AnnotationRenew)
		}
		if len(gone) > 0 {
			if err := l.annotate(ctx, "Secret", gone, nil); err != nil {
				return did, err
			}
			did = true
		}
	}
	if old.lease == nil {
		return did, nil
	}
	if _, marked := old.lease.Annotations[system.AnnotationLeaving]; !marked {
		return did, nil
	}
	return true, l.annotate(ctx, "Lease", []string{system.AnnotationLeaving}, nil)
}

// annotate sets annotations of the peer's Secret or Lease to a value, or removes them if it is nil.
// An object that does not exist is left alone.
func (l *Link) annotate(ctx context.Context, kind string, keys []string, value *string) error {
	values := map[string]*string{}
	for _, key := range keys {
		values[key] = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: manager}
	kube := l.To.Cluster.Kube
	if kind == "Lease" {
		_, err = kube.CoordinationV1().Leases(system.Namespace).Patch(ctx, l.From.id, types.MergePatchType, patch, options)
	} else {
		_, err = kube.CoreV1().Secrets(system.Namespace).Patch(ctx, l.From.id, types.MergePatchType, patch, options)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("annotate %s %s/%s in %s: %w", kind, system.Namespace, l.From.id, output.Clean(l.To.Context), err)
	}
	return nil
}

// claims are those of a token that matter here. The zero value is that of something else.
type claims struct {
	jwt.RegisteredClaims

	Kubernetes struct {
		ServiceAccount struct {
			UID types.UID `json:"uid"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

func claimsOf(token string) claims {
	var c claims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &c); err != nil {
		return claims{}
	}
	return c
}

// life is that of the reader's tokens, or 0 if they do not expire.
func (s *peerSecret) life(reader string) time.Duration {
	c := claimsOf(s.token)
	if !s.renews() && !c.ofReader(reader) {
		return 0
	}
	if life := c.life().Truncate(time.Second); life > 0 {
		return life
	}
	return defaultLife
}

// life is that of a token which expires, or 0.
func (c claims) life() time.Duration {
	if c.IssuedAt == nil || c.ExpiresAt == nil {
		return 0
	}
	return c.ExpiresAt.Sub(c.IssuedAt.Time)
}

// fresh reports whether a token is one of the reader's account, and before two thirds of its life.
func (c claims) fresh(reader string, account types.UID, now time.Time) bool {
	return c.ofReader(reader) && c.Kubernetes.ServiceAccount.UID == account && c.life() > 0 && now.Before(c.IssuedAt.Add(c.life()/3*2))
}

// ofReader reports whether a token is one of the reader's own account, not of the shared one.
func (c claims) ofReader(reader string) bool {
	return c.Subject == "system:serviceaccount:"+peer.Namespace+":"+peer.ReaderName(reader)
}
