package join

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// pollEvery is the pause between two reads while something is awaited.
const pollEvery = 200 * time.Millisecond

// Member is a cluster that takes part. Use one value for all links of a cluster.
type Member struct {
	// Context is the name of the context in the kubeconfig.
	Context string
	// Cluster and Entry are the clients, and the entry of the cluster in the kubeconfig, with the data of
	// files that it names. If Err is set, they are nil.
	Cluster *clusters.Cluster
	Entry   *api.Cluster
	// Err is why there is no client. Leave accepts that, if GivenID is set.
	Err error
	// GivenID is the ID that the user gave, or "".
	GivenID string
	// Spare is true if the user did not name the context. Its links are left out if another context leads
	// to the same cluster.
	Spare bool

	id    string // "" if it is not known
	uid   string
	fault error // why the cluster cannot be used

	once    sync.Once // of the account
	account accountState
	renewal sync.Once // of the right to renew tokens
	renews  renewState
}

// renewState is what a reading cluster has for the renewal of its tokens.
type renewState struct {
	changed bool
	err     error
}

// accountState is what the granting side of a cluster has for all readers.
type accountState struct {
	uid     types.UID
	changed bool
	err     error
}

// Link is one direction: To reads From.
type Link struct {
	From, To *Member
	// Server is the address of From's API server for the pods of To, or "" for that of the kubeconfig.
	Server string
	// CA is the certificate authority of that server in PEM, or nil for that of the kubeconfig. CAFile is
	// the file that it is from.
	CA     []byte
	CAFile string
}

func (l *Link) outcome() Outcome {
	return Outcome{From: l.From.Context, To: l.To.Context, FromID: l.From.id, ToID: l.To.id}
}

// called names a cluster by its ID and its context.
func (m *Member) called() string {
	switch m.id {
	case "", m.Context:
		return output.Clean(m.Context)
	}
	return fmt.Sprintf("%s (%s)", m.id, output.Clean(m.Context))
}

// members returns the clusters of links, each once, sorted by context.
func members(links []*Link) []*Member {
	var all []*Member
	for _, l := range links {
		for _, m := range []*Member{l.From, l.To} {
			if !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Member) int { return cmp.Compare(a.Context, b.Context) })
	return all
}

// identify reads the IDs of the clusters of links. It waits until a controller announces one, at most
// the given time. It returns works without those of spare contexts. The error is about two members that
// cannot be in one clusterset.
func identify(ctx context.Context, links []*Link, patience time.Duration) ([]*work, []string, error) {
	each(ctx, members(links), func(ctx context.Context, m *Member) { m.fault = m.identify(ctx, patience) })
	return distinct(links)
}

// distinct returns works for links, without those of spare contexts, which are in the notes.
func distinct(links []*Link) ([]*work, []string, error) {
	all := members(links)
	slices.SortStableFunc(all, func(a, b *Member) int { // named contexts first
		switch {
		case a.Spare == b.Spare:
			return 0
		case a.Spare:
			return 1
		}
		return -1
	})
	var kept []*Member
	var notes []string
	for _, m := range all {
		i := slices.IndexFunc(kept, func(other *Member) bool { return m.uid != "" && other.uid == m.uid })
		if i < 0 || !m.Spare {
			kept = append(kept, m)
			continue
		}
		notes = append(notes, fmt.Sprintf("the context %s is left out: it leads to the same cluster as %s", output.Clean(m.Context), output.Clean(kept[i].Context)))
	}
	if len(kept) == 1 {
		return nil, nil, fmt.Errorf("all contexts lead to one cluster, %s: at least two clusters are required", kept[0].called())
	}
	links = slices.DeleteFunc(slices.Clone(links), func(l *Link) bool { return !slices.Contains(kept, l.From) || !slices.Contains(kept, l.To) })
	return newWorks(links), notes, unlike(kept)
}

