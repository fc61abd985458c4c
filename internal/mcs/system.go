package mcs

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// System reports whether a namespace, or one Service of it ("" for the namespace), is that of a cluster itself: every cluster has its own,
// and names of that cluster's parts must not lead to another one. Such names are neither exported nor imported unless a selector names the
// namespace. A clusterset has no common owner for them (Lighthouse's CVE-2026-66788 was of this kind).
func System(namespace, service string) bool {
	return strings.HasPrefix(namespace, "kube-") || strings.HasPrefix(namespace, "openshift") ||
		namespace == metav1.NamespaceDefault && service == "kubernetes"
}
