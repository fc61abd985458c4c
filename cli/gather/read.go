package gather

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterset-dns/multicluster/cli/check"
	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/export"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

const (
	// pageSize bounds the objects of one kind.
	pageSize = 500
	// maxPods bounds the pods whose logs are read, of one namespace.
	maxPods  = 20
	logLines = 2000
	logBytes = 2 << 20
)

var errTruncated = fmt.Errorf("there are more than %d: the rest is left out", pageSize)

// namespaces are those of the project: the controller's, and that of a second CoreDNS from kustomize.
var namespaces = []string{system.Namespace, "multicluster-dns"}

// list is one request for objects.
type list struct {
	file     string
	resource schema.GroupVersionResource
	// namespace is "" for all.
	namespace string
	labels    string
	// names, if any, are the objects that are kept. They are read one by one.
	names []string
}

func lists(exports schema.GroupVersion) []list {
	core, apps, rbac := resources(""), resources("apps"), resources("rbac.authorization.k8s.io")
	dns := "k8s-app=kube-dns"
	ours := []string{"multicluster-controller", "multicluster-peer", "multicluster-dns", "multicluster-controller-auto-export"}
	all := []list{
		{file: "namespaces.json", resource: core("namespaces"), names: append(slices.Clone(namespaces), metav1.NamespaceSystem)},
		{file: "crds.json", resource: resources("apiextensions.k8s.io")("customresourcedefinitions"), names: []string{
			"serviceexports." + mcs.Versions[0].Group, "serviceimports." + mcs.Versions[0].Group,
		}},
		{file: "clusterroles.json", resource: rbac("clusterroles"), names: ours},
		{file: "clusterrolebindings.json", resource: rbac("clusterrolebindings"), names: ours},
		{file: "serviceexports.json", resource: exports.WithResource("serviceexports")},
		{file: "serviceimports.json", resource: exports.WithResource("serviceimports")},
		{file: "derived-services.json", resource: core("services"), labels: mcs.LabelManagedBy + "=" + mcs.ControllerName},
		{file: "imported-slices.json", resource: resources("discovery.k8s.io")("endpointslices"), labels: "multicluster.kubernetes.io/service-name"},
		{file: "kube-system/deployments.json", resource: apps("deployments"), namespace: metav1.NamespaceSystem, labels: dns},
		{file: "kube-system/pods.json", resource: core("pods"), namespace: metav1.NamespaceSystem, labels: dns},
		{file: "kube-system/services.json", resource: core("services"), namespace: metav1.NamespaceSystem, labels: dns},
	}
	for _, namespace := range namespaces {
		for file, resource := range map[string]schema.GroupVersionResource{
			"deployments": apps("deployments"), "pods": core("pods"), "events": core("events"), "services": core("services"), "roles": rbac("roles"),
			"rolebindings": rbac("rolebindings"), "leases": resources("coordination.k8s.io")("leases"), "resourcequotas": core("resourcequotas"),
		} {
			all = append(all, list{file: namespace + "/" + file + ".json", resource: resource, namespace: namespace})
		}
	}
	return all
}

// resources names resources of the version v1 of a group.
func resources(group string) func(string) schema.GroupVersionResource {
	return func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
	}
}

// readCluster adds the objects and logs of a cluster.
func (b *bundle) readCluster(ctx context.Context, c *clusters.Cluster, folder string) {
	served, err := c.Discovery.ServerVersion()
	if err != nil {
		b.fail(folder, err) // Without an answer, no other request is sent.
		return
	}
	b.addJSON(folder+"/version.json", served)
	version, err := export.ServedVersion(c)
	if err != nil {
		b.fail(folder, err)
		version = mcs.Versions[0]
	}
	for _, l := range lists(version) {
		b.readList(ctx, c, folder, l)
	}
	b.readConfigMaps(ctx, c, folder)
	if peers, err := system.ReadPeers(ctx, c.Kube); err != nil {
		b.fail(folder+"/peers.json", err)
	} else {
		b.addJSON(folder+"/peers.json", peers)
	}
	for _, namespace := range namespaces {
		b.readLogs(ctx, c, folder, namespace)
	}
}

