package explain

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/system"
)

// A cluster that nobody looked at is not one without an export.
func TestContextsAboveTheLimitAreUnread(t *testing.T) {
	q := Question{Server: func(string) string { return "" }}
	for i := range maxContexts + 2 {
		c, err := clusters.New(fmt.Sprint("context-", i), &rest.Config{Host: "https://127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		q.Others = append(q.Others, c)
	}
	unread := map[string]string{}
	if found := readOthers(t.Context(), q, system.Identity{}, unread); len(found) > 0 || len(unread) != len(q.Others) {
		t.Errorf("%d clusters are read, and %d of %d are noted as unread", len(found), len(unread), len(q.Others))
	}
}

// The limits of a peer come with the list of Secrets: a second request, which can fail, would lose them.
func TestLimitsOfPeers(t *testing.T) {
	for _, forbidden := range []bool{false, true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case strings.HasSuffix(r.URL.Path, "/secrets") && !forbidden:
				_, _ = w.Write([]byte(`{"kind": "SecretList", "apiVersion": "v1", "items": [{"metadata": {"name": "member1", "annotations": {"clusterset-dns.io/namespaces": "shop"}}}]}`))
			case strings.HasSuffix(r.URL.Path, "/leases"):
				_, _ = w.Write([]byte(`{"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "items": [{"metadata": {"name": "member1"}}]}`))
			default:
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}`))
			}
		}))
		defer server.Close()
		c, err := clusters.New("here", &rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		found := peers(t.Context(), c)
		if len(found.Value) != 1 || found.Value[0].SecretsUnknown != forbidden || (found.Value[0].Annotations["clusterset-dns.io/namespaces"] == "shop") == forbidden {
			t.Errorf("forbidden %v: %+v", forbidden, found)
		}
	}
}

// The local clock can be wrong. Heartbeats are judged by that of the API server.
func TestClockOfTheCluster(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(-24*time.Hour).UTC().Format(http.TimeFormat))
		if r.URL.Path != "/version" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"gitVersion": "v1.30.0"}`))
	}))
	defer server.Close()
	c, err := clusters.New("here", &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	of := read(t.Context(), c, Question{Server: func(string) string { return "" }}, known{}, false)
	if late := time.Since(of.Now); late < 23*time.Hour || late > 25*time.Hour {
		t.Errorf("the clock of the cluster is %v late, want a day", late)
	}
}

// What the package asks the API servers for is in the table of rights.
func TestRightsAreInTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rights, _ := strings.Cut(string(text), "\n## Rights\n")
	_, row, _ := strings.Cut(rights, "\n| `explain` |")
	row, _, _ = strings.Cut(row, "\n")
	var requests string
	for _, file := range []string{"explain.go", "cluster.go", "dns.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		requests += string(source)
	}
	for call, right := range map[string]string{
		"GetLogs(": "get `pods/log`", "SubjectAccessReviews(": "create `subjectaccessreviews`", "MutatingAdmissionPolicyBindings(": "get `mutatingadmissionpolicybindings`",
		"Nodes(": "list Nodes", "ServiceCIDRs(": "ServiceCIDRs", "EndpointSlices(": "EndpointSlices", "dnsserver.Ask(": "`create pods/portforward`", "ConfigMaps(": "get ConfigMaps",
	} {
		if !strings.Contains(requests, call) {
			t.Errorf("no request is made by %s: this test is out of date", call)
		}
		if !strings.Contains(row, right) {
			t.Errorf("docs/cli.md does not have %q in the row of explain", right)
		}
	}
}

// Of two clusters with one ID, the authority in the Secret tells which one is the peer.
func TestAuthorities(t *testing.T) {
	const pem = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----"
	config, err := clientcmd.Write(api.Config{
		Clusters: map[string]*api.Cluster{"a": {Server: "https://inside", CertificateAuthorityData: []byte(pem + "\n")}},
		Contexts: map[string]*api.Context{"a": {Cluster: "a"}}, CurrentContext: "a",
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/leases") {
			_, _ = w.Write([]byte(`{"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1"}`))
			return
		}
		_, _ = fmt.Fprintf(w, `{"kind": "SecretList", "apiVersion": "v1", "items": [{"metadata": {"name": "member1"}, "data": {"kubeconfig": %q}}]}`, base64.StdEncoding.EncodeToString(config))
	}))
	defer server.Close()
	c, err := clusters.New("here", &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if found := peers(t.Context(), c); len(found.Value) != 1 || found.Value[0].CA != pem || found.Value[0].Server != "https://inside" {
		t.Errorf("the Secret: %+v", found)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte(pem+"\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tls := range map[string]rest.TLSClientConfig{"data": {CAData: []byte(pem)}, "a file": {CAFile: file}} {
		if got := authority(&rest.Config{TLSClientConfig: tls}); got != pem {
			t.Errorf("the context has %s: got %q", name, got)
		}
	}
}
