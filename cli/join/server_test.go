package join

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/deploy/peer"
)

const (
	ofKubeconfig = "https://member1.example.org"
	ofStored     = "https://192.0.2.1:6443"
	given        = "https://192.0.2.2:6443"
	ofMachine    = "https://127.0.0.1:6443"
)

// entry is a cluster of a kubeconfig, written as "URL ca=text name=tls-server-name proxy=URL insecure". It is nil for "".
func entry(text string) *api.Cluster {
	if text == "" {
		return nil
	}
	words := strings.Fields(text)
	c := &api.Cluster{Server: words[0]}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "ca":
			c.CertificateAuthorityData = []byte(value)
		case "name":
			c.TLSServerName = value
		case "proxy":
			c.ProxyURL = value
		case "insecure":
			c.InsecureSkipTLSVerify = true
		}
	}
	return c
}

// TestPlace: which address, which names and which certificate authority a reader gets.
func TestPlace(t *testing.T) {
	for _, c := range []struct {
		name            string
		kubeconfig      string // the entry of the cluster that is read
		stored          string // what the reader has
		server, ca      string // of the flags
		reader          string // the address of the reader in the kubeconfig
		want, id        string // the place, or the ID of the problem
		notes, warnings int
		noted           string
	}{
		{name: "all of the kubeconfig", kubeconfig: ofKubeconfig + " ca=A name=n proxy=http://p", want: ofKubeconfig + " ca=A name=n proxy=http://p"},
		{name: "what is stored is the same", kubeconfig: ofKubeconfig + " ca=A", stored: ofKubeconfig + " ca=A", want: ofKubeconfig + " ca=A"},
		{name: "a changed authority and name", kubeconfig: ofKubeconfig + " ca=B name=n", stored: ofKubeconfig + " ca=A", want: ofKubeconfig + " ca=B name=n"},
		{name: "a given address has no name and proxy of another", kubeconfig: ofKubeconfig + " ca=A name=n proxy=http://p", server: given, want: given + " ca=A"},
		{name: "a given address that the kubeconfig has", kubeconfig: ofKubeconfig + " ca=A name=n", server: ofKubeconfig, stored: ofStored + " ca=B", want: ofKubeconfig + " ca=A name=n"},
		{name: "a given address that is stored", kubeconfig: ofKubeconfig + " ca=A", server: ofStored, stored: ofStored + " ca=B name=n", want: ofStored + " ca=A name=n"},
		{name: "a given address that is stored, and an authority", kubeconfig: ofKubeconfig + " ca=A", server: ofStored, ca: "C", stored: ofStored + " ca=B", want: ofStored + " ca=C"},
		{name: "a given address that is stored, and public authorities", kubeconfig: ofKubeconfig, server: ofStored, stored: ofStored + " ca=B", want: ofStored + " ca=B"},
		{name: "a stored address with the authority of the kubeconfig", kubeconfig: ofKubeconfig + " ca=A", stored: ofStored + " ca=A", want: ofStored + " ca=A", notes: 1},
		{name: "a stored address stays, with what belongs to it", kubeconfig: ofKubeconfig + " ca=A name=n", stored: ofStored + " ca=B proxy=http://q", want: ofStored + " ca=B proxy=http://q", notes: 2, noted: "with --server member1=" + ofStored + ", or another one with --ca member1=FILE"},
		{name: "a stored address with an authority that is given", kubeconfig: ofKubeconfig + " ca=A", stored: ofStored + " ca=B", ca: "C", want: ofStored + " ca=C", notes: 1},
		{name: "a stored address that cannot be used", kubeconfig: ofKubeconfig + " ca=A", stored: "http://192.0.2.1", want: ofKubeconfig + " ca=A"},
		{name: "public authorities", kubeconfig: ofKubeconfig, want: ofKubeconfig, notes: 1, noted: "public ones"},
		{name: "an authority given earlier", kubeconfig: ofKubeconfig + " insecure", stored: ofKubeconfig + " ca=A", want: ofKubeconfig + " ca=A"},
		{name: "no check of certificates", kubeconfig: ofKubeconfig + " insecure", id: "NoCertificateAuthority"},
		{name: "no check of certificates, at another address", kubeconfig: ofKubeconfig + " insecure", server: given, id: "NoCertificateAuthority"},
		{name: "no check of certificates, and an authority", kubeconfig: ofKubeconfig + " insecure", ca: "A", want: ofKubeconfig + " ca=A"},
		{name: "no TLS", kubeconfig: "http://member1.example.org", id: "InvalidServer"},
		{name: "no address", kubeconfig: "member1.example.org", id: "InvalidServer"},
		{name: "a password in the address", kubeconfig: "https://bob:hunter2@member1.example.org ca=A", id: "InvalidServer"},
		{name: "a query in the address", kubeconfig: "https://member1.example.org/x?token=y ca=A", id: "InvalidServer"},
		{name: "a fragment in the address", kubeconfig: "https://member1.example.org/#x ca=A", id: "InvalidServer"},
		{name: "a path in the address", kubeconfig: "https://rancher.example.org/k8s/clusters/c-1 ca=A", want: "https://rancher.example.org/k8s/clusters/c-1 ca=A"},
		{name: "a proxy of this machine", kubeconfig: ofKubeconfig + " ca=A proxy=http://127.0.0.1:3128", want: ofKubeconfig + " ca=A proxy=http://127.0.0.1:3128", warnings: 1},
		{name: "an address of this machine", kubeconfig: ofMachine + " ca=A", want: ofMachine + " ca=A", warnings: 1},
		{name: "localhost", kubeconfig: "https://localhost:6443 ca=A", want: "https://localhost:6443 ca=A", warnings: 1},
		{name: "both on this machine", kubeconfig: ofMachine + " ca=A", reader: "https://[::1]:6443", want: ofMachine + " ca=A"},
		{name: "an address of this machine, and another one given", kubeconfig: ofMachine + " ca=A", server: given, want: given + " ca=A"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.reader == "" {
				c.reader = "https://member2.example.org"
			}
			l := &Link{
				From: &Member{Context: "member1", id: "member1", Entry: entry(c.kubeconfig)}, To: &Member{Context: "member2", id: "member2", Entry: entry(c.reader)},
				Server: c.server,
			}
			if c.ca != "" {
				l.CA = []byte(c.ca)
			}
			got, err := l.place(&peerSecret{server: entry(c.stored)})
			var problem *fault
			if c.id != "" {
				if !errors.As(err, &problem) || problem.ID != c.id || problem.Advice == "" || strings.Contains(problem.What, "hunter2") {
					t.Errorf("the error is %v, want %s with advice", err, c.id)
				}
				return
			}
			if err != nil || !sameServer(got.server, entry(c.want)) {
				t.Fatalf("%+v, %v; want %s", got.server, err, c.want)
			}
			if len(got.notes) != c.notes || len(got.warnings) != c.warnings || !strings.Contains(strings.Join(got.notes, ""), c.noted) {
				t.Errorf("notes %q, warnings %q", got.notes, got.warnings)
			}
		})
	}
}

