package realkube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pair is a certificate and its key, in PEM.
type pair struct{ cert, key []byte }

// authority signs the certificates of one cluster: no cluster's clients can mistake another's server for their own.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority() (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "realkube"},
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	a := &authority{cert: template, key: key}
	der, err := a.sign(template, &key.PublicKey)
	if err != nil {
		return nil, err
	}
	a.cert, err = x509.ParseCertificate(der)
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, err
}

// server is the API server's certificate.
func (a *authority) server() (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		DNSNames:    []string{"localhost", "kubernetes.default.svc"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// admin is a client's certificate that the API server allows everything.
func (a *authority) admin() (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := a.sign(template, &key.PublicKey)
	if err != nil {
		return pair{}, err
	}
	keyPEM, err := encodeKey(key)
	return pair{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM}, err
}

func (a *authority) sign(template *x509.Certificate, public *ecdsa.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour) // clocks that were set back
	template.NotAfter = time.Now().AddDate(1, 0, 0)
	return x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
}

// newKey is an elliptic one: an RSA key costs a tenth of a second, and four are needed.
func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
}

// identities are the files that the API server reads, by their names in the cluster's folder, and what clients need.
type identities struct {
	ca    []byte
	admin pair
}

// writeIdentities makes everything that proves who is who in a new cluster.
func writeIdentities(dir string) (identities, error) {
	ca, err := newAuthority()
	if err != nil {
		return identities{}, err
	}
	server, err := ca.server()
	if err != nil {
		return identities{}, err
	}
	admin, err := ca.admin()
	if err != nil {
		return identities{}, err
	}
	tokens, err := newKey()
	if err != nil {
		return identities{}, err
	}
	tokenKey, err := encodeKey(tokens)
	if err != nil {
		return identities{}, err
	}
	return identities{ca.pem, admin}, writeFiles(dir, map[string][]byte{
		"ca.crt": ca.pem, "server.crt": server.cert, "server.key": server.key, "tokens.key": tokenKey,
	})
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
