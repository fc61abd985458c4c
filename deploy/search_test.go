package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/test/kube"
)

const labelSearch = "clusterset-dns.io/search"

// searches is one pod, and its search suffixes after admission.
type searches struct {
	label string
	spec  corev1.PodSpec
	want  []string
}

func numberedSuffixes(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("s%d.example", i))
	}
	return all
}

// TestSearch: with deploy/search, pods in labelled namespaces get the suffixes that they do not have yet.
// Pods that do not use the cluster's DNS do not change, and no pod gets more than 32 suffixes.
func TestSearch(t *testing.T) {
	if kube.IsOldest() {
		t.Skip("it has no MutatingAdmissionPolicy")
	}
	c := kube.New(t, kube.Options{})
	kubectl(t, c, "apply", "-k", "deploy/search")
	client := kubernetes.NewForConfigOrDie(c.Config).CoreV1()
	const zone = "clusterset.local"
	dns := func(suffixes ...string) *corev1.PodDNSConfig { return &corev1.PodDNSConfig{Searches: suffixes} }
	all := []string{"shop.svc." + zone, "svc." + zone, zone}
	tests := map[string]searches{
		"without a label":                   {want: nil},
		"another value of the label":        {label: "none", want: nil},
		"one suffix":                        {label: "service", want: []string{zone}},
		"three suffixes":                    {label: "all", want: all},
		"after those of the pod":            {label: "service", spec: corev1.PodSpec{DNSConfig: dns("a.example")}, want: []string{"a.example", zone}},
		"what the pod has already":          {label: "all", spec: corev1.PodSpec{DNSConfig: dns(zone)}, want: []string{zone, all[0], all[1]}},
		"the pod has all":                   {label: "service", spec: corev1.PodSpec{DNSConfig: dns(zone)}, want: []string{zone}},
		"a dnsConfig without suffixes":      {label: "service", spec: corev1.PodSpec{DNSConfig: &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "edns0"}}}}, want: []string{zone}},
		"the last place":                    {label: "service", spec: corev1.PodSpec{DNSConfig: dns(numberedSuffixes(28)...)}, want: append(numberedSuffixes(28), zone)},
		"no place":                          {label: "service", spec: corev1.PodSpec{DNSConfig: dns(numberedSuffixes(29)...)}, want: numberedSuffixes(29)},
		"place for one of three":            {label: "all", spec: corev1.PodSpec{DNSConfig: dns(numberedSuffixes(28)...)}, want: numberedSuffixes(28)},
		"DNS of its own":                    {label: "service", spec: corev1.PodSpec{DNSPolicy: corev1.DNSNone, DNSConfig: &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1"}}}, want: nil},
		"the node's DNS":                    {label: "service", spec: corev1.PodSpec{DNSPolicy: corev1.DNSDefault}, want: nil},
		"the node's network":                {label: "service", spec: corev1.PodSpec{HostNetwork: true}, want: nil},
		"the node's network, cluster's DNS": {label: "service", spec: corev1.PodSpec{HostNetwork: true, DNSPolicy: corev1.DNSClusterFirstWithHostNet}, want: []string{zone}},
	}
	if _, err := client.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.ServiceAccount(t.Context(), "shop", "default"); err != nil {
		t.Fatal(err)
	}
	admitted := func(test searches) ([]string, error) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: test.spec}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "example.org/c"}}
		created, err := client.Pods("shop").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || created.Spec.DNSConfig == nil {
			return nil, err
		}
		return created.Spec.DNSConfig.Searches, nil
	}
	label := func(value string) {
		t.Helper()
		kubectl(t, c, "label", "namespace", "shop", "--overwrite", labelSearch+"="+value)
	}
	// The API server reads a new policy, and a changed namespace, after a moment.
	kube.Eventually(t, "the policy applies", func() error {
		label("service")
		got, err := admitted(tests["one suffix"])
		if err == nil && !slices.Equal(got, []string{zone}) {
			err = fmt.Errorf("a pod searches %v", got)
		}
		return err
	})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.label == "" {
				kubectl(t, c, "label", "namespace", "shop", labelSearch+"-")
			} else {
				label(test.label)
			}
			kube.Eventually(t, "the pod searches "+strings.Join(test.want, " "), func() error {
				got, err := admitted(test)
				if err == nil && !slices.Equal(got, test.want) {
					err = fmt.Errorf("it searches %v", got)
				}
				return err
			})
			if got, err := admitted(test); err != nil || !slices.Equal(got, test.want) {
				t.Errorf("a moment later it searches %v, %v; want %v", got, err, test.want)
			}
		})
	}
}
