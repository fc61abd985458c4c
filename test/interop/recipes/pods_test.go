package recipes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/test/kube"
)

const nodeName = "node-1"

// namespaces are those of the page's objects.
func (p page) namespaces() (all []string) {
	for _, b := range p.blocks {
		all = append(all, namespacesOf(b.text)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// runs waits until the StatefulSets of a page have their pods, and gives these what a kubelet does: a node, an address and a status.
func (m *member) runs(t *testing.T, p page) {
	t.Helper()
	for _, namespace := range p.namespaces() {
		kube.Eventually(t, "run the pods of "+namespace+" in "+m.ID, func() error { return m.kubelet(t.Context(), namespace) })
	}
}

func (m *member) kubelet(ctx context.Context, namespace string) error {
	var sets appsv1.StatefulSetList
	var pods corev1.PodList
	if err := errors.Join(m.Admin.List(ctx, &sets, client.InNamespace(namespace)), m.Admin.List(ctx, &pods, client.InNamespace(namespace))); err != nil {
		return err
	}
	parallel, missing := map[string]bool{}, -len(pods.Items)
	for _, set := range sets.Items {
		parallel[set.Name] = set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
		missing += int(*set.Spec.Replicas)
	}
	for _, pod := range pods.Items {
		if pod.Status.PodIP != "" {
			continue
		}
		// Where pods start together, the others' names must exist before a pod is ready.
		if err := m.startPod(ctx, &pod, !parallel[pod.OwnerReferences[0].Name]); err != nil {
			return err
		}
	}
	if missing != 0 {
		return fmt.Errorf("%d pods are missing", missing)
	}
	return nil
}

// startPod starts a pod.
func (m *member) startPod(ctx context.Context, pod *corev1.Pod, ready bool) error {
	if pod.Spec.NodeName == "" {
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}
		if err := m.Admin.SubResource("binding").Create(ctx, pod, binding); err != nil {
			return err
		}
		if err := m.Admin.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	m.pods++
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, fmt.Sprintf("10.%d.0.%d", 100+m.number, m.pods)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	return m.Admin.Status().Update(ctx, pod)
}

// endpoints are the addresses of a Service's pods, by the pods' names: by the Service's selector, so not what a controller made of it.
func (m *member) endpoints(t *testing.T, service client.ObjectKey) map[string]string {
	t.Helper()
	var svc corev1.Service
	if err := m.Admin.Get(t.Context(), service, &svc); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	} else if err != nil {
		return nil
	}
	var pods corev1.PodList
	if err := m.Admin.List(t.Context(), &pods, client.InNamespace(service.Namespace), client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(svc.Spec.Selector)}); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, pod := range pods.Items {
		all[pod.Name] = pod.Status.PodIP
	}
	return all
}

// namesOfPods are those that the pods' commands and variables contain, as a kubelet expands them.
func (m *member) namesOfPods(t *testing.T, p page) (all []string) {
	t.Helper()
	for _, namespace := range p.namespaces() {
		var pods corev1.PodList
		if err := m.Admin.List(t.Context(), &pods, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods.Items {
			for _, container := range pod.Spec.Containers {
				env := m.environment(t, &pod, container)
				text := strings.Join(slices.Concat(container.Command, container.Args, slices.Collect(maps.Values(env))), "\n")
				all = append(all, fqdn.FindAllString(expand(text, env), -1)...)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (m *member) environment(t *testing.T, pod *corev1.Pod, container corev1.Container) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, v := range container.Env {
		switch from := v.ValueFrom; {
		case from == nil:
			env[v.Name] = expand(v.Value, env)
		case from.ConfigMapKeyRef != nil:
			var config corev1.ConfigMap
			key := client.ObjectKey{Namespace: pod.Namespace, Name: from.ConfigMapKeyRef.Name}
			if err := m.Admin.Get(t.Context(), key, &config); err != nil {
				t.Fatal(err)
			}
			env[v.Name] = config.Data[from.ConfigMapKeyRef.Key]
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.name":
			env[v.Name] = pod.Name
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.labels['"+appsv1.PodIndexLabel+"']":
			env[v.Name] = pod.Labels[appsv1.PodIndexLabel]
		}
		if env[v.Name] == "" {
			t.Errorf("variable %s of pod %s has no value that this test knows", v.Name, pod.Name)
		}
	}
	return env
}

var variable = regexp.MustCompile(`\$\(([A-Z_]+)\)`)

func expand(text string, env map[string]string) string {
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		if value, ok := env[found[2:len(found)-1]]; ok {
			return value
		}
		return found
	})
}
