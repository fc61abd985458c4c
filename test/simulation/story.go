package simulation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/test/apiserver"
)

// story is a clusterset to which things happen.
type story struct {
	ctx      context.Context
	seed     uint64
	network  *network
	judges   *judges
	clusters []*cluster
	began    []string                   // the words of the step that made the clusters
	given    map[string][]client.Object // what clusters have in the beginning, instead of their peers; nil in stories
	output   bytes.Buffer               // of the last step
}

// random is the key of a context with a func(string), which is called with each step that does nothing because its object is missing, or exists
// already. Without it, such a step is an error.
type random struct{}

// tracing is the key of a context with an io.Writer, to which each change of an object is printed.
type tracing struct{}

// stateBefore is the key of a context with a *string. If a story fails, it gets the tables from before the step that fails, and from after it.
type stateBefore struct{}

// finale is the key of a context with a func(*story), which sees how a story ends.
type finale struct{}

// printChange prints who changed what of an object.
func printChange(to io.Writer, cluster string, r *apiserver.Request) {
	if isSignOfLife(r) {
		return
	}
	plain := func(o client.Object) any {
		if o == nil {
			return nil
		}
		o = o.DeepCopyObject().(client.Object)
		o.SetManagedFields(nil)
		content, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(o) // as all typed objects can be
		return content
	}
	agent, _, _ := strings.Cut(r.UserAgent, "/")
	_, _ = fmt.Fprintf(to, "%s %s: %s %s %s %s %s\n%s", time.Now().Format("15:04:05.000"), cluster, agent, r.Verb, r.Resource.Resource, r.NamespacedName, r.Subresource, gocmp.Diff(plain(r.Old), plain(r.New)))
}

// isMoot reports whether a step failed because what it is about is not there, is there already, or is on its way out.
func isMoot(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || errors.Is(err, errMoot)
}

var errMoot = errors.New("there is nothing to do")

// play runs the steps of a story, and returns its text with what the steps print now. A line is a step; lines that begin with # say what
// happens, and what a step has printed is indented below it. It fails at the first step after which a promise is broken.
func play(ctx context.Context, seed uint64, text string) (string, error) {
	ctx, end := context.WithCancel(ctx)
	s := &story{ctx: ctx, seed: seed, network: newNetwork(), judges: newJudges()}
	if to, ok := ctx.Value(tracing{}).(io.Writer); ok {
		s.judges.trace = func(cluster string, r *apiserver.Request) { printChange(to, cluster, r) }
	}
	begun := time.Now()
	defer func() {
		virtual.Add(uint64(time.Since(begun)))
		s.stop()
		for _, c := range s.clusters {
			c.dying.Wait()
		}
		end()
		time.Sleep(10 * time.Minute) //nolint:forbidigo // it is virtual time: what waits for a time ends
	}()
	var out strings.Builder
	before, _ := ctx.Value(stateBefore{}).(*string)
	for number, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "    ") {
			continue // what was printed before
		}
		fmt.Fprintln(&out, line)
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if before != nil {
			*before = s.state()
		}
		err := s.step(line)
		if skipped, is := ctx.Value(random{}).(func(string)); is && isMoot(err) {
			skipped(line)
			err = nil
		}
		s.print(&out)
		if err = errors.Join(err, s.judges.verdict()); err != nil {
			if before != nil {
				*before = fmt.Sprintf("Before %q:\n%s\nAfter it:\n%s", line, *before, s.state())
			}
			return out.String(), fmt.Errorf("line %d, %q: %w", number+1, line, err)
		}
	}
	if len(s.clusters) == 0 {
		return out.String(), errors.New("want steps: a story begins with, for example, clusters 2")
	}
	if sees, given := ctx.Value(finale{}).(func(*story)); given {
		sees(s)
	}
	return out.String(), nil
}

// print prints what a step has printed, indented.
func (s *story) print(to io.Writer) {
	for _, printed := range strings.Split(strings.TrimRight(s.output.String(), "\n"), "\n") {
		if printed != "" {
			_, _ = fmt.Fprintln(to, "    "+strings.TrimRight(printed, " "))
		}
	}
	s.output.Reset()
}

func (s *story) stop() {
	_ = s.cut(nil, false)
	for _, c := range s.clusters { // also what has not started yet has to, before it can end
		s.network.edit(func(n *network) { n.refusing[c.id], n.silent[c.id] = false, false })
		c.mu.Lock()
		c.refusals = nil
		c.mu.Unlock()
	}
	for _, c := range s.clusters {
		for c.controller != nil {
			_ = c.end(true)
		}
		if c.second != nil {
			_ = c.over(c.second, true)
		}
		c.stopOthers()
	}
}

