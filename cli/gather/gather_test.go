package gather_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/cli/testing/node"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// The credentials that the test hides in the cluster.
var (
	claims   = base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://issuer.example.org","sub":"system:serviceaccount:multicluster-system:multicluster-peer","iat":1790000000,"exp":1800000000}`))
	token    = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + claims + ".c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
	opaque   = "correct-horse<battery>staple"
	variable = "plain-value-of-a-variable"
	flagged  = "token-in-a-flag-1234"
	aws      = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"
	bearer   = "some.opaque.bearer-token-in-a-log"
	logKey   = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIBunknownkeyofnobody\n-----END EC PRIVATE KEY-----"
	userinfo = "hunter22"
)

func hidden() []string {
	return []string{token, opaque, variable, flagged, aws, bearer, logKey, "MHcCAQEEIBunknownkeyofnobody", userinfo}
}

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: peer
contexts: [{name: peer, context: {cluster: peer, user: peer}}]
clusters: [{name: peer, cluster: {server: "https://peer.example.org:6443"}}]
users: [{name: peer, user: {token: TOKEN}}]
`

// objects hide credentials in many places.
func objects() string {
	encoded := base64.StdEncoding.EncodeToString
	return strings.NewReplacer("KUBECONFIG", encoded([]byte(strings.ReplaceAll(kubeconfig, "TOKEN", token))), "OPAQUE64", encoded([]byte(opaque)),
		"OPAQUE", opaque, "VARIABLE", variable, "FLAGGED", flagged, "TOKEN", token, "AWS", aws, "USERINFO", userinfo).Replace(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: multicluster-system}
---
apiVersion: v1
kind: Secret
metadata:
  name: member2
  namespace: multicluster-system
  labels: {clusterset-dns.io/peer: ""}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"data": {"kubeconfig": "KUBECONFIG"}}', note: "OPAQUE"}
data: {kubeconfig: KUBECONFIG}
---
apiVersion: v1
kind: Secret
metadata: {name: other, namespace: multicluster-system}
data: {password: OPAQUE64}
---
apiVersion: v1
kind: Pod
metadata:
  name: multicluster-controller-1
  namespace: multicluster-system
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"env": [{"name": "X", "value": "VARIABLE"}]}'}
spec:
  nodeName: node
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: controller
      image: registry.invalid/controller
      args: [--cluster-id=member1, --token=FLAGGED, "--proxy=http://user:USERINFO@proxy.example.org"]
      env: [{name: SETTING, value: VARIABLE}, {name: CLUSTER_ID, value: member1}, {name: REF, valueFrom: {secretKeyRef: {name: other, key: password}}}]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: v1
kind: Event
metadata: {name: event, namespace: multicluster-system}
involvedObject: {kind: Secret, name: member2, namespace: multicluster-system}
reason: Refused
message: "refused the token TOKEN"
---
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
    .:53 {
        route53 example.org.:ZONE {
            aws_access_key AKIAEXAMPLE AWS
        }
        forward . 10.0.0.1
    }
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: foo, namespace: default, annotations: {note: "OPAQUE and TOKEN"}}
`)
}

// unpacked returns the files of an archive, in their order.
func unpacked(t *testing.T, path string) (names []string, files map[string]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(compressed)
	files = map[string]string{}
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names, files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		names, files[name] = append(names, name), string(text)
	}
}

// encodings are how a credential can be in a text: as it is, and in base64 at each place of a group.
func encodings(secret string) []string {
	all := []string{secret}
	for shift := range 3 {
		text := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret + "xx"))
		all = append(all, text[4:len(text)-4])
	}
	return all
}

