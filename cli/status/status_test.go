package status

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// well is a cluster without problems that reads the given peers.
func well(id string, peers ...system.Peer) Cluster {
	return Cluster{
		Context: "ctx-" + id, ID: id, Installed: new(true), Kubernetes: "v1.37.1", Controller: &Replicas{2, 2}, ControllerVersion: "v1", DNS: &Replicas{2, 2}, DNSVersion: "v1",
		Exports: &Ready{1, 1}, Imports: &Ready{2, 2}, Heartbeat: now.Add(-30 * time.Second), uid: "uid-" + id, peers: peers, reachable: true, peersRead: true,
	}
}

func connected(id string) system.Peer {
	return system.Peer{ID: id, HasSecret: true, HasLease: true, Connected: true, Reason: Connected, DataPath: "Proven"}
}

func ids(all []output.Problem) string {
	var found []string
	for _, p := range all {
		found = append(found, p.ID)
	}
	return strings.Join(found, " ")
}

func TestEvaluate(t *testing.T) {
	change := func(c Cluster, edit func(*Cluster)) Cluster { edit(&c); return c }
	broken := func(reason string) system.Peer {
		return system.Peer{ID: "m2", HasSecret: true, HasLease: true, Reason: reason, Message: "a message"}
	}
	m2 := well("m2", connected("m1"))
	for name, c := range map[string]struct {
		rows           []Cluster
		problems, next string
	}{
		"all is well":           {[]Cluster{well("m1", connected("m2")), m2}, "", "kubectl multicluster verify ctx-m1 ctx-m2"},
		"one way is on purpose": {[]Cluster{well("m1"), m2}, "", "kubectl multicluster verify ctx-m1 ctx-m2"},
		"a new cluster":         {[]Cluster{well("m1", connected("m2")), m2, well("m3")}, "", "kubectl multicluster join ctx-m1 ctx-m2 ctx-m3"},
		"a problem is first":    {[]Cluster{well("m1", broken("Unauthorized")), m2, well("m3")}, "Unauthorized", "kubectl multicluster check"},
		"a peer is refused":     {[]Cluster{well("m1", broken("Unauthorized")), m2}, "Unauthorized", "kubectl multicluster check"},
		"a peer is leaving":     {[]Cluster{well("m1", broken("Leaving")), m2}, "", "kubectl multicluster verify ctx-m1 ctx-m2"},
		"a peer outside":        {[]Cluster{well("m1", connected("m2"), system.Peer{ID: "m9", HasLease: true, Reason: "Unreachable"}), m2}, "Unreachable", "kubectl multicluster check"},
		"an unreachable API":    {[]Cluster{well("m1", connected("m2")), {Context: "ctx-m2", Errors: []string{"connect: refused"}}}, "ClusterUnreachable", "kubectl multicluster check"},
		"not installed":         {[]Cluster{well("m1"), change(m2, func(c *Cluster) { c.Installed, c.ID, c.Heartbeat, c.peers = new(false), "", time.Time{}, nil })}, "NotInstalled", "kubectl multicluster check"},
		"not known whether installed": {[]Cluster{well("m1"), change(m2, func(c *Cluster) {
			c.Installed, c.ID, c.Heartbeat, c.peers, c.Errors = nil, "", time.Time{}, nil, []string{"read the cluster ID: forbidden"}
		})}, "NotRead", "kubectl multicluster check"},
		"no ID":               {[]Cluster{well("m1"), change(m2, func(c *Cluster) { c.ID, c.Heartbeat, c.peers = "", time.Time{}, nil })}, "NoClusterID", "kubectl multicluster check"},
		"a silent controller": {[]Cluster{well("m1", connected("m2")), change(m2, func(c *Cluster) { c.Heartbeat = now.Add(-3 * time.Minute) })}, "ControllerSilent", "kubectl multicluster check"},
		"a local clock that is slow": {[]Cluster{well("m1", connected("m2")), change(m2, func(c *Cluster) {
			c.ahead, c.Heartbeat = 5*time.Minute, now.Add(5*time.Minute-time.Second)
		})}, "", "kubectl multicluster verify ctx-m1 ctx-m2"},
		"a local clock that is fast": {[]Cluster{well("m1", connected("m2")), change(m2, func(c *Cluster) {
			c.ahead, c.Heartbeat = -5*time.Minute, now.Add(-5*time.Minute)
		})}, "", "kubectl multicluster verify ctx-m1 ctx-m2"},
		"too few controllers":  {[]Cluster{well("m1", connected("m2")), change(m2, func(c *Cluster) { c.Controller = &Replicas{1, 2} })}, "ControllerNotReady", "kubectl multicluster check"},
		"scaled to zero":       {[]Cluster{well("m1", connected("m2")), change(m2, func(c *Cluster) { c.Controller = &Replicas{0, 0} })}, "ControllerNotReady", "kubectl multicluster check"},
		"too few DNS servers":  {[]Cluster{well("m1", connected("m2")), change(m2, func(c *Cluster) { c.DNS = &Replicas{1, 2} })}, "DNSNotReady", "kubectl multicluster check"},
		"peers cannot be read": {[]Cluster{well("m1", connected("m2")), change(m2, func(c *Cluster) { c.peersRead, c.peers, c.Errors = false, nil, []string{"read the peers: no"} })}, "NotRead", "kubectl multicluster check"},
		"one cluster twice":    {[]Cluster{well("m1"), well("m1")}, "SameCluster", "kubectl multicluster check"},
		"two with one ID":      {[]Cluster{well("m1"), change(well("m1"), func(c *Cluster) { c.uid = "other" })}, "DuplicateID", "kubectl multicluster check"},
		"a token that has not expired by the clock of its cluster": {[]Cluster{change(well("m1", func() system.Peer {
			p := connected("m2")
			p.TokenExpiry = now.Add(-time.Second)
			return p
		}()), func(c *Cluster) { c.ahead, c.Heartbeat = -time.Minute, now.Add(-time.Minute) }), m2}, "", "kubectl multicluster verify ctx-m1 ctx-m2"},
		"an expired token": {[]Cluster{well("m1", func() system.Peer {
			p := connected("m2")
			p.TokenExpiry = now.Add(-time.Second)
			return p
		}()), m2}, "TokenExpires", "kubectl multicluster check"},
	} {
		t.Run(name, func(t *testing.T) {
			r := evaluate(c.rows, now)
			if got := ids(r.Problems); got != c.problems {
				t.Errorf("the problems are %q, want %q: %+v", got, c.problems, r.Problems)
			}
			if got := strings.Join(r.Next, "; "); got != c.next {
				t.Errorf("next is %q, want %q", got, c.next)
			}
			var text strings.Builder
			if err := r.Print(&text, false); err != nil {
				t.Fatal(err)
			}
			for _, p := range r.Problems {
				if !strings.Contains(text.String(), p.ID) || p.Link == "" {
					t.Errorf("the problem %+v is not in\n%s", p, text.String())
				}
			}
		})
	}
}

