//go:build ignore

// Writes the CRDs that mcs-api embeds into the folder that it runs in.
package main

import (
	"log"
	"os"

	"sigs.k8s.io/mcs-api/config/crd"
)

func main() {
	for name, text := range map[string][]byte{"serviceimports.yaml": crd.ServiceImportCRD, "serviceexports.yaml": crd.ServiceExportCRD} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
