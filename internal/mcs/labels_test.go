package mcs

import "testing"

// TestReserved: no export marks an import as one of another implementation's, or of this project's.
func TestReserved(t *testing.T) {
	for key, want := range map[string]bool{
		AnnotationVIPs: true, LabelManagedBy: true,
		LabelKarmadaManaged: true, AnnotationKarmadaWork: true, AnnotationCiliumFamilies: true, LabelSubmarinerNamespace: true, AnnotationKosmosAddress: true,
		"app.kubernetes.io/name": false, "example.org/team": false, "cilium.io.example.org/team": false, "team": false,
	} {
		if Reserved(key) != want {
			t.Errorf("%s is reserved: %v, want %v", key, !want, want)
		}
	}
}