// step does what a line says: "member1: export foo" in one cluster, and "wait 10s" in none.
func (s *story) step(line string) error {
	words := strings.Fields(line)
	if id, found := strings.CutSuffix(words[0], ":"); found && len(words) > 1 {
		c, err := s.cluster(id)
		if err != nil {
			return err
		}
		do, known := inCluster[words[1]]
		if !known {
			return fmt.Errorf("%q is no step in a cluster: these are %s", words[1], strings.Join(slices.Sorted(maps.Keys(inCluster)), ", "))
		}
		if err := do.count(words[1:]); err != nil {
			return err
		}
		return do.do(s, c, words[2:])
	}
	do, known := everywhere[words[0]]
	if !known {
		return fmt.Errorf("%q is no step: these are %s, and in a cluster, as member1: STEP, %s. What a step prints is indented by four blanks",
			words[0], strings.Join(slices.Sorted(maps.Keys(everywhere)), ", "), strings.Join(slices.Sorted(maps.Keys(inCluster)), ", "))
	}
	if err := do.count(words); err != nil {
		return err
	}
	return do.do(s, words[1:])
}

func (s *story) cluster(id string) (*cluster, error) {
	at := slices.IndexFunc(s.clusters, func(c *cluster) bool { return c.id == id })
	if at < 0 {
		return nil, fmt.Errorf("there is no cluster %s: a story begins with, for example, clusters 2", id)
	}
	return s.clusters[at], nil
}

// words are how many follow the name of a step.
type words struct{ least, most int }

const many = 1000 // words

func (w words) count(of []string) error {
	switch count := len(of) - 1; {
	case count < w.least:
		return fmt.Errorf("%q has %d words after it, want at least %d", of[0], count, w.least)
	case count > w.most:
		return fmt.Errorf("%q has %d words after it, want at most %d", of[0], count, w.most)
	}
	return nil
}

type anywhere struct {
	words
	do func(*story, []string) error
}

type within struct {
	words
	do func(*story, *cluster, []string) error
}

// everywhere are the steps that name no cluster, or several.
var everywhere = map[string]anywhere{
	"clusters": {words{1, 9}, (*story).begin},
	"wait":     {words{1, 1}, (*story).wait},
	"settle":   {words{0, 0}, (*story).settle},
	"show":     {words{1, many}, (*story).show},
	"exports":  {words{1, many}, (*story).exports},
	"imports":  {words{1, many}, (*story).imports},
	"ports":    {words{1, many}, (*story).ports},
	"metadata": {words{1, many}, (*story).metadata},
	"slices":   {words{1, many}, (*story).slices},
	"services": {words{0, 0}, (*story).services},
	"writes":   {words{0, many}, (*story).writes},
	"events":   {words{1, many}, (*story).events},
	"peers":    {words{0, 0}, (*story).peers},
	"cut":      {words{1, 9}, func(s *story, ids []string) error { return s.cut(ids, true) }},
	"connect":  {words{0, 9}, func(s *story, ids []string) error { return s.cut(ids, false) }},
}

// inCluster are the steps that begin with a cluster.
var inCluster = map[string]within{
	"service":   {words{1, many}, (*story).service},
	"endpoints": {words{1, many}, (*story).endpoints},
	"export":    {words{1, many}, (*story).export},
	"create":    {words{2, many}, (*story).create},
	"delete":    {words{2, 3}, (*story).delete},
	"label":     {words{3, 3}, func(s *story, c *cluster, words []string) error { return s.mark(c, "labels", words) }},
	"annotate":  {words{3, 3}, func(s *story, c *cluster, words []string) error { return s.mark(c, "annotations", words) }},
	"patch":     {words{3, many}, (*story).patch},
	"dig":       {words{2, 2}, (*story).dig},
	"join":      {words{1, 9}, (*story).join},
	"leave":     {words{1, 9}, (*story).leave},
	"api":       {words{1, 1}, (*story).api},
	"pods":      {words{1, 1}, (*story).pods},
	"answer":    {words{2, 4}, (*story).answer},
	"mutate":    {words{1, many}, (*story).mutate},
	"lose":      {words{1, 1}, (*story).lose},
	"expire":    {words{0, 0}, (*story).expire},
	"backup":    {words{0, 0}, (*story).backup},
	"restore":   {words{0, 1}, (*story).restore},
	"proxies":   {words{0, 0}, (*story).proxies},
	"replica":   {words{0, 0}, (*story).replica},
	"restart":   {words{0, 0}, (*story).restart},
	"install":   {words{0, 1}, (*story).install},
	"forge":     {words{3, many}, (*story).forge},
	"clock":     {words{1, 1}, (*story).clock},
	"crash":     {words{0, 3}, (*story).crash},
	"start":     {words{0, 0}, (*story).start},
}