// No credential is in the archive, wherever it was in the cluster. What helps is there.
func TestNoCredentials(t *testing.T) {
	w := world.New(t, "member1")
	c := w.Clusters["member1"]
	n := node.Start(t, c.Kube)
	if err := c.Apply(t.Context(), "", objects()); err != nil {
		t.Fatal(err)
	}
	w.Announce("member1", "member1")
	status := []byte(`{"status": {"containerStatuses": [{"name": "controller", "restartCount": 1, "image": "", "imageID": "", "ready": true}]}}`)
	if _, err := c.Kube.CoreV1().Pods("multicluster-system").Patch(t.Context(), "multicluster-controller-1", types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	n.Log("multicluster-system", "multicluster-controller-1", strings.Join([]string{
		"a harmless line", "the token is " + token, "Authorization: Bearer " + bearer, logKey, "password=" + flagged,
		base64.StdEncoding.EncodeToString([]byte(opaque)), "GET https://user:" + userinfo + "@example.org/ failed",
		base64.StdEncoding.EncodeToString([]byte(logKey)),
	}, "\n"))
	w.Config.Contexts["gone"] = w.Config.Contexts["member1"].DeepCopy()
	w.Config.Contexts["gone"].Cluster = "gone"
	w.Config.Clusters["gone"] = w.Config.Clusters["member1"].DeepCopy()
	w.Config.Clusters["gone"].Server = "https://127.0.0.1:1"
	w.WriteConfig()

	file := filepath.Join(t.TempDir(), "report.tar.gz")
	result := w.Run("gather", "-f", file)
	if result.Status != 0 || !strings.Contains(result.Out, "left out: 0") {
		t.Fatalf("%+v", result)
	}
	names, files := unpacked(t, file)
	key := w.Config.AuthInfos["member1"].ClientKeyData
	for _, secret := range append(hidden(), string(key), "last-applied-configuration", "managedFields") {
		for _, text := range encodings(secret) {
			for name, content := range files {
				if strings.Contains(content, text) {
					t.Errorf("%s contains %q of %q", name, text, secret)
				}
			}
		}
	}
	if names[0] != "summary.md" {
		t.Errorf("the first file is %s", names[0])
	}
	for name, want := range map[string][]string{
		"summary.md":           {"## What is wrong", "**Controller**, member1: 0 of 2 replicas", "**APIServer**, gone:", "| member1 | member1 |"},
		"check.json":           {`"id": "Controller"`},
		"member1/version.json": {"gitVersion"},
		"member1/secrets.json": {`"kubeconfig": `, `"server": "https://peer.example.org:6443"`, `"issuer": "https://issuer.example.org"`, `"expires": "2027-01-15T08:00:00Z"`},
		"member1/multicluster-system/logs/multicluster-controller-1/controller.log":          {"a harmless line"},
		"member1/multicluster-system/logs/multicluster-controller-1/controller.previous.log": {"a harmless line"},
		"member1/multicluster-system/pods.json":                                              {"--cluster-id=member1", `"name": "REF"`, `"secretKeyRef"`, `"value": "member1"`, `"value": "<redacted>"`},
		"member1/multicluster-system/events.json":                                            {"refused the token"},
		"member1/kube-system/configmaps/coredns/Corefile":                                    {"forward . 10.0.0.1", "aws_access_key <redacted>"},
		"member1/serviceexports.json":                                                        {`"name": "foo"`},
		"member1/clusterroles.json":                                                          {"multicluster-controller"},
		"member1/crds.json":                                                                  {"serviceimports.multicluster.x-k8s.io"},
	} {
		for _, text := range want {
			if !strings.Contains(files[name], text) {
				t.Errorf("%s does not contain %q: %.2000s", name, text, files[name])
			}
		}
	}
	withheld(t, w, n)
	untouched(t, w, file)
}

// withheld is a value in an encoding that cannot be replaced: in the middle of base64.
func withheld(t *testing.T, w *world.World, n *node.Node) {
	t.Helper()
	n.Log("multicluster-system", "multicluster-controller-1", base64.StdEncoding.EncodeToString([]byte("user:"+opaque+":more")))
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	result := w.Run("gather", "--contexts", "member1", "-f", file)
	_, files := unpacked(t, file)
	const log = "member1/multicluster-system/logs/multicluster-controller-1/controller.log"
	if !strings.Contains(result.Out, "left out: 2") || !strings.Contains(files[log], "This file is left out") || !strings.Contains(files["summary.md"], log) {
		t.Errorf("%+v, %q", result, files[log])
	}
}

// untouched is a file that exists.
func untouched(t *testing.T, w *world.World, file string) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if result := w.Run("gather", "-f", file); result.Status != 1 || !strings.Contains(result.Err, "--force") {
		t.Errorf("a file that exists: %+v", result)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed, %v", err)
	}
	if result := w.Run("gather", "-f", file, "--force", "--contexts", "member1"); result.Status != 0 {
		t.Errorf("--force: %+v", result)
	}
	if result := w.Run("gather", "-f", filepath.Join(file, "none")); result.Status != 1 {
		t.Errorf("a folder that does not exist: %+v", result)
	}
}

// After Ctrl-C, there is no file, and no part of one.
func TestInterrupted(t *testing.T) {
	w := world.New(t, "member1")
	ctx, interrupt := context.WithCancel(t.Context())
	w.Disguise(t, "member1", "member1", func(r *http.Response) error {
		if strings.Contains(r.Request.URL.Path, "/serviceimports") { // In the middle of the work.
			interrupt()
		}
		return nil
	})
	folder := t.TempDir()
	if result := w.RunContext(ctx, "gather", "-f", filepath.Join(folder, "report.tar.gz")); result.Status != 1 || !strings.Contains(result.Err, "interrupted") {
		t.Errorf("%+v", result)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// A cluster without the project is gathered, too, and what the user may not read is named.
func TestForbidden(t *testing.T) {
	w := world.New(t, "member1")
	config, _, err := w.Clusters["member1"].ServiceAccount(t.Context(), "accounts", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	user := w.Config.AuthInfos["member1"]
	user.ClientCertificateData, user.ClientKeyData, user.Token = nil, nil, config.BearerToken
	w.WriteConfig()
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	result := w.Run("gather", "-f", file)
	_, files := unpacked(t, file)
	if result.Status != 0 || !strings.Contains(files["summary.md"], "member1/serviceexports.json: serviceexports.multicluster.x-k8s.io is forbidden") {
		t.Errorf("%+v\n%s", result, files["summary.md"])
	}
	for name, content := range files {
		if strings.Contains(content, config.BearerToken) {
			t.Errorf("%s contains the user's token", name)
		}
	}
	if content, there := files["member1/serviceexports.json"]; there {
		t.Errorf("what was not read is in the archive: %s", content)
	}
}
