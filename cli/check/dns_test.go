package check

import "testing"

// An image is stock by its whole repository: a mirror can have an image with the plugin at the same path.
func TestStockImages(t *testing.T) {
	for image, want := range map[string]bool{
		"coredns/coredns:1.14.1":                                                      true,
		"docker.io/coredns/coredns:1.14.1":                                            true,
		"registry.k8s.io/coredns/coredns:v1.14.1":                                     true,
		"registry.k8s.io/coredns/coredns:v1.14.1@sha256:0123":                         true,
		"k8s.gcr.io/coredns:1.7.0":                                                    true,
		"602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/coredns:v1.11.4-eksbuild.2": true,
		"mcr.microsoft.com/oss/v2/kubernetes/coredns:v1.12.1-1":                       true,
		"rancher/mirrored-coredns-coredns:1.12.3":                                     true,
		"harbor.example.org/coredns/coredns:v1.14.1":                                  false,
		"harbor.example.org:5000/coredns/coredns":                                     false,
		"registry.example.org/registry.k8s.io/coredns/coredns:v1.14.1":                false,
		"registry.k8s.io/coredns/coredns-multicluster:v1.14.1":                        false,
		"123456789012.dkr.ecr.us-west-2.amazonaws.com/coredns/coredns:v1.14.1":        false,
		"ghcr.io/example/coredns:v1.14.1":                                             false,
	} {
		if got := stockImage.MatchString(repositoryOf(image)); got != want {
			t.Errorf("%s: stock %v, want %v", image, got, want)
		}
	}
}
