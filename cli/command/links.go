package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/join"
	"github.com/clusterset-dns/multicluster/cli/output"
)

// selection are the flags of join, leave and rotate that select links, and that set values for them.
type selection struct {
	contexts, from       []string
	servers, cas, ids    []string
	mesh, all            bool
	onlyFirst, mayBeGone bool // of leave
}

func (s *selection) contextFlags(e *env, c *cobra.Command) {
	flags := c.Flags()
	flags.StringSliceVar(&s.contexts, "contexts", nil, "contexts of the kubeconfig, in addition to the arguments")
	flags.StringSliceVar(&s.from, "from", nil, "contexts of the clusters that are read: one way only, the arguments are the readers")
	flags.StringArrayVar(&s.ids, "id", nil, "CONTEXT=ID: the cluster ID, if the controller does not announce one")
	for _, name := range []string{"contexts", "from"} {
		_ = c.RegisterFlagCompletionFunc(name, e.contextNames)
	}
}

func (s *selection) meshFlag(c *cobra.Command) {
	c.Flags().BoolVar(&s.mesh, "mesh", false, "each cluster reads each other one. Without contexts: all of the kubeconfig, but one for each cluster")
}

func (s *selection) serverFlags(c *cobra.Command) {
	c.Flags().StringArrayVar(&s.servers, "server", nil,
		"[SOURCE=]URL or READER,SOURCE=URL: address of the API server of SOURCE for the pods of the readers, if the kubeconfig has another one")
	c.Flags().StringArrayVar(&s.cas, "ca", nil,
		"[SOURCE=]FILE or READER,SOURCE=FILE: certificate authority of that server, in PEM")
}

// links returns the links that the arguments and flags select.
func (s *selection) links(all *clusters.Contexts, args []string) ([]*join.Link, error) {
	readers := unique(append(slices.Clone(args), s.contexts...))
	known := map[string]*join.Member{}
	member := func(name string) *join.Member {
		if known[name] == nil {
			known[name] = newMember(all, name)
			known[name].Spare = !slices.Contains(readers, name) && !slices.Contains(s.from, name) && !s.sets(name)
		}
		return known[name]
	}
	pairs, err := s.pairs(all, readers)
	if err != nil {
		return nil, err
	}
	links := make([]*join.Link, len(pairs))
	for i, pair := range pairs {
		links[i] = &join.Link{From: member(pair[0]), To: member(pair[1])}
	}
	if err := s.setIDs(known); err != nil {
		return nil, err
	}
	for _, l := range links {
		for _, m := range []*join.Member{l.From, l.To} {
			if errors.Is(m.Err, clusters.ErrUnknownContext) && (!s.mayBeGone || m.GivenID == "") {
				return nil, usageError{m.Err}
			}
		}
	}
	return links, s.setServers(links)
}

// pairs returns the selected links: the contexts that are read and that read.
func (s *selection) pairs(all *clusters.Contexts, names []string) ([][2]string, error) {
	sources, others := unique(s.from), names
	switch {
	case len(sources) > 0 && (s.mesh || s.all):
		return nil, usage("--from is for one direction only: remove it, or --mesh and --all")
	case len(sources) > 0 && len(names) == 0:
		return nil, usage("--from needs a reader: give its context as an argument")
	case len(sources) > 0:
		return cross(sources, names, false)
	case s.all && len(names) != 1:
		return nil, usage("--all needs one context, of the cluster that leaves")
	case s.all || s.mesh && len(names) == 0:
		others = all.Names()
	}
	if len(others) < 2 {
		return nil, usage("at least two contexts are required, or one and --from: the kubeconfig has %s", output.List(all.Names(), 10))
	}
	if !s.onlyFirst {
		return cross(others, others, true)
	}
	others = slices.DeleteFunc(slices.Clone(others), func(name string) bool { return name == names[0] })
	there, err := cross(names[:1], others, false)
	if err != nil {
		return nil, err
	}
	back, err := cross(others, names[:1], false)
	return append(there, back...), err
}

// cross returns the pairs of sources and readers. A cluster is not its own reader.
func cross(sources, readers []string, skip bool) ([][2]string, error) {
	var pairs [][2]string
	for _, from := range sources {
		for _, to := range readers {
			switch {
			case from != to:
				pairs = append(pairs, [2]string{from, to})
			case !skip:
				return nil, usage("%s cannot read itself: a cluster is not its own peer", output.Quote(from))
			}
		}
	}
	return pairs, nil
}

