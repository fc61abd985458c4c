package peers

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
)

// TestKubeconfigsAreData checks that a kubeconfig in a Secret cannot make the controller read a
// file or run a program.
func TestKubeconfigsAreData(t *testing.T) {
	good := &rest.Config{Host: "https://east.example:6443", BearerToken: "token"}
	for name, c := range map[string]struct {
		change func(*api.Cluster, *api.AuthInfo)
		wrong  string
	}{
		"a token": {func(*api.Cluster, *api.AuthInfo) {}, ""},
		"a client certificate": {func(_ *api.Cluster, u *api.AuthInfo) {
			u.ClientCertificateData, u.ClientKeyData = []byte("c"), []byte("k")
		}, ""},
		"no check of the server":       {func(c *api.Cluster, _ *api.AuthInfo) { c.InsecureSkipTLSVerify = true }, ""},
		"another name of the server":   {func(c *api.Cluster, _ *api.AuthInfo) { c.TLSServerName = "kubernetes" }, ""},
		"a program":                    {func(_ *api.Cluster, u *api.AuthInfo) { u.Exec = &api.ExecConfig{Command: "true"} }, "exec"},
		"an auth provider":             {func(_ *api.Cluster, u *api.AuthInfo) { u.AuthProvider = &api.AuthProviderConfig{Name: "oidc"} }, "auth-provider"},
		"a file with a token":          {func(_ *api.Cluster, u *api.AuthInfo) { u.TokenFile = "/token" }, "tokenFile"},
		"a file with a certificate":    {func(_ *api.Cluster, u *api.AuthInfo) { u.ClientCertificate = "/cert" }, "client-certificate-data"},
		"a file with a key":            {func(_ *api.Cluster, u *api.AuthInfo) { u.ClientKey = "/key" }, "client-key-data"},
		"a file with authorities":      {func(c *api.Cluster, _ *api.AuthInfo) { c.CertificateAuthority = "/ca" }, "certificate-authority-data"},
		"a relative file":              {func(c *api.Cluster, _ *api.AuthInfo) { c.CertificateAuthority = "ca" }, "certificate-authority-data"},
		"no server":                    {func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "" }, "cannot be used"},
		"a certificate without a key":  {func(_ *api.Cluster, u *api.AuthInfo) { u.ClientCertificateData = []byte("c") }, "cannot be used"},
		"a file beside the inline one": {func(_ *api.Cluster, u *api.AuthInfo) { u.ClientKey, u.ClientKeyData = "/key", []byte("k") }, "client-key-data"},
	} {
		t.Run(name, func(t *testing.T) {
			to, err := readTarget(kubeconfig(t, good, c.change), "")
			switch {
			case c.wrong == "" && (err != nil || to.config.Host != good.Host || to.token != "token" || to.config.BearerToken != ""):
				t.Errorf("%v", err)
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("%v; want one of %q", err, c.wrong)
			}
		})
	}
	for want, config := range map[string]*rest.Config{
		"": good, "not encrypted": {Host: "HTTP://east.example"}, "everybody on the way": {Host: "10.0.0.1:8080"}, "not verified": {Host: good.Host, TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
	} {
		if got := exposureOf(config); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: the message is %q", config.Host, got)
		}
	}
	for name, text := range map[string]string{
		"no text": "", "no kubeconfig": "a: b: c", "another kind": "apiVersion: v1\nkind: Pod",
		"no current context": strings.Replace(string(kubeconfig(t, good)), "current-context: x", "current-context: z", 1),
	} {
		if to, err := readTarget([]byte(text), ""); err == nil {
			t.Errorf("%s: it is taken for %v", name, to.config)
		}
	}
}
