package kube

import (
	"os"
	"path/filepath"
	"testing"
)

// limitedPods is the admission configuration of GKE: outside of the namespaces that its ResourceQuotas allow, no pod has a critical class.
const limitedPods = `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
  - name: ResourceQuota
    configuration:
      apiVersion: apiserver.config.k8s.io/v1
      kind: ResourceQuotaConfiguration
      limitedResources:
        - resource: pods
          matchScopes: [{scopeName: PriorityClass, operator: In, values: [system-node-critical, system-cluster-critical]}]
`

// LimitCriticalPods gives flags of an API server that admits pods of the classes system-node-critical and system-cluster-critical only
// where a ResourceQuota permits them, as GKE does.
func LimitCriticalPods(t testing.TB) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(path, []byte(limitedPods), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--admission-control-config-file=" + path}
}
