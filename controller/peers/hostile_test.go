package peers

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// secretWriter records the Secret that is written.
type secretWriter struct {
	Writer
	written *corev1.Secret
}

func (w *secretWriter) PutSecretData(_ context.Context, secret *corev1.Secret) error {
	w.written = secret
	return nil
}

// TestTokensOfAHostilePeer lets a peer answer a TokenRequest with all kinds of tokens. Only a later
// token of the same account that the peer accepts is stored.
func TestTokensOfAHostilePeer(t *testing.T) {
	old, good := tokenOf(1000, 1600), tokenOf(1400, 2000)
	var mu sync.Mutex
	var answer func(http.ResponseWriter)
	var requests []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, r.Method+" "+r.URL.Path)
		switch bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); {
		case r.Method == http.MethodPost && bearer == old:
			answer(w)
		case r.Method == http.MethodGet && bearer == good:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":"NamespaceList","apiVersion":"v1"}`))
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	text := kubeconfig(t, &rest.Config{Host: server.URL, BearerToken: old, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}})
	token := func(token string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(authenticationv1.TokenRequest{
				TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
				Status:   authenticationv1.TokenRequestStatus{Token: token},
			})
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		fault  string // "" if the token is stored
	}{
		"a good one":             {token(good), ""},
		"one it does not accept": {token(tokenOf(1401, 2000)), "not accepted"},
		"none":                   {token(""), "no token"},
		"YAML":                   {token("x\n- name: evil"), "not a JWT"},
		"YAML behind a JWT":      {token(good + "\"}}\n"), "not a JWT"},
		"a huge one":             {token(strings.Repeat("a", 1<<19)), "limit"},
		"one that never expires": {token(forged(`{"iat":1400,"sub":"system:serviceaccount:s:a"}`)), "never expires"},
		"one of another account": {token(forged(`{"iat":1400,"exp":2000,"sub":"system:serviceaccount:s:b"}`)), "another account"},
		"the old one":            {token(old), "later"},
		"a redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "redirects"},
		"a text without end": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusCreated)
			for chunk := []byte(strings.Repeat(" ", 1<<20)); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, "larger than 1 MiB"},
		"control characters": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("no\x1b[2J"))
		}, "rotate"},
	} {
		t.Run(name, func(t *testing.T) {
			writer := new(secretWriter)
			p := &peer{id: "east", registry: New(Options{Home: "here", Namespace: "system", Writer: writer})}
			to, err := readTarget(text, "")
			if err != nil {
				t.Fatal(err)
			}
			connection, err := newConnection(p, to)
			if err != nil {
				t.Fatal(err)
			}
			defer connection.transport.close()
			of, err := readClaims(old)
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			answer, requests = c.answer, nil
			mu.Unlock()
			err = connection.renewToken(t.Context(), order{secret{version: "7", kubeconfig: text}, old, of})
			if requests[0] != "POST /api/v1/namespaces/s/serviceaccounts/a/token" {
				t.Errorf("the requests are %q", requests)
			}
			if c.fault == "" {
				if err != nil || writer.written.ResourceVersion != "7" || len(writer.written.Data) != 1 || string(writer.written.Data[tokenKey]) != good {
					t.Errorf("%v: %v", err, writer.written)
				}
				return
			}
			if err == nil || writer.written != nil || !strings.Contains(err.Error(), c.fault) {
				t.Fatalf("%v, want %q; written: %v", err, c.fault, writer.written)
			}
			if m := harmless(fmt.Sprint(err)); !strings.Contains(m, "run `kubectl multicluster rotate here --from east`") || strings.ContainsRune(m, '\x1b') {
				t.Errorf("the message is %q", m)
			}
		})
	}
}
