package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
)

const (
	pageSize = 500
	// maxPages bounds what is read of one kind: 50 000 objects.
	maxPages = 100
	// secondDNS is the name of the second CoreDNS, and of its namespace if kustomize installed it.
	secondDNS = "multicluster-dns"
	// clusterDNS selects the pods of the cluster's own DNS.
	clusterDNS = "k8s-app=kube-dns"
)

// readCluster reads one cluster. If the API server does not answer the first request, no other one
// is sent.
func readCluster(ctx context.Context, c *clusters.Cluster) Cluster {
	row := Cluster{Context: c.Context}
	fail := func(what string, err error) { row.Errors = append(row.Errors, wrap(what, err)) }
	server, err := system.ReadServer(ctx, c.Config, time.Now)
	if err != nil {
		fail("connect", err)
		return row
	}
	row.reachable, row.Kubernetes, row.ahead = true, output.Clean(server.Version.GitVersion), server.Ahead
	identity, err := system.ReadIdentity(ctx, c.Kube)
	if err != nil {
		fail("read the cluster ID", err)
	}
	if err == nil || identity.Installed {
		row.Installed = &identity.Installed
	}
	row.ID, row.uid, row.Heartbeat = output.Clean(identity.ID), identity.UID, identity.Heartbeat
	if row.peers, err = system.ReadPeers(ctx, c.Kube); err != nil {
		fail("read the peers", err)
	}
	row.peersRead = err == nil
	if err := row.readController(ctx, c); err != nil {
		fail("read the controller", err)
	}
	if err := row.readDNS(ctx, c); err != nil {
		fail("read the DNS servers", err)
	}
	if row.Exports, err = count(ctx, c, "serviceexports"); err != nil {
		fail("list ServiceExports", err)
	}
	if row.Imports, err = count(ctx, c, "serviceimports"); err != nil {
		fail("list ServiceImports", err)
	}
	return row
}

func (row *Cluster) readController(ctx context.Context, c *clusters.Cluster) error {
	d, err := c.Kube.AppsV1().Deployments(system.Namespace).Get(ctx, system.Controller, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		row.Controller = &Replicas{}
		return nil
	}
	if err != nil {
		return err
	}
	row.Controller = deployed(d)
	row.ControllerVersion = tag(d.Spec.Template.Spec.Containers)
	return nil
}

func deployed(d *appsv1.Deployment) *Replicas {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	return &Replicas{Ready: d.Status.ReadyReplicas, Wanted: wanted}
}

// readDNS counts the servers that answer clusterset.local: the second CoreDNS of the chart or of kustomize
// if there is one, otherwise the cluster's own DNS. Distributions run the latter as a Deployment, a DaemonSet
// or something else, so its pods are counted.
func (row *Cluster) readDNS(ctx context.Context, c *clusters.Cluster) error {
	for _, namespace := range []string{system.Namespace, secondDNS} {
		second, err := c.Kube.AppsV1().Deployments(namespace).Get(ctx, secondDNS, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		row.DNS, row.DNSVersion = deployed(second), tag(second.Spec.Template.Spec.Containers)
		return nil
	}
	pods, err := c.Kube.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: clusterDNS, Limit: pageSize})
	if err != nil {
		return err
	}
	row.DNS = &Replicas{}
	for _, p := range pods.Items {
		row.DNS.Wanted++
		if podReady(&p) {
			row.DNS.Ready++
		}
		row.DNSVersion = tag(p.Spec.Containers)
	}
	return nil
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// tag is the version of the first container's image, or its digest.
func tag(containers []corev1.Container) string {
	if len(containers) == 0 {
		return ""
	}
	image := containers[0].Image
	image = image[strings.LastIndex(image, "/")+1:]
	if _, digest, ok := strings.Cut(image, "@"); ok {
		return output.Clean(digest[:min(len(digest), 19)])
	}
	if _, version, ok := strings.Cut(image, ":"); ok {
		return output.Clean(version)
	}
	return "latest"
}

// count lists a kind of mcs-api in the newest version that the cluster serves.
func count(ctx context.Context, c *clusters.Cluster, resource string) (*Ready, error) {
	kind := schema.GroupVersionResource{Group: mcsv1beta1.GroupName, Version: "v1beta1", Resource: resource}
	found, err := countVersion(ctx, c, kind)
	if apierrors.IsNotFound(err) {
		kind.Version = "v1alpha1"
		found, err = countVersion(ctx, c, kind)
	}
	return found, err
}

func countVersion(ctx context.Context, c *clusters.Cluster, kind schema.GroupVersionResource) (*Ready, error) {
	var sum Ready
	options := metav1.ListOptions{Limit: pageSize}
	for range maxPages {
		list, err := c.Dynamic.Resource(kind).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			sum.All++
			if isReady(&list.Items[i]) {
				sum.Ready++
			}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return &sum, nil
		}
	}
	return nil, fmt.Errorf("there are more than %d", pageSize*maxPages)
}

// isReady reports whether the condition Ready of an export or import is True.
func isReady(o *unstructured.Unstructured) bool { return condition(o, "Ready") == metav1.ConditionTrue }

func condition(o *unstructured.Unstructured, kind string) metav1.ConditionStatus {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range all {
		if c, ok := one.(map[string]any); ok && c["type"] == kind {
			status, _ := c["status"].(string)
			return metav1.ConditionStatus(status)
		}
	}
	return metav1.ConditionUnknown
}

// silentAfter is the age of a heartbeat at which peers call the controller silent.
const silentAfter = 100 * time.Second
