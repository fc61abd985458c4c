package mcs

import "testing"

// TestReserved: no export marks an import as one of another implementation's, or of this project's, or as an object that a deployer of the
// importing cluster keeps, and deletes.
func TestReserved(t *testing.T) {
	for key, want := range map[string]bool{
		AnnotationVIPs: true, LabelManagedBy: true,
		LabelKarmadaManaged: true, AnnotationKarmadaWork: true, AnnotationCiliumFamilies: true, LabelSubmarinerNamespace: true, AnnotationKosmosAddress: true,
		"app.kubernetes.io/instance": true, "argocd.argoproj.io/instance": true, "argocd.argoproj.io/hook": true, "kapp.k14s.io/app": true,
		"kustomize.toolkit.fluxcd.io/name": true, "meta.helm.sh/release-name": true, "helm.sh/chart": true, "velero.io/exclude-from-backup": true,
		"app.kubernetes.io/name": false, "example.org/team": false, "cilium.io.example.org/team": false, "team": false,
	} {
		if Reserved(key) != want {
			t.Errorf("%s is reserved: %v, want %v", key, !want, want)
		}
	}
}
