package check

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

func (f *facts) checkAPIServer() Check {
	c := Check{ID: APIServer, Cluster: f.context}
	if f.server.err != nil {
		return c.is(Failed, f.server.err.Error()).advise("Check the network and the credentials of the context. Without an answer, nothing else is checked: " +
			output.Kubectl(f.context, "version"))
	}
	return c.ok("answers")
}

// oldest is the oldest supported version of Kubernetes: docs/compatibility.md.
var oldest = version.MustParseGeneric("1.30.0")

func (f *facts) checkVersion() Check {
	c := Check{ID: KubernetesVersion, Cluster: f.context}
	text := f.server.value.Version.GitVersion
	served, err := version.ParseGeneric(text)
	switch {
	case err != nil:
		return c.unknown(fmt.Errorf("the API server names the version %q: %w", text, err))
	case served.LessThan(oldest):
		c.Link = output.Docs + "compatibility.md"
		return c.is(Warning, fmt.Sprintf("%s is older than %s", text, oldest)).advise("Upgrade the cluster. Until then, leave out preStop.sleep; the chart does so.")
	}
	return c.ok(text)
}

func (f *facts) checkCRDs(pre bool) Check {
	c := Check{ID: CRDs, Cluster: f.context}
	var missing, faults, details []string
	for i, crd := range f.crds {
		switch {
		case crd.err != nil:
			return c.unknown(fmt.Errorf("read the CRD %s: %w", crdNames[i], crd.err))
		case crd.value == nil:
			missing = append(missing, crdNames[i])
		default:
			if fault := crdFault(crd.value); fault != "" {
				faults = append(faults, crdNames[i]+" "+fault)
			}
			details = append(details, describeCRD(crd.value))
		}
	}
	apply := output.Kubectl(f.context, "apply", "--server-side", "--force-conflicts", "-k", output.Deploy("crd"))
	switch {
	case len(faults) > 0:
		return c.is(Failed, strings.Join(faults, "; "), apply)
	case len(missing) == 0:
		return c.ok(strings.Join(slices.Compact(details), "; "))
	case pre && len(missing) == len(crdNames):
		return c.ok("not installed yet: the chart installs them")
	}
	return c.is(Failed, "not installed: "+strings.Join(missing, ", "), apply)
}

// crdFault returns what is wrong with a CRD, or "".
func crdFault(d *apiextensionsv1.CustomResourceDefinition) string {
	for _, kind := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.NamesAccepted, apiextensionsv1.Established} {
		i := slices.IndexFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool { return c.Type == kind })
		if i < 0 || d.Status.Conditions[i].Status != apiextensionsv1.ConditionTrue {
			return fmt.Sprintf("has no condition %s", kind)
		}
	}
	if served := servedVersions(d); !slices.ContainsFunc(mcs.Versions, func(v groupVersion) bool { return slices.Contains(served, v.Version) }) {
		return fmt.Sprintf("serves %s, and not v1beta1 or v1alpha1", output.List(served, 5))
	}
	return ""
}

func servedVersions(d *apiextensionsv1.CustomResourceDefinition) []string {
	var served []string
	for _, v := range d.Spec.Versions {
		if v.Served {
			served = append(served, v.Name)
		}
	}
	slices.Sort(served)
	return served
}

func describeCRD(d *apiextensionsv1.CustomResourceDefinition) string {
	return fmt.Sprintf("served %s, stored %s", output.List(servedVersions(d), 5), output.List(d.Status.StoredVersions, 5))
}

// replicas sets the result from the ready replicas of a Deployment.
func (c Check) replicas(context string, d *appsv1.Deployment) Check {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	detail := fmt.Sprintf("%d of %d replicas of %s are ready", d.Status.ReadyReplicas, wanted, d.Name)
	pods := output.Kubectl(context, "get", "pods", "--namespace", d.Namespace, "--selector", metav1.FormatLabelSelector(d.Spec.Selector))
	switch {
	case wanted == 0:
		return c.is(Failed, detail, output.Kubectl(context, "scale", "deployment", d.Name, "--namespace", d.Namespace, "--replicas=2"))
	case d.Status.ReadyReplicas == 0:
		return c.is(Failed, detail).advise("Look at its pods and their log: " + pods)
	case d.Status.ReadyReplicas < wanted:
		return c.is(Warning, detail).advise("Look at its pods and their log: " + pods)
	}
	return c.ok(detail)
}

func (f *facts) checkController() Check {
	c := Check{ID: Controller, Cluster: f.context}
	switch d := f.controller; {
	case d.err != nil:
		return c.unknown(d.err)
	case d.value == nil:
		c.Link = output.Docs + "install.md"
		return c.is(Failed, fmt.Sprintf("namespace %s has no Deployment %s", system.Namespace, system.Controller)).advise("Install the controller with the chart or with kustomize.")
	default:
		return c.replicas(f.context, d.value)
	}
}

func (f *facts) checkKubeProxy() Check {
	c := Check{ID: KubeProxy, Cluster: f.context}
	if f.daemons.err != nil {
		return c.unknown(f.daemons.err)
	}
	var others []string
	for i := range f.daemons.value {
		d := &f.daemons.value[i]
		// On some platforms it exists for no node, because something replaces it.
		if !strings.HasPrefix(d.Name, "kube-proxy") || d.Status.DesiredNumberScheduled == 0 {
			others = append(others, d.Name)
			continue
		}
		detail := fmt.Sprintf("%d of %d pods of DaemonSet %s are ready", d.Status.NumberReady, d.Status.DesiredNumberScheduled, d.Name)
		if d.Status.NumberReady < d.Status.DesiredNumberScheduled {
			return c.is(Failed, detail).advise("Nodes without it do not send traffic to imports. Look at its pods: " +
				output.Kubectl(f.context, "get", "pods", "--namespace", d.Namespace, "--selector", metav1.FormatLabelSelector(d.Spec.Selector)))
		}
		return c.ok(detail)
	}
	if m := f.cilium.value; m != nil && m.Data["kube-proxy-replacement"] == "true" {
		return c.ok("Cilium replaces kube-proxy")
	}
	return c.is(Warning, "kube-system has no DaemonSet kube-proxy with pods; it has "+output.List(append(others, "no other")[:max(len(others), 1)], 5)).
		advise("A replacement must send traffic to the EndpointSlices of derived Services. `kubectl multicluster verify` shows whether it does.")
}