func (b *bundle) readList(ctx context.Context, c *clusters.Cluster, folder string, l list) {
	name := folder + "/" + l.file
	at := c.Dynamic.Resource(l.resource).Namespace(l.namespace)
	objects := []any{} // It is written as [], not as null.
	if len(l.names) > 0 {
		failed := false
		for _, one := range l.names {
			found, err := at.Get(ctx, one, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				b.fail(name, err)
				failed = true
			default:
				redact(found.Object)
				objects = append(objects, found.Object)
			}
		}
		if !failed || len(objects) > 0 {
			b.addJSON(name, objects)
		}
		return
	}
	found, err := at.List(ctx, metav1.ListOptions{LabelSelector: l.labels, Limit: pageSize})
	if err != nil {
		b.fail(name, err)
		return
	}
	if found.GetContinue() != "" {
		b.fail(name, errTruncated)
	}
	for i := range found.Items {
		redact(found.Items[i].Object)
		objects = append(objects, found.Items[i].Object)
	}
	b.addJSON(name, objects)
}

// addJSON adds a value. Characters that HTML escapes stay as they are, so that a search finds them.
func (b *bundle) addJSON(name string, value any) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		b.fail(name, err)
		return
	}
	b.add(name, text.Bytes())
}

// readConfigMaps adds the Corefiles, each key as a file.
func (b *bundle) readConfigMaps(ctx context.Context, c *clusters.Cluster, folder string) {
	for _, of := range []struct{ namespace, name string }{
		{metav1.NamespaceSystem, "coredns"}, {metav1.NamespaceSystem, "coredns-custom"}, {metav1.NamespaceSystem, "node-local-dns"},
		{metav1.NamespaceSystem, "kube-dns"}, {namespaces[0], "multicluster-dns"}, {namespaces[1], "multicluster-dns"},
	} {
		name := fmt.Sprintf("%s/%s/configmaps/%s", folder, of.namespace, of.name)
		found, err := c.Kube.CoreV1().ConfigMaps(of.namespace).Get(ctx, of.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			b.fail(name, err)
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(found.Data)) {
			b.add(name+"/"+notInNames.ReplaceAllString(key, "_"), []byte(found.Data[key]))
		}
	}
}

// readLogs adds the end of the logs of all containers, and of those that ended before.
func (b *bundle) readLogs(ctx context.Context, c *clusters.Cluster, folder, namespace string) {
	pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: maxPods})
	if err != nil {
		b.fail(folder+"/"+namespace+"/logs", err)
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		restarts := map[string]int32{}
		for _, s := range pod.Status.ContainerStatuses {
			restarts[s.Name] = s.RestartCount
		}
		for _, container := range pod.Spec.Containers {
			name := fmt.Sprintf("%s/%s/logs/%s/%s", folder, namespace, pod.Name, container.Name)
			b.readLog(ctx, c, pod, name+".log", corev1.PodLogOptions{Container: container.Name})
			if restarts[container.Name] > 0 {
				b.readLog(ctx, c, pod, name+".previous.log", corev1.PodLogOptions{Container: container.Name, Previous: true})
			}
		}
	}
}

func (b *bundle) readLog(ctx context.Context, c *clusters.Cluster, pod *corev1.Pod, name string, o corev1.PodLogOptions) {
	lines, limit := int64(logLines), int64(logBytes)
	o.TailLines, o.LimitBytes = &lines, &limit
	stream, err := c.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &o).Stream(ctx)
	if err != nil {
		b.fail(name, err)
		return
	}
	text, err := io.ReadAll(io.LimitReader(stream, limit))
	if err := errors.Join(err, stream.Close()); err != nil {
		b.fail(name, err)
	}
	b.add(name, text)
}

func (b *bundle) addChecks(r check.Report) error {
	var text bytes.Buffer
	if err := r.Print(&text, output.Painter(false)); err != nil {
		return err
	}
	b.add("check.txt", text.Bytes())
	b.addJSON("check.json", r)
	return nil
}
