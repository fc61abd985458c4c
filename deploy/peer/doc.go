// Package peer contains the objects that let other clusters read this one: the granting side of a
// peer. It only computes. Its callers apply the objects.
//
//   - [Objects] are the account that all readers share, and its rights. They are those of the
//     kustomization in this folder.
//   - [TokenSecret] is a token of the shared account for one reader, which does not expire.
//   - [Reader] is an account of one reader, for tokens that expire. It needs the ClusterRole of
//     Objects.
//
// The namespace must exist: deploy/controller contains it.
package peer

import (
	_ "embed" // the manifests
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

const (
	// Namespace is the namespace of the controller, and of all namespaced objects of this package.
	Namespace = "multicluster-system"
	// Account is the ServiceAccount that readers share, its roles, and their bindings.
	Account = "multicluster-peer"
	// LabelReader is a label of the objects of one reader. Its value is the reader's cluster ID.
	LabelReader = "clusterset-dns.io/reader"
)

//go:embed serviceaccount.yaml
var account string

//go:embed clusterrole.yaml
var role string

//go:embed reader.yaml
var reader string

//go:embed token.yaml
var token string

// placeholder is replaced by a cluster ID in the manifests of one reader. It is no valid ID.
const placeholder = "READER"

// ReaderName returns the name of all objects of the reader with this cluster ID.
func ReaderName(id string) string { return Account + "-" + id }

// Objects returns the ServiceAccount that all readers share, and its ClusterRole, ClusterRoleBinding, Role
// and RoleBinding, in this order.
func Objects() []*unstructured.Unstructured { return append(decode(account), decode(role)...) }

// Reader returns the account of one reader, given by its cluster ID: a ServiceAccount, its
// ClusterRoleBinding, and a Role and RoleBinding that permit it to read the announcement of this cluster,
// and to create tokens of this account only. An ID that is not a DNS name of at most 63 characters gives an error.
func Reader(id string) ([]*unstructured.Unstructured, error) { return of(id, reader) }

// TokenSecret returns the Secret that kube-controller-manager fills with a token of the shared
// account for one reader. An ID that is not a DNS name of at most 63 characters gives an error.
func TokenSecret(id string) (*unstructured.Unstructured, error) {
	objects, err := of(id, token)
	if err != nil {
		return nil, err
	}
	return objects[0], nil
}

// of returns the objects of a manifest for one reader. A valid ID contains no characters that mean
// something in YAML, and the only value that is nothing but the ID is in quotes: 12 is a string, too.
func of(id, manifest string) ([]*unstructured.Unstructured, error) {
	if fault := mcs.ClusterIDFault(id); fault != "" {
		return nil, fmt.Errorf("grant access to reader %q: the cluster ID %s", id, fault)
	}
	return decode(strings.ReplaceAll(manifest, placeholder, id)), nil
}

// decode panics if a manifest is not YAML: the manifests are part of the program.
func decode(manifest string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			panic(fmt.Sprintf("decode a manifest of deploy/peer: %v", err))
		}
		all = append(all, object)
	}
	return all
}
