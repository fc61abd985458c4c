// Package verify proves that two clusters reach each other: it exports a Service in each, and resolves
// and calls it from a pod of the other one. Everything is in a temporary namespace, which it removes.
package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
)

const (
	// Label marks the namespaces of this command.
	Label = "clusterset-dns.io/verify"
	// namePrefix is that of the namespaces.
	namePrefix = "multicluster-verify-"
	// zone is that of the names that are resolved.
	zone = "clusterset.local"
)

// Defaults of the options.
const (
	DefaultImage    = "registry.k8s.io/e2e-test-images/agnhost:2.47"
	DefaultServer   = "/agnhost netexec --http-port=8080"
	DefaultTimeout  = 2 * time.Minute
	DefaultRequests = 10
)

// ErrSameCluster means that both contexts are one cluster.
var ErrSameCluster = errors.New("both contexts are one cluster")

// Options of Run.
type Options struct {
	// Image has the server, and getent and curl.
	Image string
	// Server is the command of the server. It answers HTTP at port 8080.
	Server []string
	// Timeout bounds each step.
	Timeout time.Duration
	// Requests is the number of HTTP requests in each direction.
	Requests int
	// Keep leaves the namespaces if a step fails.
	Keep bool
	// LeftAfter is how old a namespace of another run must be, so that it counts as the rest of a run
	// that was killed. 0 is an hour.
	LeftAfter time.Duration
	// Progress gets what the command does now.
	Progress func(text string)
}

// Report is what Run found.
type Report struct {
	Namespace  string      `json:"namespace"`
	Directions []Direction `json:"directions"`
	// Removed are namespaces of earlier runs that were removed, with their contexts.
	Removed []string `json:"removed,omitempty"`
	// Left are contexts in which the namespace still exists.
	Left     []string         `json:"left,omitempty"`
	Problems []output.Problem `json:"problems,omitempty"`
}

// Direction is what a client in one cluster saw of a Service of the other one.
type Direction struct {
	// Server and Client are contexts.
	Server string `json:"server"`
	Client string `json:"client"`
	// Name is the DNS name of the Service.
	Name  string `json:"name"`
	Steps []Step `json:"steps"`
	// Requests and Succeeded count the HTTP requests, Median and Slowest are in milliseconds, for one
	// request in the pod.
	Requests  int     `json:"requests"`
	Succeeded int     `json:"succeeded"`
	Median    float64 `json:"medianMilliseconds,omitempty"`
	Slowest   float64 `json:"slowestMilliseconds,omitempty"`
}

// Step is a part of a direction.
type Step struct {
	// Name is start, export, import, resolve or http.
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
	Detail  string  `json:"detail,omitempty"`
}

// The steps, in their order.
const (
	stepStart   = "start"
	stepExport  = "export"
	stepImport  = "import"
	stepResolve = "resolve"
	stepHTTP    = "http"
)

// cleanupBound bounds the removal of the namespaces.
const cleanupBound = 90 * time.Second

// Run verifies both directions between two clusters. When it returns, the namespaces are removed, or
// Report.Left names where they are not. This is also true if the context ends.
func Run(ctx context.Context, a, b *clusters.Cluster, o Options) (Report, error) {
	r := Report{Namespace: namePrefix + strings.ToLower(rand.Text()[:8])}
	if err := distinct(ctx, a, b); err != nil {
		return r, err
	}
	places := []*place{{Cluster: a, options: o, namespace: r.Namespace}, {Cluster: b, options: o, namespace: r.Namespace}}
	err := r.run(ctx, places, o)
	if o.Keep && len(r.Problems) > 0 {
		return r, err
	}
	o.Progress("removing namespace " + r.Namespace)
	r.remove(ctx, places)
	return r, err
}

// distinct returns an error if two clusters are one, or if one has no controller.
func distinct(ctx context.Context, a, b *clusters.Cluster) error {
	var uids []string
	for _, c := range []*clusters.Cluster{a, b} {
		found, err := system.ReadIdentity(ctx, c.Kube)
		switch {
		case err != nil:
			return fmt.Errorf("context %s: %w", output.Clean(c.Context), err)
		case found.ID == "":
			return fmt.Errorf("context %s: no controller has announced a cluster ID. See what is missing:\n%s", output.Clean(c.Context),
				output.Command("kubectl", "multicluster", "check", "--contexts", output.CSV(c.Context)))
		}
		uids = append(uids, found.UID)
	}
	if uids[0] == uids[1] {
		return fmt.Errorf("%w: %s and %s", ErrSameCluster, output.Clean(a.Context), output.Clean(b.Context))
	}
	return nil
}

