package pki

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

func TestCertificatesAreTheAuthoritys(t *testing.T) {
	ca, err := New("c1")
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.Server("kube-apiserver", "172.31.250.1", "fd00:99::1", "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	both, err := tls.X509KeyPair(server.Cert, server.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	for _, host := range []string{"172.31.250.1", "fd00:99::1", "kubernetes"} {
		if _, err := both.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := both.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "172.31.250.2"}); err == nil {
		t.Error("another's address is taken")
	}
}
