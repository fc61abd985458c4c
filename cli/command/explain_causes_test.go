package command_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/cli/testing/node"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

func before(text, mark string) string {
	found, _, _ := strings.Cut(text, mark)
	return found
}

// userImport is an import that a user made, not the controller.
func userImport(spec string) string {
	return `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: foo}
spec: {type: ClusterSetIP, ` + spec + `}
`
}

const userSlice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: foo-user, labels: {multicluster.kubernetes.io/service-name: foo, endpointslice.kubernetes.io/managed-by: user}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [10.1.0.5], conditions: {ready: true}}]
`

const nodeLocal = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: node-local-dns}
spec:
  selector: {matchLabels: {k8s-app: node-local-dns}}
  template:
    metadata: {labels: {k8s-app: node-local-dns}}
    spec: {containers: [{name: node-cache, image: node-cache}]}
`

// editPeer changes the kubeconfig in the Secret of the peer member1.
func (l *lab) editPeer(edit func(*api.Config)) {
	l.Helper()
	secrets := l.Clusters["member2"].Kube.CoreV1().Secrets(system.Namespace)
	found, err := secrets.Get(l.all.Context(), "member1", metav1.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	config, err := clientcmd.Load(found.Data[system.KubeconfigKey])
	if err != nil {
		l.Fatal(err)
	}
	edit(config)
	if found.Data[system.KubeconfigKey], err = clientcmd.Write(*config); err != nil {
		l.Fatal(err)
	}
	if _, err := secrets.Update(l.all.Context(), found, metav1.UpdateOptions{}); err != nil {
		l.Fatal(err)
	}
}

// before puts a server before the API server of member1. It answers the lists and watches of EndpointSlices in its
// place until l.resume. What the controller asks to see whether it is connected passes.
func (l *lab) before(answer http.HandlerFunc) {
	l.Helper()
	server, err := faultproxy.Before(l.Clusters["member1"].Config)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		l.leave()
		_ = server.Close()
		l.sh("kubectl multicluster join member1 member2")
	})
	l.resume = server.Instead(func(r *http.Request) bool {
		return strings.HasPrefix(r.URL.Path, "/apis/discovery.k8s.io/v1/endpointslices") && !r.URL.Query().Has("fieldSelector")
	}, answer)
	front := server.Config(l.Clusters["member1"].Config)
	l.editPeer(func(config *api.Config) {
		for _, cluster := range config.Clusters {
			cluster.Server, cluster.CertificateAuthorityData = front.Host, front.CAData
		}
	})
}

// leave removes the peer member1 on purpose, and waits until it has left.
func (l *lab) leave() {
	l.Helper()
	l.markLeaving()
	kube.Eventually(l, "member1 has left", func() error {
		peers, err := system.ReadPeers(l.all.Context(), l.Clusters["member2"].Kube)
		if err == nil && len(peers) > 0 {
			err = fmt.Errorf("there is %+v", peers)
		}
		return err
	})
}

// markLeaving removes the Secret of the peer member1 on purpose.
func (l *lab) markLeaving() {
	l.Helper()
	at := []string{"-n", system.Namespace}
	l.Kubectl("member2", append(at, "annotate", "--overwrite", "secrets,leases", "-l", "clusterset-dns.io/peer", "--field-selector", "metadata.name=member1", "clusterset-dns.io/leaving=true")...)
	l.Kubectl("member2", append(at, "delete", "secret", "member1")...)
}

// anyType makes an import of a type that no version of the API has, as a CRD without an enumeration of types
// allows.
func (l *lab) anyType(namespace string) {
	l.Helper()
	const schema = "/schema/openAPIV3Schema/properties/spec/properties/type/enum"
	var patch []string
	for version := range 2 {
		patch = append(patch, fmt.Sprintf(`{"op": "remove", "path": "/spec/versions/%d%s"}`, version, schema))
	}
	l.Kubectl("member2", "patch", "crd", "serviceimports.multicluster.x-k8s.io", "--type", "json", "--patch", "["+strings.Join(patch, ",")+"]")
	kube.Eventually(l, "the API server takes any type", func() error {
		return l.Clusters["member2"].Apply(l.all.Context(), namespace, strings.Replace(userImport("ports: [{name: http, port: 80}]"), "ClusterSetIP", "External", 1))
	})
}

// renamePeer gives the Secret of the peer member1 another name.
func (l *lab) renamePeer(name string) {
	l.Helper()
	secrets := l.Clusters["member2"].Kube.CoreV1().Secrets(system.Namespace)
	found, err := secrets.Get(l.all.Context(), "member1", metav1.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	l.leave()
	found.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: found.Labels}
	if _, err := secrets.Create(l.all.Context(), found, metav1.CreateOptions{}); err != nil {
		l.Fatal(err)
	}
}