// join lets a cluster read peers: "join member2".
func (s *story) join(c *cluster, peers []string) error {
	return each(peers, func(id string) error {
		if _, err := s.cluster(id); err != nil {
			return err
		}
		return c.join(s.ctx, id)
	})
}

// leave ends the reading of peers: "leave member2".
func (s *story) leave(c *cluster, peers []string) error {
	return each(peers, func(id string) error { return c.leave(s.ctx, id) })
}

func each[T any](all []T, do func(T) error) error {
	var errs []error
	for _, one := range all {
		errs = append(errs, do(one))
	}
	return errors.Join(errs...)
}

// begin starts clusters that are joined all to all, with flags of the controller: "clusters 2", "clusters 3 peer-timeout=1m auto-export=on
// native-names=kubernetes.io/metadata.name import-namespaces=team=blue keep-last-endpoints=false", and "clusters 1 families=dual" with addresses of
// both families.
func (s *story) begin(words []string) error {
	if len(s.clusters) > 0 {
		return errors.New("there are clusters already: a story begins with them")
	}
	s.began = slices.Clone(words)
	words, of, err := options(words, "peer-timeout", "auto-export", "auto-export-annotation", "native-names", "export-namespaces", "import-namespaces",
		"keep-last-endpoints", "leader-elect", "families")
	if err != nil {
		return err
	}
	flags, err := flagsOf(of)
	if err != nil {
		return err
	}
	imported, err := selectorOf(of["import-namespaces"])
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(strings.Join(words, " "))
	if err != nil || count < 1 || count > 9 {
		return fmt.Errorf("%q: want a number of clusters from 1 to 9", strings.Join(words, " "))
	}
	for n := range count {
		c, err := newCluster(s.ctx, s.network, s.judges, n+1, s.seed, of["families"] == "dual")
		if err != nil {
			return err
		}
		c.flags, c.imported = flags, imported
		s.clusters = append(s.clusters, c)
	}
	for _, c := range s.clusters {
		if err := s.furnish(c); err != nil {
			return err
		}
	}
	for _, c := range s.clusters {
		if err := c.startOthers(s.ctx); err != nil {
			return err
		}
		c.start(s.ctx)
	}
	return nil
}

// furnish gives a cluster what it has in the beginning.
func (s *story) furnish(c *cluster) error {
	if s.given != nil {
		return each(s.given[c.id], c.server.Put)
	}
	return each(s.clusters, func(peer *cluster) error {
		if c == peer {
			return nil
		}
		return c.join(s.ctx, peer.id)
	})
}

// selectorOf returns nil for no text.
func selectorOf(text string) (labels.Selector, error) {
	if text == "" {
		return nil, nil
	}
	return labels.Parse(text)
}

func flagsOf(text map[string]string) (flags reconcile.Options, err error) {
	for _, option := range []string{"keep-last-endpoints", "leader-elect"} {
		if _, err := oneOf([]string{text[option]}, "", "true", "false"); err != nil {
			return flags, err
		}
	}
	if _, err := oneOf([]string{text["families"]}, "", "dual"); err != nil {
		return flags, err
	}
	flags = reconcile.Options{KeepLastEndpoints: text["keep-last-endpoints"] != "false", LeaderElect: text["leader-elect"] == "true", AutoExport: reconcile.AutoExportOff}
	flags.AutoExportAnnotation = text["auto-export-annotation"]
	if flags.PeerTimeout, err = time.ParseDuration(cmp.Or(text["peer-timeout"], "10m")); err != nil || flags.PeerTimeout <= 0 {
		return flags, fmt.Errorf("%q: want a time such as peer-timeout=1m", text["peer-timeout"])
	}
	if on := text["auto-export"]; on != "" {
		err = flags.AutoExport.UnmarshalText([]byte(on))
	}
	for option, in := range map[string]*reconcile.Namespaces{
		"native-names": &flags.NativeNames, "export-namespaces": &flags.ExportNamespaces, "import-namespaces": &flags.ImportNamespaces,
	} {
		if selector := text[option]; selector != "" {
			err = errors.Join(err, in.UnmarshalText([]byte(selector)))
		}
	}
	return flags, err
}

// longestWait is more than any timeout of the product.
const longestWait = 31 * 24 * time.Hour

func (s *story) wait(words []string) error {
	d, err := time.ParseDuration(strings.Join(words, " "))
	if err != nil || d < 0 || d > longestWait {
		return fmt.Errorf("%q: want a time from 0s to %v, such as 10s or 5m", strings.Join(words, " "), longestWait)
	}
	time.Sleep(d) //nolint:forbidigo // it is virtual time
	synctest.Wait()
	return nil
}
