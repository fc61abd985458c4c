package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/output"
)

const (
	pod       = "verify"
	container = "verify"
	port      = 8080
	poll      = 500 * time.Millisecond
	leftAfter = time.Hour
	// maxLeft bounds how many of them one run removes.
	maxLeft = 20
)

// place is the temporary namespace of one cluster.
type place struct {
	*clusters.Cluster
	options   Options
	namespace string
	removed   []string
}

// create creates the namespace, and removes what earlier runs have left.
func (p *place) create(ctx context.Context) error {
	wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace, Labels: map[string]string{
		Label: "true", "pod-security.kubernetes.io/enforce": "restricted",
	}}}
	created, err := p.Kube.CoreV1().Namespaces().Create(ctx, wanted, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create namespace %s in %s: %w", p.namespace, output.Clean(p.Context), err)
	}
	return p.removeLeft(ctx, created.CreationTimestamp.Time)
}

// removeLeft removes namespaces of runs that were killed. The time is that of the API server.
func (p *place) removeLeft(ctx context.Context, now time.Time) error {
	all, err := p.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: Label, Limit: 500})
	if err != nil {
		return fmt.Errorf("list namespaces with the label %s in %s: %w", Label, output.Clean(p.Context), err)
	}
	after := cmp.Or(p.options.LeftAfter, leftAfter)
	for i := range all.Items {
		old := &all.Items[i]
		if len(p.removed) >= maxLeft || old.DeletionTimestamp != nil || !strings.HasPrefix(old.Name, namePrefix) || now.Sub(old.CreationTimestamp.Time) < after {
			continue
		}
		err := p.Kube.CoreV1().Namespaces().Delete(ctx, old.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &old.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete namespace %s of an earlier run in %s: %w", old.Name, output.Clean(p.Context), err)
		}
		p.removed = append(p.removed, output.Clean(p.Context)+"/"+old.Name)
	}
	return nil
}

// start creates the pod and waits until it is ready. It is the server, and clients run in it.
func (p *place) start(ctx context.Context) (string, error) {
	pods := p.Kube.CoreV1().Pods(p.namespace)
	// The controller of Kubernetes creates the account `default` a moment after the namespace.
	err := p.await(ctx, func(ctx context.Context) error {
		_, err := pods.Create(ctx, p.pod(), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("create a pod in %s: %w", output.Clean(p.Context), err)
	}
	var node string
	err = p.await(ctx, func(ctx context.Context) error {
		found, err := pods.Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node = found.Spec.NodeName
		return readiness(found)
	})
	if err != nil {
		return "", fmt.Errorf("start a pod in %s: %w", output.Clean(p.Context), err)
	}
	return "pod on node " + node, nil
}

// pod conforms to the Pod Security Standard "restricted".
func (p *place) pod() *corev1.Pod {
	yes, no, user, none := true, false, int64(65532), int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod, Labels: map[string]string{Label: "true"}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  &no,
			EnableServiceLinks:            &no,
			TerminationGracePeriodSeconds: &none,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: container, Image: p.options.Image, ImagePullPolicy: corev1.PullIfNotPresent, Command: p.options.Server,
				Ports:          []corev1.ContainerPort{{ContainerPort: port}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// readiness returns why a pod is not ready, or nil.
func readiness(found *corev1.Pod) error {
	for _, c := range found.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	for _, s := range found.Status.ContainerStatuses {
		switch {
		case s.State.Waiting != nil:
			return fmt.Errorf("its container waits: %s: %s", s.State.Waiting.Reason, s.State.Waiting.Message)
		case s.State.Terminated != nil:
			return fmt.Errorf("its container ended with the status %d: %s", s.State.Terminated.ExitCode, s.State.Terminated.Reason)
		case !s.Ready:
			return fmt.Errorf("its server does not accept connections on port %d", port)
		}
	}
	for _, c := range found.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Errorf("it is not scheduled: %s", c.Message)
		}
	}
	return fmt.Errorf("it is %s", found.Status.Phase)
}

// await calls a condition until it returns nil, at most for the time of the options. The error is the
// last one of the condition. A request is not cut off by the end of that time: its error would hide the
// reason.
func (p *place) await(ctx context.Context, condition func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, poll, p.options.Timeout, true, func(context.Context) (bool, error) {
		err := condition(ctx)
		if err != nil {
			last = err
		}
		return err == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("not within %v: %w", p.options.Timeout, last)
}

// remove deletes the namespace and waits until it is gone.
func (p *place) remove(ctx context.Context) error {
	namespaces := p.Kube.CoreV1().Namespaces()
	last := errors.New("there was no answer in time")
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		err := namespaces.Delete(ctx, p.namespace, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err == nil || apierrors.IsConflict(err) {
			err = errors.New("it is being deleted")
		}
		if ctx.Err() == nil {
			last = err
		}
		return false, nil
	})
	if err != nil {
		return last
	}
	return nil
}
