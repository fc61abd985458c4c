// Package export creates and removes ServiceExports, and shows what the controller makes of them.
package export

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/controller/autoexport"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// ErrArgument means that the argument does not name a Service.
var ErrArgument = errors.New("expected the name of a Service, such as foo or svc/foo")

// fieldManager is who the API server notes as the writer of the objects.
const fieldManager = "kubectl-multicluster"

// What a command did.
const (
	Created   = "created"
	Unchanged = "unchanged"
	Deleted   = "deleted"
)

// Report is what a command did, and what it found.
type Report struct {
	Context   string `json:"context"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Action is created, unchanged or deleted.
	Action string `json:"action"`
	// Conditions are those of the ServiceExport.
	Conditions []Condition `json:"conditions,omitempty"`
	// ImportedBy are the other contexts that have an import with endpoints of this cluster.
	ImportedBy []string `json:"importedBy,omitempty"`
	// Unread are the contexts for which that is not known.
	Unread   []string         `json:"unread,omitempty"`
	Problems []output.Problem `json:"problems,omitempty"`
}

// Condition is a condition of a ServiceExport.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// ParseName returns the name of a Service from an argument: foo, svc/foo or service/foo.
func ParseName(argument string) (string, error) {
	kind, name, typed := strings.Cut(argument, "/")
	if !typed {
		kind, name = "service", argument
	}
	switch strings.ToLower(kind) {
	case "svc", "service", "services":
	default:
		return "", fmt.Errorf("%w: got %q", ErrArgument, argument)
	}
	if faults := validation.IsDNS1123Label(name); len(faults) > 0 {
		return "", fmt.Errorf("%w: %q is no name of a Service: %s", ErrArgument, name, faults[0])
	}
	return name, nil
}

// Options of Export.
type Options struct {
	Namespace, Name string
	// Wait bounds the time until the controller has written the conditions. 0 does not wait.
	Wait time.Duration
}

// Export creates the ServiceExport of a Service, unless there is one, and waits until it is ready.
func Export(ctx context.Context, c *clusters.Cluster, o Options) (Report, error) {
	r := Report{Context: c.Context, Namespace: o.Namespace, Name: o.Name, Action: Unchanged}
	version, err := ServedVersion(c)
	if err != nil {
		return r, err
	}
	if err := checkService(ctx, c, o); err != nil {
		return r, err
	}
	exports := c.Dynamic.Resource(version.WithResource("serviceexports")).Namespace(o.Namespace)
	_, err = exports.Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(version.WithKind("ServiceExport"))
		object.SetName(o.Name)
		r.Action = Created
		if _, err = exports.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager}); apierrors.IsAlreadyExists(err) {
			r.Action, err = Unchanged, nil
		}
	}
	if err != nil {
		return r, fmt.Errorf("export Service %s/%s in %s: %w", o.Namespace, o.Name, output.Clean(c.Context), err)
	}
	if o.Wait <= 0 {
		return r, nil
	}
	read := func(ctx context.Context) (*mcsv1beta1.ServiceExport, error) {
		object, err := exports.Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		e := new(mcsv1beta1.ServiceExport)
		return e, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, e)
	}
	return r, r.await(ctx, read, o.Wait)
}

// ServedVersion returns the best version of the ServiceExports and ServiceImports that the API server serves.
func ServedVersion(c *clusters.Cluster) (schema.GroupVersion, error) {
	for _, version := range mcs.Versions {
		_, err := c.Discovery.ServerResourcesForGroupVersion(version.String())
		if err == nil {
			return version, nil
		}
		if !apierrors.IsNotFound(err) {
			return version, fmt.Errorf("ask %s for the version %s: %w", output.Clean(c.Context), version, err)
		}
	}
	return schema.GroupVersion{}, fmt.Errorf("the cluster of context %s has no ServiceExports: install the CRDs:\n%s",
		output.Clean(c.Context), output.Kubectl(c.Context, "apply", "--server-side", "-k", output.Deploy("crd")))
}

// checkService returns an error if the Service cannot be exported.
func checkService(ctx context.Context, c *clusters.Cluster, o Options) error {
	service, err := c.Kube.CoreV1().Services(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return unknownService(ctx, c, o)
	case err != nil:
		return fmt.Errorf("read Service %s/%s in %s: %w", o.Namespace, o.Name, output.Clean(c.Context), err)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return fmt.Errorf("export Service %s/%s: its type is ExternalName, which cannot be exported", o.Namespace, o.Name)
	case service.Labels[mcs.LabelManagedBy] == mcs.ControllerName:
		return fmt.Errorf("export Service %s/%s: the controller made it for an import, and it cannot be exported again", o.Namespace, o.Name)
	}
	return nil
}

// maxNames bounds the names that are read for a hint.
const maxNames = 500

// unknownService names the Services whose names are near.
func unknownService(ctx context.Context, c *clusters.Cluster, o Options) error {
	err := fmt.Errorf("namespace %s of %s has no Service %s", o.Namespace, output.Clean(c.Context), o.Name)
	list, failed := c.Kube.CoreV1().Services(o.Namespace).List(ctx, metav1.ListOptions{Limit: maxNames})
	if failed != nil {
		return err // The hint is missing, and nothing else.
	}
	var names []string
	for i := range list.Items {
		if list.Items[i].Labels[mcs.LabelManagedBy] != mcs.ControllerName {
			names = append(names, list.Items[i].Name)
		}
	}
	if near := nearest(o.Name, names); len(near) > 0 {
		return fmt.Errorf("%w: did you mean %s?", err, output.List(near, 3))
	}
	return fmt.Errorf("%w: it has %s. --namespace selects another namespace", err, output.Count(len(names), "other Service"))
}

// poll is how often the conditions are read.
const poll = 250 * time.Millisecond

// await reads the export until the controller has decided on it.
func (r *Report) await(ctx context.Context, read func(context.Context) (*mcsv1beta1.ServiceExport, error), bound time.Duration) error {
	var last *mcsv1beta1.ServiceExport
	err := wait.PollUntilContextTimeout(ctx, poll, bound, true, func(context.Context) (bool, error) {
		e, err := read(ctx) // The bound does not cut off a request: its error would hide the conditions.
		if err != nil {
			return false, err
		}
		last = e
		return decided(e), nil
	})
	if err != nil && (ctx.Err() != nil || !wait.Interrupted(err)) {
		return fmt.Errorf("wait for the conditions of ServiceExport %s/%s: %w", r.Namespace, r.Name, err)
	}
	if last != nil {
		r.judge(last, bound)
	}
	return nil
}

func condition(e *mcsv1beta1.ServiceExport, kind mcsv1beta1.ServiceExportConditionType) *metav1.Condition {
	return meta.FindStatusCondition(e.Status.Conditions, string(kind))
}

// decided reports whether the export is invalid, or whether the controller has tried to export it. The Service
// exists, so a controller that does not find it has only not heard of it yet.
func decided(e *mcsv1beta1.ServiceExport) bool {
	valid, ready := condition(e, mcsv1beta1.ServiceExportConditionValid), condition(e, mcsv1beta1.ServiceExportConditionReady)
	if valid != nil && valid.Status == metav1.ConditionFalse {
		return valid.Reason != string(mcsv1beta1.ServiceExportReasonNoService)
	}
	return valid != nil && ready != nil && ready.Status == metav1.ConditionTrue
}

// judge turns the conditions into problems.
func (r *Report) judge(e *mcsv1beta1.ServiceExport, bound time.Duration) {
	for _, c := range e.Status.Conditions {
		r.Conditions = append(r.Conditions, Condition{output.Clean(c.Type), string(c.Status), output.Clean(c.Reason), output.Clean(c.Message)})
	}
	link := output.Docs + "troubleshooting.md#5-the-export-and-the-peer"
	add := func(id, what string, fix ...string) {
		r.Problems = append(r.Problems, output.Problem{ID: id, What: what, Fix: fix, Link: link})
	}
	valid, ready := condition(e, mcsv1beta1.ServiceExportConditionValid), condition(e, mcsv1beta1.ServiceExportConditionReady)
	switch {
	case valid == nil:
		add("NoController", fmt.Sprintf("No controller has looked at the ServiceExport within %v. It does not run in %s, or it has no cluster ID.", bound, output.Clean(r.Context)),
			output.Kubectl(r.Context, "get", "pods", "--namespace", system.Namespace), output.Command("kubectl", "multicluster", "check", "--contexts", output.CSV(r.Context)))
	case valid.Status == metav1.ConditionFalse:
		add("Invalid", "The Service is not exported: "+output.Clean(valid.Message))
	case ready == nil || ready.Status != metav1.ConditionTrue:
		message := "the controller has not exported it yet"
		if ready != nil {
			message = output.Clean(ready.Message)
		}
		add("NotReady", fmt.Sprintf("The export is not ready within %v: %s", bound, message))
	}
	if c := condition(e, mcsv1beta1.ServiceExportConditionConflict); c != nil && c.Status == metav1.ConditionTrue {
		add("Conflict", "Clusters disagree about the Service. The name works, with the values of the oldest export. "+output.Clean(c.Message))
	}
}

// autoExported explains an export that the controller would create again.
func (r *Report) autoExported(ctx context.Context, c *clusters.Cluster) error {
	namespace, err := c.Kube.CoreV1().Namespaces().Get(ctx, r.Namespace, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read namespace %s: %w", r.Namespace, err)
	}
	p := output.Problem{ID: "AutoExported", Link: output.Docs + "auto-export.md"}
	switch namespace.Labels[autoexport.Key] {
	case "all":
		p.What = fmt.Sprintf("The controller exports all Services of namespace %s, and would create the ServiceExport again. An annotation excludes the Service. The export ends one minute later.", r.Namespace)
		p.Fix = []string{output.Kubectl(r.Context, "annotate", "service", r.Name, "--namespace", r.Namespace, "--overwrite", autoexport.Key+"=false")}
	case "annotated":
		p.What = "The controller exports the Service because of its annotation, and would create the ServiceExport again. Remove the annotation. The export ends one minute later."
		p.Fix = []string{output.Kubectl(r.Context, "annotate", "service", r.Name, "--namespace", r.Namespace, autoexport.Key+"-")}
	default:
		p.What = fmt.Sprintf("Auto-export created the ServiceExport, and namespace %s does not ask for it any more. The controller deletes it within a minute. If auto-export is switched off, delete it.", r.Namespace)
		p.Fix = []string{output.Kubectl(r.Context, "delete", "serviceexport", r.Name, "--namespace", r.Namespace)}
	}
	r.Problems = append(r.Problems, p)
	return nil
}
