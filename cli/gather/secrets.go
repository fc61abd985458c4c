package gather

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/system"
)

// secret is what the archive has of a Secret.
type secret struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Type      string            `json:"type"`
	Created   time.Time         `json:"created"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Annotations are only their keys: the values can be anything.
	Annotations []string `json:"annotations,omitempty"`
	// Sizes are the lengths of the values, in bytes.
	Sizes map[string]int `json:"sizes"`
	// Server is the address in a peer's kubeconfig.
	Server string `json:"server,omitempty"`
	// Tokens are the readable claims of tokens, by the key.
	Tokens map[string]claims `json:"tokens,omitempty"`
}

// claims are the parts of a token that are no credential.
type claims struct {
	Issuer  string    `json:"issuer,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Issued  time.Time `json:"issued,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
}

// public are keys of Secrets whose values everybody can know.
var public = []string{"ca.crt", "service-ca.crt", "tls.crt", "namespace"}

// readSecrets learns which values must not appear, and adds the Secrets without them.
func (b *bundle) readSecrets(ctx context.Context, c *clusters.Cluster, folder string) {
	b.learnUser(c.Config)
	all, failed := []secret{}, false
	for _, namespace := range namespaces {
		list, err := c.Kube.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{Limit: pageSize})
		if err != nil {
			b.fail(folder+"/secrets of "+namespace, err)
			failed = true
			continue
		}
		if list.Continue != "" {
			b.fail(folder+"/secrets of "+namespace, errTruncated)
		}
		for i := range list.Items {
			all = append(all, b.redactSecret(&list.Items[i]))
		}
	}
	if !failed || len(all) > 0 {
		b.addJSON(folder+"/secrets.json", all)
	}
}

// learnUser learns the credentials of the user who runs the command.
func (b *bundle) learnUser(config *rest.Config) {
	for _, value := range [][]byte{[]byte(config.BearerToken), []byte(config.Password), config.KeyData} {
		b.secrets.learn(value)
	}
}

func (b *bundle) redactSecret(s *corev1.Secret) secret {
	found := secret{
		Name: s.Name, Namespace: s.Namespace, Type: string(s.Type), Created: s.CreationTimestamp.Time, Labels: s.Labels,
		Sizes: map[string]int{}, Tokens: map[string]claims{},
	}
	for _, key := range slices.Sorted(maps.Keys(s.Annotations)) {
		if key != lastApplied {
			found.Annotations = append(found.Annotations, key)
		}
	}
	for key, value := range s.Data {
		found.Sizes[key] = len(value)
		if slices.Contains(public, key) {
			continue
		}
		b.secrets.learn(value)
		if read, ok := system.ReadClaims(string(value)); ok {
			found.Tokens[key] = claimsOf(read)
		}
	}
	config, err := clientcmd.Load(s.Data[system.KubeconfigKey])
	if err != nil || len(s.Data[system.KubeconfigKey]) == 0 {
		return found
	}
	if of := config.Contexts[config.CurrentContext]; of != nil && config.Clusters[of.Cluster] != nil {
		found.Server = config.Clusters[of.Cluster].Server
	}
	for _, user := range config.AuthInfos {
		for _, value := range [][]byte{[]byte(user.Token), []byte(user.Password), user.ClientKeyData, user.ClientCertificateData} {
			b.secrets.learn(value)
		}
		if read, ok := system.ReadClaims(user.Token); ok {
			found.Tokens[system.KubeconfigKey] = claimsOf(read)
		}
	}
	return found
}

func claimsOf(c system.Claims) claims {
	at := func(seconds int64) time.Time {
		if seconds == 0 {
			return time.Time{}
		}
		return time.Unix(seconds, 0).UTC()
	}
	return claims{c.Issuer, c.Subject, at(c.Issued), at(c.Expires)}
}
