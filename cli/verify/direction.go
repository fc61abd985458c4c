package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/clusterset-dns/multicluster/cli/export"
	"github.com/clusterset-dns/multicluster/cli/output"
)

// direction is one server and one client.
type direction struct {
	server, client *place
	options        Options
}

// service is a name of its own for each direction, so that the clusters' endpoints are not merged.
func (d direction) service() string {
	if d.server.Context < d.client.Context {
		return "first"
	}
	return "second"
}

func (d direction) name() string {
	return fmt.Sprintf("%s.%s.svc.%s", d.service(), d.server.namespace, zone)
}

// run does the steps until one fails.
func (d direction) run(ctx context.Context, into *Direction) {
	var ips []string
	for _, step := range []struct {
		name string
		do   func() (string, error)
	}{
		{stepExport, func() (string, error) { return d.export(ctx) }},
		{stepImport, func() (detail string, err error) {
			ips, err = d.imported(ctx)
			return "the import has " + output.List(ips, 4), err
		}},
		{stepResolve, func() (string, error) { return d.resolve(ctx, ips) }},
		{stepHTTP, func() (string, error) { return d.request(ctx, into) }},
	} {
		d.options.Progress(fmt.Sprintf("%s: %s", d.name(), step.name))
		s, err := measure(step.name, step.do)
		into.Steps = append(into.Steps, s)
		if err != nil {
			return
		}
	}
}

// export creates the Service and its ServiceExport.
func (d direction) export(ctx context.Context) (string, error) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: d.service(), Labels: map[string]string{Label: "true"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{Label: "true"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(port)}},
		},
	}
	if _, err := d.server.Kube.CoreV1().Services(d.server.namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("create a Service in %s: %w", output.Clean(d.server.Context), err)
	}
	r, err := export.Export(ctx, d.server.Cluster, export.Options{Namespace: d.server.namespace, Name: d.service(), Wait: d.options.Timeout})
	if err == nil && len(r.Problems) > 0 {
		err = errors.New(r.Problems[0].What)
	}
	return "", err
}

// imported waits until the import has addresses.
func (d direction) imported(ctx context.Context) (ips []string, err error) {
	version, err := export.ServedVersion(d.client.Cluster)
	if err != nil {
		return nil, err
	}
	imports := d.client.Dynamic.Resource(version.WithResource("serviceimports")).Namespace(d.client.namespace)
	err = d.client.await(ctx, func(ctx context.Context) error {
		found, err := imports.Get(ctx, d.service(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ips, _, err = unstructured.NestedStringSlice(found.Object, "spec", "ips"); err == nil && len(ips) == 0 {
			err = fmt.Errorf("ServiceImport %s/%s has no spec.ips", d.client.namespace, d.service())
		}
		return err
	})
	return ips, err
}

// resolve asks the resolver of the pod, with the name as it is. The final dot switches off the search
// path.
func (d direction) resolve(ctx context.Context, ips []string) (string, error) {
	var address string
	err := d.client.await(ctx, func(ctx context.Context) error {
		out, err := d.client.exec(ctx, "getent", "hosts", d.name()+".")
		if err != nil {
			return fmt.Errorf("the resolver of the pod does not find the name: %w", err)
		}
		words := strings.Fields(out)
		if len(words) == 0 || !slices.Contains(ips, words[0]) {
			return fmt.Errorf("the resolver of the pod answers %q, and the import has %s", out, output.List(ips, 4))
		}
		address = words[0]
		return nil
	})
	return address, err
}

// requestBound is the limit of one request, in seconds.
const requestBound = "5"

// request waits for the first answer, then counts.
func (d direction) request(ctx context.Context, into *Direction) (string, error) {
	one := func(ctx context.Context) (milliseconds float64, err error) {
		// The name is resolved anew each time.
		out, err := d.client.exec(ctx, "curl", "--silent", "--show-error", "--fail", "--max-time", requestBound, "--output", "/dev/null",
			"--write-out", "%{time_total}", "http://"+d.name()+"./hostname")
		if err != nil {
			return 0, err
		}
		seconds, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
		if err != nil {
			return 0, fmt.Errorf("read the time of a request: %w", err)
		}
		return seconds * 1000, nil
	}
	if err := d.client.await(ctx, func(ctx context.Context) error { _, err := one(ctx); return err }); err != nil {
		return "", err
	}
	var took []float64
	var last error
	for range d.options.Requests {
		milliseconds, err := one(ctx)
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		into.Requests++
		if err != nil {
			last = err
			continue
		}
		took = append(took, milliseconds)
	}
	if into.Succeeded = len(took); into.Succeeded > 0 {
		slices.Sort(took)
		into.Median, into.Slowest = took[len(took)/2], took[len(took)-1]
	}
	if into.Succeeded < into.Requests {
		return "", fmt.Errorf("%d of %d requests failed, the last with: %w", into.Requests-into.Succeeded, into.Requests, last)
	}
	return fmt.Sprintf("%d of %d requests, median %.1f ms, slowest %.1f ms", into.Succeeded, into.Requests, into.Median, into.Slowest), nil
}