// expiredToken is a token of the peer's account that the API server of member1 has signed, and that has expired.
func (l *lab) expiredToken() string {
	l.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(l.Clusters["member1"].Kubeconfig), "tokens.key"))
	if err != nil {
		l.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		l.Fatal(err)
	}
	now := time.Now()
	part := func(of map[string]any) string {
		text, err := json.Marshal(of)
		if err != nil {
			l.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(map[string]any{"alg": "ES256", "typ": "JWT"}) + "." + part(map[string]any{
		"iss": "https://kubernetes.default.svc", "aud": []string{"https://kubernetes.default.svc"},
		"sub": "system:serviceaccount:multicluster-system:multicluster-peer",
		"iat": now.Add(-2 * time.Hour).Unix(), "nbf": now.Add(-2 * time.Hour).Unix(), "exp": now.Add(-time.Hour).Unix(),
	})
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		l.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// flag gives a controller a flag, in its Deployment and for real. "" removes it.
func (l *lab) flag(id, flag string) {
	l.Helper()
	deployments := l.Clusters[id].Kube.AppsV1().Deployments(system.Namespace)
	found, err := deployments.Get(l.all.Context(), system.Controller, metav1.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	var flags []string
	if flag != "" {
		flags = []string{flag}
	}
	container := &found.Spec.Template.Spec.Containers[0]
	container.Args = append(slices.DeleteFunc(container.Args, func(arg string) bool { return strings.Contains(arg, "port-namespaces=") }), flags...)
	if _, err := deployments.Update(l.all.Context(), found, metav1.UpdateOptions{}); err != nil {
		l.Fatal(err)
	}
	l.restart(id, flags...)
}

// policy refuses an operation of the controller in a namespace of member2, as a cluster's administrators can.
func (l *lab) policy(namespace, resource, operation string) {
	l.Helper()
	group, version := "", "v1"
	if resource == "serviceimports" {
		group, version = "multicluster.x-k8s.io", "*"
	}
	l.apply("member2", "", fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: refuse}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %q}}
    resourceRules: [{apiGroups: [%q], apiVersions: [%q], operations: [%s], resources: [%s]}]
  validations: [{expression: "false", message: "no %s here"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: refuse}
spec: {policyName: refuse, validationActions: [Deny]}
`, namespace, group, version, operation, resource, resource))
	kube.Eventually(l, "the policy is in effect", func() error {
		try := []string{"label", "serviceimport", "foo", "probe=x"}
		if resource == "services" {
			try = []string{"create", "service", "clusterip", "probe", "--tcp=80"}
		}
		_, err := binaries.Kubectl(l.all.Context(), l.Clusters["member2"].Cluster, append(try, "--namespace="+namespace, "--dry-run=server")...)
		if err == nil || !strings.Contains(err.Error(), "no "+resource+" here") {
			return fmt.Errorf("not refused: %w", err)
		}
		return nil
	})
}

func (l *lab) noPolicy(string) {
	l.Helper()
	l.Kubectl("member2", "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "refuse")
}

// rival is another writer that sets spec.ips of an import back again and again.
func (l *lab) rival(namespace string) {
	l.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(l.all.Context()))
	done := make(chan struct{})
	l.Cleanup(func() { stop(); <-done })
	l.stopRival = func() { stop(); <-done }
	imports := l.Clusters["member2"].Dynamic.Resource(importsResource).Namespace(namespace)
	go func() {
		defer close(done)
		changed, err := imports.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=foo"})
		if err != nil {
			return
		}
		defer changed.Stop()
		for {
			_, _ = imports.Patch(ctx, "foo", types.MergePatchType, []byte(`{"spec": {"ips": []}}`), metav1.PatchOptions{FieldManager: "rival"})
			select {
			case <-ctx.Done():
				return
			case _, open := <-changed.ResultChan():
				if !open {
					return
				}
			}
		}
	}()
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: client}
spec:
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec: {dnsConfig: {searches: [example.org]}, containers: [{name: client, image: client}]}
`

// client makes a pod in member2, as the Deployment client does.
func (l *lab) client(namespace, spec string) {
	l.Helper()
	l.apply("member2", namespace, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: default}
---
apiVersion: v1
kind: Pod
metadata:
  name: client
  labels: {app: client, pod-template-hash: "1"}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: client-1, uid: "1", controller: true}]
spec:
  nodeName: `+node.Name+`
  automountServiceAccountToken: false
  `+spec+`
  containers: [{name: client, image: client}]
`)
}

// podNetwork lets a cluster have a network of pods.
func (l *lab) podNetwork(id, cidr string) {
	l.Helper()
	l.Kubectl(id, "delete", "node", "worker", "--ignore-not-found")
	l.apply(id, "", `
apiVersion: v1
kind: Node
metadata: {name: worker}
spec: {podCIDR: `+cidr+`, podCIDRs: [`+cidr+`]}
`)
}

// crash lets a DNS pod fail again and again, with a log.
func (l *lab) crash(namespace, name, log string) {
	l.Helper()
	pod, err := l.Clusters["member2"].Kube.CoreV1().Pods(namespace).Get(l.all.Context(), name, metav1.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	l.podStatus(pod, false, "CrashLoopBackOff")
	l.node.Log(namespace, name, log)
}
