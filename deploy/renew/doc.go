// Package renew contains the right of a controller to store renewed tokens in the Secrets of its peers.
// It only computes. Its callers apply the objects.
package renew

import (
	_ "embed" // the manifest
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed role.yaml
var role string

// Objects returns the Role and the RoleBinding, which are those of the kustomization in this folder.
func Objects() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq(role, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			panic(fmt.Sprintf("decode a manifest of deploy/renew: %v", err)) // it is a part of the program
		}
		all = append(all, object)
	}
	return all
}
