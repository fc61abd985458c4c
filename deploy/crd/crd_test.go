package crd

import (
	"bytes"
	"os"
	"testing"

	"sigs.k8s.io/mcs-api/config/crd"
)

// An upgrade of the mcs-api module that leaves these files behind fails here.
func TestFilesAreThoseOfTheModule(t *testing.T) {
	for name, want := range map[string][]byte{"serviceimports.yaml": crd.ServiceImportCRD, "serviceexports.yaml": crd.ServiceExportCRD} {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from that of sigs.k8s.io/mcs-api (%v): run `go generate ./deploy/crd`", name, err)
		}
	}
}