func (m *Member) identify(ctx context.Context, patience time.Duration) error {
	found, err := m.read(ctx)
	if err != nil {
		return err
	}
	if found.Installed && found.ID == "" && m.GivenID == "" && patience > 0 {
		// The error of the wait is that the time is over. The fault below says what is missing.
		_ = wait.PollUntilContextTimeout(ctx, pollEvery, patience, false, func(ctx context.Context) (bool, error) {
			if again, err := m.read(ctx); err == nil {
				found = again
			}
			return found.ID != "", nil
		})
	}
	m.uid = found.UID
	return m.setID(found)
}

func (m *Member) read(ctx context.Context) (system.Identity, error) {
	if m.Err != nil {
		return system.Identity{}, m.unreachable(m.Err)
	}
	found, err := system.ReadIdentity(ctx, m.Cluster.Kube)
	if err != nil {
		err = m.unreachable(err)
	}
	return found, err
}

func (m *Member) unreachable(cause error) error {
	return &fault{output.Problem{
		ID:   "ClusterUnreachable",
		What: fmt.Sprintf("cannot reach the cluster of context %s: %s", output.Clean(m.Context), output.Clean(cause.Error())),
		Fix:  []string{output.Kubectl(m.Context, "get", "namespace", system.Namespace)},
	}}
}

// setID decides about the ID: the announced one, else the given one.
func (m *Member) setID(found system.Identity) error {
	name := output.Clean(m.Context)
	switch {
	case !found.Installed:
		return &fault{output.Problem{
			ID:     "NoController",
			What:   fmt.Sprintf("no namespace %s in %s: the controller is not installed there", system.Namespace, name),
			Advice: "Install the controller in that cluster, with Helm, or with deploy/controller and a cluster ID.",
			Link:   output.Docs + "install.md",
		}}
	case found.ID == "" && m.GivenID == "":
		return &fault{output.Problem{
			ID:     "NoClusterID",
			What:   fmt.Sprintf("the controller in %s does not announce a cluster ID", name),
			Advice: fmt.Sprintf("Check that its pods run, and that it has an ID (--cluster-id, or the ClusterProperty). Or set the ID here with --id %s.", output.Quote(m.Context+"=ID")),
			Fix:    []string{output.Kubectl(m.Context, "get", "pods", "-n", system.Namespace)},
			Link:   output.Docs + "join.md#the-cluster-id",
		}}
	case found.ID != "" && m.GivenID != "" && found.ID != m.GivenID:
		return &fault{output.Problem{
			ID:     "OtherClusterID",
			What:   fmt.Sprintf("the controller in %s announces the ID %s, and --id is %s", name, output.Clean(found.ID), output.Clean(m.GivenID)),
			Advice: "Remove --id, or correct --cluster-id in that cluster.",
		}}
	}
	return m.accept(cmp.Or(found.ID, m.GivenID))
}

func (m *Member) accept(id string) error {
	if wrong := mcs.ClusterIDFault(id); wrong != "" {
		return &fault{output.Problem{
			ID:     "InvalidClusterID",
			What:   fmt.Sprintf("invalid cluster ID %q of %s: it %s", output.Clean(id), output.Clean(m.Context), wrong),
			Advice: "Use lower case letters, digits, - and ., with a letter or digit at both ends, and at most 63 characters.",
			Link:   output.Docs + "join.md#the-cluster-id",
		}}
	}
	m.id = id
	return nil
}

// unlike returns an error if two members are one cluster, or have one ID.
func unlike(all []*Member) error {
	uids, ids := map[string]*Member{}, map[string]*Member{}
	for _, m := range all {
		if other := uids[m.uid]; m.uid != "" && other != nil {
			return fmt.Errorf("%s and %s are the same cluster%s: a cluster is not its own peer. Name one of the two contexts", output.Clean(other.Context), output.Clean(m.Context), withID(m.id))
		}
		if other := ids[m.id]; m.id != "" && other != nil {
			return fmt.Errorf("%s and %s are two clusters with the same ID %s: set another --cluster-id in one of them", output.Clean(other.Context), output.Clean(m.Context), m.id)
		}
		uids[m.uid], ids[m.id] = m, m
	}
	return nil
}

func withID(id string) string {
	if id == "" {
		return ""
	}
	return ", " + id
}
