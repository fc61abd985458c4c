// Package status reads the state of a clusterset: one row for each cluster, and the links
// between them. It only reads.
package status

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
)

// parallel bounds how many clusters are read at once.
const parallel = 16

// Report is the state of a clusterset.
type Report struct {
	Clusters []Cluster `json:"clusters"`
	// Links has an entry for each pair of clusters in which the first one reads the second one, or
	// should.
	Links    []Link           `json:"links"`
	Problems []output.Problem `json:"problems"`
	// Next are the commands that come next.
	Next []string `json:"next,omitempty"`
}

// Replicas counts pods. Wanted is 0 if nothing of the kind is installed.
type Replicas struct {
	Ready  int32 `json:"ready"`
	Wanted int32 `json:"wanted"`
}

// Ready counts objects that are ready, and all.
type Ready struct {
	Ready int `json:"ready"`
	All   int `json:"all"`
}

// Cluster is the row of one cluster. What could not be read is nil, and Errors has the reason.
type Cluster struct {
	Context string `json:"context"`
	ID      string `json:"id,omitempty"`
	// Installed is true if the namespace of the controller exists, and nil if that is not known.
	Installed  *bool     `json:"installed,omitempty"`
	Kubernetes string    `json:"kubernetes,omitempty"`
	Controller *Replicas `json:"controller,omitempty"`
	// ControllerVersion and DNSVersion are the tags of the images.
	ControllerVersion string    `json:"controllerVersion,omitempty"`
	DNS               *Replicas `json:"dns,omitempty"`
	DNSVersion        string    `json:"dnsVersion,omitempty"`
	Exports           *Ready    `json:"exports,omitempty"`
	Imports           *Ready    `json:"imports,omitempty"`
	Heartbeat         time.Time `json:"heartbeat,omitzero"`
	Errors            []string  `json:"errors,omitempty"`

	uid       string
	peers     []system.Peer
	reachable bool
	peersRead bool
	// ahead is the clock of the API server minus the local one, which can be wrong.
	ahead time.Duration
}

func (c *Cluster) installed() bool { return c.Installed != nil && *c.Installed }

// Link tells whether a cluster reads another one. The clusters are IDs.
type Link struct {
	// Context is that of the reader. Two contexts can have one ID.
	Context string `json:"context"`
	Reader  string `json:"reader"`
	Source  string `json:"source"`
	// State is a reason of the peer's Lease, such as Connected, or NotJoined, New or Unknown.
	State     string `json:"state"`
	Connected bool   `json:"connected"`
	Message   string `json:"message,omitempty"`
	// DataPath tells whether the source's endpoints accept connections from the reader.
	DataPath     string    `json:"dataPath,omitempty"`
	TokenExpiry  time.Time `json:"tokenExpiry,omitzero"`
	TokenMessage string    `json:"tokenMessage,omitempty"`
}

// The states of a link that no Lease has.
const (
	NotJoined = "NotJoined" // the reader has no Secret for the source
	New       = "New"       // there is a Secret, and no controller has looked at it
	Unknown   = "Unknown"   // the reader could not be read
	Connected = "Connected"
)

// Read reads the clusters in parallel. It always returns a report: what could not be read is in it.
// Now is the local time. Heartbeats and
// tokens are compared with the clock of their cluster.
func Read(ctx context.Context, all []*clusters.Cluster, now time.Time) Report {
	rows := make([]Cluster, len(all))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, c := range all {
		group.Go(func() error {
			rows[i] = readCluster(ctx, c)
			return nil
		})
	}
	_ = group.Wait()
	return evaluate(rows, now)
}

// evaluate derives links, problems and the next command from what was read.
func evaluate(rows []Cluster, now time.Time) Report {
	r := Report{Clusters: rows, Links: []Link{}, Problems: []output.Problem{}}
	for i := range rows {
		r.Problems = append(r.Problems, clusterProblems(&rows[i], now.Add(rows[i].ahead))...)
	}
	r.Problems = append(r.Problems, duplicates(rows)...)
	byID := map[string]string{}
	for _, c := range rows {
		if _, twice := byID[c.ID]; twice { // no command can name one of them
			byID[c.ID] = ""
		} else if c.ID != "" {
			byID[c.ID] = c.Context
		}
	}
	for i := range rows {
		found := links(&rows[i], rows)
		r.Links = append(r.Links, found...)
		for _, link := range found {
			r.Problems = append(r.Problems, linkProblems(link, byID, now.Add(rows[i].ahead))...) //nolint:gosec // i is an index of rows
		}
	}
	r.Next = next(rows, r)
	return r
}

// links are the links of one reader: to the clusters of the report, and to others that it has a Secret
// or Lease for.
func links(reader *Cluster, all []Cluster) []Link {
	if reader.ID == "" {
		return nil
	}
	known := map[string]system.Peer{}
	for _, p := range reader.peers {
		known[p.ID] = p
	}
	var found []Link
	done := map[string]bool{"": true, reader.ID: true} // A peer with the reader's own ID follows below.
	for _, source := range all {
		if done[source.ID] {
			continue
		}
		done[source.ID] = true
		peer, has := known[source.ID]
		delete(known, source.ID)
		found = append(found, linkOf(reader, source.ID, peer, has))
	}
	for _, p := range reader.peers {
		if _, other := known[p.ID]; other {
			found = append(found, linkOf(reader, p.ID, p, true))
		}
	}
	return found
}

func linkOf(reader *Cluster, source string, p system.Peer, has bool) Link {
	l := Link{
		Context: reader.Context, Reader: reader.ID, Source: source, State: p.Reason, Connected: p.Connected, Message: p.Message,
		DataPath: p.DataPath, TokenExpiry: p.TokenExpiry, TokenMessage: p.TokenMessage,
	}
	switch {
	case !reader.peersRead:
		l.State = Unknown
	case !has:
		l.State = NotJoined
	case !p.HasLease:
		l.State = New
	}
	return l
}

// next is the command that a user most likely needs now. A pair that is not joined can be on purpose, so
// it suggests to join only clusters that have no link at all.
func next(rows []Cluster, r Report) []string {
	linked, seen := map[string]bool{}, map[string]bool{}
	for _, l := range r.Links {
		if l.State != NotJoined {
			linked[l.Reader], linked[l.Source] = true, true
		}
	}
	var installed []string
	alone := false
	for _, c := range rows {
		if c.ID == "" || seen[c.uid] {
			continue
		}
		seen[c.uid] = true
		installed = append(installed, c.Context)
		alone = alone || !linked[c.ID]
	}
	switch {
	case len(r.Problems) > 0:
		return []string{output.Command("kubectl", "multicluster", "check")}
	case len(installed) > 1 && alone:
		return []string{output.Command(append([]string{"kubectl", "multicluster", "join"}, installed...)...)}
	case len(installed) > 1:
		return []string{output.Command("kubectl", "multicluster", "verify", installed[0], installed[1])}
	}
	return nil
}

func wrap(what string, err error) string { return output.Clean(fmt.Sprintf("%s: %v", what, err)) }
