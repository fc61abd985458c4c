// Package chain finds out why a name of the clusterset does not work, from facts that others have read.
//
// It walks the chain of a name, from the pod that asks to the endpoints: search path, Corefile, answers of
// the DNS servers, import, derived Service, EndpointSlices, and for each exporting cluster peer, export,
// Service and endpoints. Each link is a line of the report.
//
// The walk is in the order of a question. Causes are in the order of the data: a Service without pods
// explains an import without endpoints, and a token that expired explains an import that does not exist.
// So each link knows whether an earlier cause explains what it sees (broken without a problem of its own),
// or whether it is a cause itself. The first cause, in the order of the data, is that of the report.
package chain

import (
	"cmp"
	"slices"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// State is what is known of a link.
type State string

// The states of a link.
const (
	OK      State = "ok"
	Broken  State = "broken"
	Skipped State = "skipped"
	Unknown State = "unknown"
)

// Link is one step of the chain.
type Link struct {
	Link string `json:"link"`
	// Cluster is the context of the cluster of the link.
	Cluster string `json:"cluster,omitempty"`
	State   State  `json:"state"`
	Detail  string `json:"detail"`
}

// The results of a walk.
const (
	ResultWhole   = "whole"
	ResultBroken  = "broken"
	ResultUnknown = "unknown"
)

// Report is the whole chain of a name.
type Report struct {
	Name    string `json:"name"`
	Context string `json:"context"`
	// Pod is the pod that asks, as namespace/name, or "" for a pod with the defaults.
	Pod string `json:"pod,omitempty"`
	// Tried are the names that the pod's resolver asks for, one after another.
	Tried  []string `json:"tried"`
	Links  []Link   `json:"links"`
	Result string   `json:"result"`
	// Cause is what to fix first.
	Cause *output.Problem `json:"cause,omitempty"`
	// Also are further problems that the cause does not explain.
	Also []output.Problem `json:"also,omitempty"`
}

// The ranks of causes, in the order of the data: what is upstream explains what is downstream.
const (
	rankName = iota
	rankExporter
	rankHere
	rankImport
	rankEndpoints
	rankDNS
	rankSearch
	rankTraffic
	rankAlso // never the cause
)

type ranked struct {
	rank    int
	problem *output.Problem
}

// walk collects links and causes.
type walk struct {
	*Facts
	links  []Link
	causes []ranked
	// tried are the names that the resolver asks for.
	tried []string
	// exported is true if a cluster is known to export the name.
	exported bool
	// doubtful is true if a link of this cluster, from the pod to the EndpointSlices, is broken or unknown.
	doubtful bool
}

func (w *walk) link(name, cluster string, state State, detail string) {
	w.links = append(w.links, Link{Link: name, Cluster: output.Clean(cluster), State: state, Detail: output.Clean(detail)})
}

// add adds a cause, once.
func (w *walk) add(rank int, p *output.Problem) {
	if p == nil || slices.ContainsFunc(w.causes, func(r ranked) bool { return r.problem.ID == p.ID && r.problem.What == p.What }) {
		return
	}
	w.causes = append(w.causes, ranked{rank, p})
}

// explained reports whether there is a cause of at most this rank.
func (w *walk) explained(rank int) bool {
	return slices.ContainsFunc(w.causes, func(r ranked) bool { return r.rank <= rank })
}

// Walk builds the report.
func Walk(f *Facts) *Report {
	w := &walk{Facts: f}
	// Data flows from the exporting clusters to the pod. So the links are walked from the end, and are
	// printed from the beginning.
	var sections [][]Link
	section := func(walk func()) {
		w.links = nil
		walk()
		sections = append(sections, w.links)
	}
	if w.possible(section) && w.local(section) {
		section(w.exporters)
		section(w.imported)
		section(w.served)
		section(w.searchPath)
		w.doubtful = slices.ContainsFunc(slices.Concat(sections[1:]...), func(l Link) bool { return l.State == Broken || l.State == Unknown })
		slices.Reverse(sections)
		section(w.traffic)
	}
	r := &Report{Name: f.Name.Text, Context: f.Here.Context, Tried: w.tried, Links: slices.Concat(sections...)}
	if f.Name.Absolute {
		r.Name += "."
	}
	if f.Pod != nil {
		r.Pod = output.Clean(f.Pod.Namespace + "/" + f.Pod.Name)
	}
	w.conclude(r)
	return r
}

func (w *walk) conclude(r *Report) {
	slices.SortStableFunc(w.causes, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	r.Result = ResultWhole
	if slices.ContainsFunc(r.Links, func(l Link) bool { return l.State == Unknown }) {
		r.Result = ResultUnknown
	}
	if slices.ContainsFunc(r.Links, func(l Link) bool { return l.State == Broken }) {
		r.Result = ResultBroken
	}
	for _, c := range w.causes {
		if c.rank < rankAlso && r.Cause == nil {
			r.Cause, r.Result = c.problem, ResultBroken
			continue
		}
		r.Also = append(r.Also, *c.problem)
	}
}