// A matrix that is wider than a terminal helps nobody. Problems are bounded too, and the rest is counted.
func TestPrintIsBounded(t *testing.T) {
	var rows []Cluster
	for i := range 30 {
		id := "m" + strings.Repeat("x", i+1)
		c := well(id)
		c.Controller = &Replicas{1, 2}
		c.DNS = &Replicas{1, 2}
		rows = append(rows, c)
	}
	var text strings.Builder
	if err := evaluate(rows, now).Print(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"30 clusters: the matrix", "30 problems more"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// Each state of a token has its own words.
func TestTokens(t *testing.T) {
	for name, c := range map[string]struct {
		expiry  time.Time
		message string
		want    string
	}{
		"a token that does not expire": {},
		"a valid token":                {expiry: now.Add(time.Hour)},
		"an expired token":             {expiry: now.Add(-time.Hour), message: "expired at", want: "expired at 2026-11-25T11:00:00Z."},
		"no renewal":                   {expiry: now.Add(time.Hour), message: "no right", want: "expires at 2026-11-25T13:00:00Z and is not renewed: no right"},
		"nothing to renew":             {message: "it does not expire", want: "is not renewed: it does not expire"},
	} {
		t.Run(name, func(t *testing.T) {
			p := connected("m2")
			p.TokenExpiry, p.TokenMessage = c.expiry, c.message
			r := evaluate([]Cluster{well("m1", p), well("m2", connected("m1"))}, now)
			var text strings.Builder
			if err := r.Print(&text, false); err != nil {
				t.Fatal(err)
			}
			if c.want == "" && len(r.Problems) > 0 || c.want != "" && !strings.Contains(text.String(), "The token with which m1 reads m2 "+c.want) {
				t.Errorf("want %q in\n%s", c.want, text.String())
			}
			if shown := strings.Contains(text.String(), "The next token that expires"); shown == c.expiry.IsZero() {
				t.Errorf("the expiry is shown: %t", shown)
			}
		})
	}
}

// Two contexts with one ID are two rows and two columns, and none reads itself.
func TestMatrixWithADuplicateID(t *testing.T) {
	twin := well("m1", connected("m1"))
	twin.Context, twin.uid = "twin", "other"
	r := evaluate([]Cluster{well("m1", connected("m2")), twin, well("m2", connected("m1"))}, now)
	var text strings.Builder
	if err := r.Print(&text, false); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(text.String()) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{"READER \\ SOURCE ctx-m1 twin ctx-m2", "ctx-m1 · · ok", "twin ok · -", "ctx-m2 ok ok ·"} {
		if !slices.Contains(rows, want) {
			t.Errorf("no row %q in\n%s", want, text.String())
		}
	}
	if got := ids(r.Problems); got != "DuplicateID" {
		t.Errorf("the problems are %s", got)
	}
}

// What may not be read is not known.
func TestNotKnownWhetherInstalled(t *testing.T) {
	row := well("m1")
	row.Installed, row.ID, row.Errors = nil, "", []string{"read the cluster ID: forbidden"}
	r := evaluate([]Cluster{row}, now)
	var text, encoded strings.Builder
	if err := errors.Join(r.Print(&text, false), output.Encode(&encoded, output.JSON, r)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "not installed") || !strings.Contains(text.String(), "read the cluster ID: forbidden") || strings.Contains(encoded.String(), `"installed"`) {
		t.Errorf("%s\n%s", text.String(), encoded.String())
	}
}
