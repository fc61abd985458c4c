// Package conformance stands for the public conformance suite of kubernetes-sigs/mcs-api, which is no part of this repository. It takes the
// same flags and needs the same of its place: two contexts of one kubeconfig, two images that no node pulls, a clusterset that serves an export
// of v1alpha1, and a folder for its report.
package conformance

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
)

var (
	kubeconfig = flag.String("kubeconfig", "", "the kubeconfig")
	contexts   = flag.String("contexts", "", "its contexts, with commas")
)

func TestConformance(t *testing.T) {
	names := strings.Split(*contexts, ",")
	if len(names) != 2 {
		t.Fatalf("-contexts=%s: want two", *contexts)
	}
	from, at := connect(t, names[0]), connect(t, names[1])
	namespace := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "stub-conformance-"}}
	create(t, from, &namespace)
	name := namespace.Name
	create(t, at, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	for _, c := range []client.Client{from, at} {
		t.Cleanup(func() {
			if err := c.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
				t.Error(err)
			}
		})
	}
	meta := metav1.ObjectMeta{Namespace: name, Name: "hello", Labels: map[string]string{"app": "hello"}}
	serve := `socat TCP6-LISTEN:42,reuseaddr,fork,ipv6only=0 SYSTEM:'echo pod of the first cluster'`
	create(t, from, &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "hello", Image: "alpine/socat:1.7.4.4", Command: []string{"/bin/sh"}, Args: []string{"-c", serve}}}}})
	create(t, from, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: meta.Labels, Ports: []corev1.ServicePort{{Name: "tcp", Port: 42}}}})
	create(t, from, &mcsv1alpha1.ServiceExport{ObjectMeta: meta})
	request := metav1.ObjectMeta{Namespace: name, Name: "request"}
	create(t, at, &corev1.Pod{ObjectMeta: request, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "request", Image: "nicolaka/netshoot:v0.15", Args: []string{"/bin/sh", "-ec", "while :; do sleep 5; done"}}}}})

	asked := []string{"--kubeconfig=" + *kubeconfig, "--context=" + names[1], "--namespace=" + name, "exec", "request", "--",
		"sh", "-c", fmt.Sprintf("echo hi | nc -w 5 hello.%s.svc.clusterset.local 42", name)}
	var last string
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		out, _ := exec.CommandContext(ctx, "kubectl", asked...).CombinedOutput()
		last = string(out)
		return strings.Contains(last, "pod of the first cluster"), nil
	})
	if err != nil {
		t.Errorf("the export is not reached: %v: %s", err, last)
	}
	if err := os.WriteFile("report.html", []byte(fmt.Sprintf("<p>passed: %t</p>\n", err == nil)), 0o600); err != nil {
		t.Error(err)
	}
	fmt.Println("Ran 1 of 1 Specs")
}

func connect(t *testing.T, name string) client.Client {
	t.Helper()
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: *kubeconfig}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: name, Context: api.Context{}}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := mcsv1alpha1.AddToScheme(c.Scheme()); err != nil {
		t.Fatal(err)
	}
	return c
}

func create(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}