// TestFresh: a token is kept before two thirds of its life, if it is one of the reader's account.
func TestFresh(t *testing.T) {
	issued := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	token := func(account, uid string, life time.Duration) string {
		claims := jwt.MapClaims{
			"sub": "system:serviceaccount:" + peer.Namespace + ":" + account, "iat": issued.Unix(),
			"kubernetes.io": map[string]any{"serviceaccount": map[string]any{"uid": uid}},
		}
		if life > 0 {
			claims["exp"] = issued.Add(life).Unix()
		}
		text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("key"))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, c := range []struct {
		name  string
		token string
		after time.Duration
		want  bool
	}{
		{"new", token("multicluster-peer-member2", "1", time.Hour), 0, true},
		{"before two thirds", token("multicluster-peer-member2", "1", time.Hour), 39 * time.Minute, true},
		{"after two thirds", token("multicluster-peer-member2", "1", time.Hour), 41 * time.Minute, false},
		{"of a former account", token("multicluster-peer-member2", "2", time.Hour), 0, false},
		{"of another reader", token("multicluster-peer-member3", "1", time.Hour), 0, false},
		{"of the shared account", token("multicluster-peer", "1", 0), 0, false},
		{"without an end", token("multicluster-peer-member2", "1", 0), 0, false},
		{"no JWT", "secret", 0, false},
		{"none", "", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := claimsOf(c.token).fresh("member2", "1", issued.Add(c.after)); got != c.want {
				t.Errorf("fresh %v", got)
			}
		})
	}
}

// TestCommandsKeepFlags: a printed command has the flags that its link would lack.
func TestCommandsKeepFlags(t *testing.T) {
	l := &Link{From: &Member{Context: "member1", GivenID: "m1"}, To: &Member{Context: "member2"}, Server: given, CA: []byte("A"), CAFile: "my ca.crt"}
	for _, c := range []struct{ got, want string }{
		{l.command("join", Options{}.kind()...), "kubectl multicluster join member2 --from member1 --id member1=m1 --server member1=" + given + " --ca 'member1=my ca.crt'"},
		{l.command("join", Options{Expiring: 2 * time.Hour}.kind()...), "kubectl multicluster join member2 --from member1 --expiring 2h0m0s --id member1=m1 --server member1=" + given + " --ca 'member1=my ca.crt'"},
		{(&Link{From: &Member{Context: "a"}, To: &Member{Context: "b"}}).command("join", Options{Static: true}.kind()...), "kubectl multicluster join b --from a --static"},
		{(&Link{From: &Member{Context: "a,b"}, To: &Member{Context: "c"}}).command("join"), `kubectl multicluster join c --from '"a,b"'`},
		{l.command("rotate"), "kubectl multicluster rotate member2 --from member1 --id member1=m1"},
	} {
		if c.got != c.want {
			t.Errorf("%s\nwant\n%s", c.got, c.want)
		}
	}
}

// TestErrorsHaveNoTokens: an admission webhook can repeat what it was sent.
func TestErrorsHaveNoTokens(t *testing.T) {
	const token = "eyJhbGciOi.secret"
	err := fmt.Errorf("denied: token %s, data ZXlKaGJHY2lPaS5zZWNyZXQ=", token)
	if got := without(err, token); got != "denied: token (redacted), data (redacted)" {
		t.Error(got)
	}
}
