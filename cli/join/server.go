package join

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"strings"

	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// ServerFault returns what is wrong with the address of an API server, or "".
func ServerFault(address string) string {
	parsed, err := url.Parse(address)
	switch {
	case strings.Contains(address, "@"): // It is not repeated: it can contain a password.
		return "the address contains a user name or a password, which the controller would show: remove it"
	case err != nil || parsed.Scheme != "https" || parsed.Host == "" || strings.ContainsAny(address, " \t\n\"\\"):
		return fmt.Sprintf("the address %s is not an https:// URL", output.Quote(address))
	case parsed.RawQuery != "" || parsed.ForceQuery || strings.Contains(address, "#"):
		return fmt.Sprintf("the address %s has more than a host, a port and a path", output.Quote(address))
	}
	return ""
}

// CAFault returns what is wrong with the text of a certificate authority, or "".
func CAFault(text []byte) string {
	if block, _ := pem.Decode(text); block == nil || block.Type != "CERTIFICATE" {
		return "is not a certificate in PEM"
	}
	return ""
}

// place is how the pods of a reader reach an API server, and what a user should know about it.
type place struct {
	server   *api.Cluster // nil if a ClusterProfile has it
	notes    []string
	warnings []string
}

// place decides about the address of From's API server for To. A Secret that leaves the address to a
// ClusterProfile stays so, unless --server or --ca is given.
//
//  1. The address is that of --server, else the stored one, else that of the kubeconfig.
//  2. tls-server-name and proxy-url belong to an address: they come from where it comes from.
//  3. The certificate authority is that of --ca. Else, an address that stays without a flag keeps the
//     stored one, which can be from an earlier --ca. Any other address gets that of the kubeconfig.
func (l *Link) place(stored *peerSecret) (place, error) {
	if stored.profiled() && l.Server == "" && l.CA == nil {
		return place{}, nil
	}
	base, kept := l.base(stored.server)
	if fault := ServerFault(base.Server); fault != "" {
		return place{}, l.serverFault("InvalidServer", fault+fmt.Sprintf(" of %s", output.Clean(l.From.Context)))
	}
	p := place{server: &api.Cluster{
		Server: base.Server, TLSServerName: base.TLSServerName, ProxyURL: base.ProxyURL,
		CertificateAuthorityData: base.CertificateAuthorityData,
	}}
	if kept {
		p.server.InsecureSkipTLSVerify = base.InsecureSkipTLSVerify
		p.notes = append(p.notes, fmt.Sprintf("%s keeps the address %s of %s, with its certificate authority. The kubeconfig has %s: set it with --server to use it",
			l.To.called(), output.Clean(base.Server), l.From.called(), output.Clean(l.From.Entry.Server)))
		if l.CA == nil && differ(base.CertificateAuthorityData, l.From.Entry.CertificateAuthorityData) {
			p.notes = append(p.notes, fmt.Sprintf("%s keeps a certificate authority for %s that the kubeconfig does not have. If it has changed, use that of the kubeconfig with --server %s, or another one with --ca %s",
				l.To.called(), l.From.called(), output.Quote(l.From.Context+"="+output.Clean(base.Server)), output.Quote(l.From.Context+"=FILE")))
		}
	}
	if err := l.decideCA(&p, stored.server); err != nil {
		return place{}, err
	}
	if loopback(base.Server) && !loopback(l.To.Entry.Server) {
		p.warnings = append(p.warnings, fmt.Sprintf("%s is an address of the machine that it is used on. Pods of %s cannot reach %s there: set another one with --server %s",
			output.Clean(base.Server), l.To.called(), l.From.called(), output.Quote(l.From.Context+"=https://ADDRESS")))
	}
	if at := base.ProxyURL; at != "" && loopback(at) && !loopback(base.Server) {
		p.warnings = append(p.warnings, fmt.Sprintf("the proxy-url of %s is an address of the machine that it is used on. Pods of %s cannot use it there: set the address that they reach with --server %s",
			output.Clean(l.From.Context), l.To.called(), output.Quote(l.From.Context+"=https://ADDRESS")))
	}
	return p, nil
}

// base returns the entry that the address comes from, and whether it is the stored one in spite of
// the kubeconfig.
func (l *Link) base(stored *api.Cluster) (base *api.Cluster, kept bool) {
	entry := l.From.Entry
	switch {
	case l.Server == "" && stored != nil && stored.Server != entry.Server && ServerFault(stored.Server) == "":
		return stored, true
	case l.Server == "" || l.Server == entry.Server:
		return entry, false
	case stored != nil && l.Server == stored.Server:
		again := stored.DeepCopy()
		if len(entry.CertificateAuthorityData) > 0 {
			again.CertificateAuthorityData = entry.CertificateAuthorityData
		}
		return again, false
	}
	return &api.Cluster{Server: l.Server, CertificateAuthorityData: entry.CertificateAuthorityData}, false
}

// differ reports whether there are two certificate authorities.
func differ(a, b []byte) bool { return len(a) > 0 && len(b) > 0 && !bytes.Equal(a, b) }

// decideCA sets the certificate authority of a place.
func (l *Link) decideCA(p *place, stored *api.Cluster) error {
	s := p.server
	switch {
	case l.CA != nil:
		s.CertificateAuthorityData, s.InsecureSkipTLSVerify = l.CA, false
	case len(s.CertificateAuthorityData) > 0 || s.InsecureSkipTLSVerify:
	case stored != nil && stored.Server == s.Server && len(stored.CertificateAuthorityData) > 0:
		s.CertificateAuthorityData = stored.CertificateAuthorityData
	case l.From.Entry.InsecureSkipTLSVerify:
		return l.serverFault("NoCertificateAuthority", fmt.Sprintf("the kubeconfig has insecure-skip-tls-verify and no certificate authority for %s", output.Clean(l.From.Context)))
	default:
		p.notes = append(p.notes, fmt.Sprintf("the kubeconfig has no certificate authority for %s: the controllers that read it use the public ones of their image", output.Clean(l.From.Context)))
	}
	return nil
}

func (l *Link) serverFault(id, what string) error {
	p := output.Problem{ID: id, What: what, Advice: fmt.Sprintf("Set the address with --server %s.", output.Quote(l.From.Context+"=https://ADDRESS"))}
	if id == "NoCertificateAuthority" {
		p.Advice = fmt.Sprintf("Set the file of the certificate authority with --ca %s.", output.Quote(l.From.Context+"=FILE"))
	}
	return &fault{p}
}

// loopback reports whether an address is one of the machine that uses it.
func loopback(address string) bool {
	parsed, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := parsed.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// sameServer reports whether two entries lead to the same server in the same way.
func sameServer(a, b *api.Cluster) bool {
	if a == nil || b == nil {
		return false
	}
	return a.Server == b.Server && a.TLSServerName == b.TLSServerName && a.ProxyURL == b.ProxyURL &&
		a.InsecureSkipTLSVerify == b.InsecureSkipTLSVerify && bytes.Equal(a.CertificateAuthorityData, b.CertificateAuthorityData)
}
