// Package check finds what is wrong with an installation, or what would be wrong with a new one. It only
// reads. A check has one result for each cluster, or one for all clusters together.
package check

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/output"
)

// Result is what a check found.
type Result string

// The results. What cannot be read is unknown, never ok.
const (
	OK      Result = "ok"
	Warning Result = "warning"
	Failed  Result = "failed"
	Unknown Result = "unknown"
)

// The IDs of the checks, in the order of the report. Programs rely on them. docs/troubleshooting.md
// has a row for each.
const (
	APIServer         = "APIServer"
	KubernetesVersion = "KubernetesVersion"
	ClockSkew         = "ClockSkew"
	Rights            = "Rights"
	SameCluster       = "SameCluster"
	CRDs              = "CRDs"
	PriorityClass     = "PriorityClass"
	Controller        = "Controller"
	VersionSkew       = "VersionSkew"
	ClusterID         = "ClusterID"
	Heartbeat         = "Heartbeat"
	Peers             = "Peers"
	TokenExpiry       = "TokenExpiry" //nolint:gosec // the name of a check, no credential
	SecondDNS         = "SecondDNS"
	ClusterDNS        = "ClusterDNS"
	CoreDNSVersion    = "CoreDNSVersion"
	Corefile          = "Corefile"
	NodeLocal         = "NodeLocal"
	KubeProxy         = "KubeProxy"
	Networks          = "Networks"
)

// IDs lists all checks, in the order of the report.
var IDs = []string{
	APIServer, KubernetesVersion, ClockSkew, Rights, SameCluster, CRDs, PriorityClass, Controller, VersionSkew, ClusterID,
	Heartbeat, Peers, TokenExpiry, SecondDNS, ClusterDNS, CoreDNSVersion, Corefile, NodeLocal, KubeProxy, Networks,
}

// Check is the result of one check.
type Check struct {
	ID string `json:"id"`
	// Cluster is a context, or two contexts with a comma for a check that compares clusters.
	Cluster string `json:"cluster"`
	Result  Result `json:"result"`
	Detail  string `json:"detail"`
	// Fix, Advice and Link are as in output.Problem. They are set if the result is failed or warning.
	Fix    []string `json:"fix,omitempty"`
	Advice string   `json:"advice,omitempty"`
	Link   string   `json:"link,omitempty"`
}

// Report is the result of all checks.
type Report struct {
	Checks []Check `json:"checks"`
}

// Failed reports whether a check failed.
func (r Report) Failed() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Result == Failed })
}

// Options of Run.
type Options struct {
	// Pre leaves out what makes sense only after the installation.
	Pre bool
	// Now is the local clock.
	Now func() time.Time
}

// parallel bounds how many clusters are read at once.
const parallel = 16

// Run checks clusters. The order of the result does not depend on the order of the answers.
func Run(ctx context.Context, all []*clusters.Cluster, o Options) Report {
	read := make([]*facts, len(all))
	reading := errgroup.Group{}
	reading.SetLimit(parallel)
	for i, c := range all {
		reading.Go(func() error {
			read[i] = readFacts(ctx, c, o)
			return nil
		})
	}
	_ = reading.Wait() // no function returns an error: a fact has its own
	var found []Check
	for _, f := range read {
		found = append(found, f.checks(o)...)
	}
	found = append(found, together(read, o)...)
	return arranged(found, all)
}

// arranged sorts by the order of the IDs and of the clusters, and adds the links.
func arranged(found []Check, all []*clusters.Cluster) Report {
	at := func(c Check) int {
		return slices.IndexFunc(all, func(one *clusters.Cluster) bool { return one.Context == c.Cluster })
	}
	slices.SortStableFunc(found, func(a, b Check) int {
		return cmp.Or(cmp.Compare(slices.Index(IDs, a.ID), slices.Index(IDs, b.ID)), cmp.Compare(at(a), at(b)))
	})
	for i := range found {
		c := &found[i]
		c.Cluster, c.Detail = output.Clean(c.Cluster), output.Clean(c.Detail)
		if c.Result == Failed || c.Result == Warning {
			c.Link = cmp.Or(c.Link, output.Docs+"troubleshooting.md#checks")
		}
	}
	return Report{Checks: found}
}

// checks are those of one cluster. If its API server does not answer, there is one result only.
func (f *facts) checks(o Options) []Check {
	found := []Check{f.checkAPIServer()}
	if f.server.err != nil {
		return found
	}
	found = append(found, f.checkVersion(), f.checkRights(o.Pre), f.checkCRDs(o.Pre))
	found = append(found, f.checkClusterDNS(), f.checkCoreDNSVersion(o.Pre), f.checkKubeProxy())
	if o.Pre {
		return found
	}
	found = append(found, f.checkPriorityClass(), f.checkController(), f.checkClusterID(), f.checkHeartbeat(), f.checkPeers(), f.checkTokens(), f.checkCorefile())
	found = append(found, f.checkSecondDNS()...)
	return append(found, f.checkNodeLocal()...)
}
