package check

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// priority is whether the pods of a Deployment are admitted with their priority class.
type priority struct {
	namespace, class string
	err              error
}

// readPriorities tries to create a pod with each priority class that the installation uses, in a dry run: some
// platforms admit the critical classes outside of kube-system only where a ResourceQuota does.
func (f *facts) readPriorities(ctx context.Context, kube kubernetes.Interface) {
	for _, d := range []*appsv1.Deployment{f.controller.value, f.second.value} {
		if d == nil || d.Spec.Template.Spec.PriorityClassName == "" {
			continue
		}
		class := d.Spec.Template.Spec.PriorityClassName
		_, err := kube.CoreV1().Pods(d.Namespace).Create(ctx, priorityPod(class), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		f.priorities = append(f.priorities, priority{d.Namespace, class, err})
	}
}

// priorityPod conforms to the Pod Security Standard "restricted", as the pods of the chart.
func priorityPod(class string) *corev1.Pod {
	yes, no, user := true, false, int64(65532)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "multicluster-check-"},
		Spec: corev1.PodSpec{
			PriorityClassName: class,
			// The account `default` can be missing in a new namespace.
			AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "check", Image: "registry.invalid/check",
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
}

// quotaRefusal is a part of the message of the admission plugin ResourceQuota with limited scopes.
const quotaRefusal = "insufficient quota to match these scopes"

func (f *facts) checkPriorityClass() Check {
	c := Check{ID: PriorityClass, Cluster: f.context}
	if err := cmp.Or(f.controller.err, f.second.err); err != nil {
		return c.unknown(err)
	}
	admitted := "no pod of the installation has a priority class"
	for _, p := range f.priorities {
		switch {
		case p.err == nil:
			admitted = fmt.Sprintf("namespace %s admits pods of the class %s", p.namespace, p.class)
		case !strings.Contains(p.err.Error(), quotaRefusal):
			return c.unknown(fmt.Errorf("create a pod of the class %s in namespace %s, in a dry run: %w", p.class, p.namespace, p.err))
		default:
			quota := output.Kubectl(f.context, "create", "quota", "critical-pods", "--namespace", p.namespace, "--hard=pods=100", "--scopes=PriorityClass")
			return c.is(Failed, fmt.Sprintf("namespace %s does not admit pods of the class %s without a ResourceQuota", p.namespace, p.class), quota)
		}
	}
	return c.ok(admitted)
}