func unique(names []string) []string {
	var all []string
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func newMember(all *clusters.Contexts, name string) *join.Member {
	m := &join.Member{Context: name}
	if m.Cluster, m.Err = all.Cluster(name); m.Err == nil {
		m.Entry, m.Err = all.Server(name)
	}
	return m
}

// sets reports whether a flag sets something for a context.
func (s *selection) sets(name string) bool {
	return slices.ContainsFunc(slices.Concat(s.ids, s.servers, s.cas), func(text string) bool {
		return strings.HasPrefix(text, name+"=") || strings.HasPrefix(text, name+",") || strings.Contains(text, ","+name+"=")
	})
}

// setIDs sets what --id gives. IDs contain no «=», and contexts may.
func (s *selection) setIDs(known map[string]*join.Member) error {
	for _, text := range s.ids {
		i := strings.LastIndex(text, "=")
		if i < 0 || known[text[:i]] == nil {
			return usage("--id %s: expected CONTEXT=ID, with a context of this command", output.Quote(text))
		}
		known[text[:i]].GivenID = text[i+1:]
	}
	return nil
}

// setServers sets what --server and --ca give.
func (s *selection) setServers(links []*join.Link) error {
	err := scoped("--server", s.servers, links, func(l *join.Link, value string) error {
		if fault := join.ServerFault(value); fault != "" {
			return usage("--server: %s", fault)
		}
		l.Server = value
		return nil
	})
	if err != nil {
		return err
	}
	return scoped("--ca", s.cas, links, func(l *join.Link, value string) error {
		text, err := os.ReadFile(value) //nolint:gosec // the file that the user names
		if err != nil {
			return usage("--ca: %w", err)
		}
		if fault := join.CAFault(text); fault != "" {
			return usage("--ca: %s %s", output.Quote(value), fault)
		}
		l.CA, l.CAFile = text, value
		return nil
	})
}

// scoped sets the values of a flag: READER,SOURCE=VALUE is for one link, SOURCE=VALUE for all readers
// of a cluster, and VALUE for the only cluster that is read. The first form wins over the others.
// Names of contexts may contain «=» and «,».
func scoped(flag string, values []string, links []*join.Link, set func(*join.Link, string) error) error {
	forOne := func(key string, l *join.Link) bool { return key == l.To.Context+","+l.From.Context }
	forSource := func(key string, l *join.Link) bool { return key == l.From.Context }
	used := make([]bool, len(values))
	for _, matches := range []func(string, *join.Link) bool{forSource, forOne} {
		for n, text := range values {
			for i := range text {
				if text[i] != '=' {
					continue
				}
				for _, l := range links {
					if !matches(text[:i], l) {
						continue
					}
					used[n] = true
					if err := set(l, text[i+1:]); err != nil {
						return err
					}
				}
			}
		}
	}
	for n, text := range values {
		if used[n] {
			continue
		}
		if slices.ContainsFunc(links, func(l *join.Link) bool { return l.From != links[0].From }) {
			return usage("%s %s: several clusters are read: expected SOURCE=VALUE or READER,SOURCE=VALUE, with contexts of this command", flag, output.Quote(text))
		}
		for _, l := range links {
			if err := set(l, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// show prints what became of links, for people: the table and the problems to standard output, notes
// and warnings beside it.
func (e *env) show(r *join.Report) error {
	notes(e.ErrOut, r)
	return e.report(r, func(w io.Writer, p output.Painter) error {
		rows := make([][]output.Cell, len(r.Links))
		for i, l := range r.Links {
			rows[i] = []output.Cell{{Text: l.From}, {Text: l.To}, {Text: string(l.Change), Paint: changePaint(p, l.Change)}, {Text: dash(l.State), Paint: statePaint(p, l.State)}}
		}
		if err := output.Rows(w, []string{"FROM", "TO", "CHANGE", "STATE"}, rows); err != nil {
			return err
		}
		return output.Problems(w, p, r.Problems())
	})
}

func notes(w io.Writer, r *join.Report) {
	for _, text := range r.Notes {
		_, _ = fmt.Fprintf(w, "note: %s\n", output.Clean(text))
	}
	for _, text := range r.Warnings {
		_, _ = fmt.Fprintf(w, "warning: %s\n", output.Clean(text))
	}
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func changePaint(p output.Painter, c join.Change) func(string) string {
	switch c {
	case join.Failed:
		return p.Bad
	case join.Unchanged, join.NotJoined:
		return p.Faint
	}
	return p.Good
}

func statePaint(p output.Painter, state string) func(string) string {
	switch state {
	case "Connected":
		return p.Good
	case "":
		return nil
	}
	return p.Bad
}

// progress returns a function that shows on a terminal how many links are connected, and one that
// removes that line.
func (e *env) progress() (show func(connected, all int), done func()) {
	if !output.IsTerminal(e.ErrOut) {
		return nil, func() {}
	}
	show = func(connected, all int) {
		_, _ = fmt.Fprintf(e.ErrOut, "\r%d of %s connected", connected, output.Count(all, "link"))
	}
	return show, func() { _, _ = fmt.Fprint(e.ErrOut, "\r\x1b[K") }
}
