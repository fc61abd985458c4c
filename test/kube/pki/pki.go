// Package pki makes the certificates of test clusters: an authority for each cluster, so that no cluster's clients take another's server
// for their own. Its keys are elliptic ones: an RSA key costs a tenth of a second.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Pair is a certificate and its key, in PEM.
type Pair struct{ Cert, Key []byte }

// Authority signs all certificates of one cluster.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority that signs itself.
func New(name string) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	made, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name, NotBefore: time.Now().Add(-setBack)}, key)
	return &Authority{made, key}, err
}

// setBack is for clocks that were set back.
const setBack = time.Hour

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// Key is a key alone, in PEM: such as API servers sign tokens with.
func Key() ([]byte, error) { return keyutil.MakeEllipticPrivateKeyPEM() }

// PEM is the authority's own certificate.
func (a *Authority) PEM() []byte { return encoded(a.cert.Raw) }

func encoded(certificate []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: certificate})
}

// Client proves to a server who its user is, and of what group if one is given.
func (a *Authority) Client(user, group string) (Pair, error) {
	subject := pkix.Name{CommonName: user}
	if group != "" {
		subject.Organization = []string{group}
	}
	return a.issue(&x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// Server makes a certificate for a server with any of the hosts: addresses and names.
func (a *Authority) Server(name string, hosts ...string) (Pair, error) {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, host)
		}
	}
	return a.issue(c)
}

func (a *Authority) issue(template *x509.Certificate) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return Pair{}, err
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-setBack), time.Now().AddDate(1, 0, 0)
	certificate, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	return Pair{encoded(certificate), keyPEM}, err
}