func (r *Report) run(ctx context.Context, places []*place, o Options) error {
	o.Progress("creating namespace " + r.Namespace)
	if err := both(places, func(p *place) error { return p.create(ctx) }); err != nil {
		return err
	}
	for _, p := range places {
		r.Removed = append(r.Removed, p.removed...)
	}
	r.Directions = make([]Direction, 2)
	o.Progress("starting a pod in each cluster")
	starts := make([]Step, 2)
	started := both(places, func(p *place) error {
		i := 0
		if p == places[1] {
			i = 1
		}
		var err error
		starts[i], err = measure(stepStart, func() (string, error) { return p.start(ctx) })
		return err
	})
	var running sync.WaitGroup
	for i := range r.Directions {
		d := direction{server: places[i], client: places[1-i], options: o}
		r.Directions[i] = Direction{Server: d.server.Context, Client: d.client.Context, Name: d.name()}
		r.Directions[i].Steps = append(r.Directions[i].Steps, starts[i])
		if started == nil {
			running.Go(func() { d.run(ctx, &r.Directions[i]) })
		}
	}
	running.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %w", ctx.Err())
	}
	for i := range r.Directions {
		r.judge(&r.Directions[i], o)
	}
	return nil
}

// judge makes a problem of the first step that failed.
func (r *Report) judge(d *Direction, o Options) {
	for _, s := range d.Steps {
		if s.OK {
			continue
		}
		p := output.Problem{
			ID:   "Verify" + strings.ToUpper(s.Name[:1]) + s.Name[1:],
			What: fmt.Sprintf("Step %s failed for %s (server in %s, client in %s): %s", s.Name, d.Name, output.Clean(d.Server), output.Clean(d.Client), s.Detail),
			Link: output.Docs + "troubleshooting.md",
		}
		if s.Name == stepStart {
			p.Advice = "The pod does not run. If the cluster cannot pull the image, set --image and --server."
		} else {
			p.Fix = []string{output.Command("kubectl", "multicluster", "explain", d.Name, "--context", d.Client)}
			if !o.Keep { // The name is gone when somebody reads this.
				p.Advice = "The namespace is removed. Verify again with --keep, which leaves the name, and explain it."
				p.Fix = []string{output.Command("kubectl", "multicluster", "verify", d.Server, d.Client, "--keep")}
			}
		}
		r.Problems = append(r.Problems, p)
		return
	}
}

// remove deletes the namespaces, also after an interrupt, and waits until they are gone.
func (r *Report) remove(ctx context.Context, places []*place) {
	ctx, cancel := context.WithTimeout(clusters.Cleanup(ctx), cleanupBound)
	defer cancel()
	left := make([]error, len(places))
	var removing sync.WaitGroup
	for i, p := range places {
		removing.Go(func() { left[i] = p.remove(ctx) })
	}
	removing.Wait()
	for i, err := range left {
		if err == nil {
			continue
		}
		r.Left = append(r.Left, output.Clean(places[i].Context))
		r.Problems = append(r.Problems, output.Problem{
			ID: "NotRemoved", What: fmt.Sprintf("Namespace %s of %s is not removed: %v", r.Namespace, output.Clean(places[i].Context), err),
			Fix: []string{output.Kubectl(places[i].Context, "delete", "namespace", r.Namespace)}, Link: output.Docs + "troubleshooting.md",
		})
	}
}

// both does the same in both clusters at once.
func both(places []*place, do func(*place) error) error {
	failed := make([]error, len(places))
	var doing sync.WaitGroup
	for i, p := range places {
		doing.Go(func() { failed[i] = do(p) })
	}
	doing.Wait()
	return errors.Join(failed...)
}

// measure does a step.
func measure(name string, do func() (detail string, err error)) (Step, error) {
	began := time.Now()
	detail, err := do()
	s := Step{Name: name, OK: err == nil, Seconds: time.Since(began).Seconds(), Detail: output.Clean(detail)}
	if err != nil {
		s.Detail = output.Clean(err.Error())
	}
	return s, err
}
