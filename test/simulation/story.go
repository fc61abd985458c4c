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

// random is the key of a context in which steps of a story may be about nothing, as random ones are.
type random struct{}

// tracing is the key of a context with an io.Writer, to which each change of an object is printed.
type tracing struct{}

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
	for number, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "    ") {
			continue // what was printed before
		}
		fmt.Fprintln(&out, line)
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		err := s.step(line)
		if isMoot(err) && ctx.Value(random{}) != nil {
			err = nil
		}
		for _, printed := range strings.Split(strings.TrimRight(s.output.String(), "\n"), "\n") {
			if printed != "" {
				fmt.Fprintln(&out, "    "+strings.TrimRight(printed, " "))
			}
		}
		s.output.Reset()
		if err = errors.Join(err, s.judges.verdict()); err != nil {
			return out.String(), fmt.Errorf("line %d, %q: %w", number+1, line, err)
		}
	}
	if sees, given := ctx.Value(finale{}).(func(*story)); given {
		sees(s)
	}
	return out.String(), nil
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
		_ = c.end(true)
		if c.second != nil {
			_ = c.over(c.second, true)
		}
		c.stopOthers()
	}
}

// step does what a line says: "member1: export foo" in one cluster, and "wait 10s" in none.
func (s *story) step(line string) (err error) {
	defer func() {
		var short interface{ RuntimeError() }
		if fault := recover(); fault != nil {
			if cause, is := fault.(error); !is || !errors.As(cause, &short) || !strings.Contains(cause.Error(), "out of range") {
				panic(fault)
			}
			err = errors.New("it has too few words")
		}
	}()
	words := strings.Fields(line)
	if id, found := strings.CutSuffix(words[0], ":"); found && len(words) > 1 {
		at := slices.IndexFunc(s.clusters, func(c *cluster) bool { return c.id == id })
		if at < 0 {
			return fmt.Errorf("there is no cluster %s: a story begins with, for example, clusters 2", id)
		}
		do, known := inCluster[words[1]]
		if !known {
			return fmt.Errorf("%q is no step in a cluster: these are %s", words[1], strings.Join(slices.Sorted(maps.Keys(inCluster)), ", "))
		}
		return do(s, s.clusters[at], words[2:])
	}
	do, known := everywhere[words[0]]
	if !known {
		return fmt.Errorf("%q is no step: these are %s, and in a cluster, as member1: STEP, %s. What a step prints is indented by four blanks",
			words[0], strings.Join(slices.Sorted(maps.Keys(everywhere)), ", "), strings.Join(slices.Sorted(maps.Keys(inCluster)), ", "))
	}
	return do(s, words[1:])
}

// everywhere are the steps that name no cluster, or several.
var everywhere = map[string]func(*story, []string) error{
	"clusters": (*story).begin,
	"wait":     (*story).wait,
	"settle":   (*story).settle,
	"show":     (*story).show,
	"exports":  (*story).exports,
	"imports":  (*story).imports,
	"metadata": (*story).metadata,
	"slices":   (*story).slices,
	"services": (*story).services,
	"writes":   (*story).writes,
	"events":   (*story).events,
	"peers":    (*story).peers,
	"cut":      func(s *story, ids []string) error { return s.cut(ids, true) },
	"connect":  func(s *story, ids []string) error { return s.cut(ids, false) },
}

// inCluster are the steps that begin with a cluster.
var inCluster = map[string]func(*story, *cluster, []string) error{
	"service":   (*story).service,
	"endpoints": (*story).endpoints,
	"export":    (*story).export,
	"create":    (*story).create,
	"delete":    (*story).delete,
	"label":     func(s *story, c *cluster, words []string) error { return s.mark(c, "labels", words) },
	"annotate":  func(s *story, c *cluster, words []string) error { return s.mark(c, "annotations", words) },
	"patch":     (*story).patch,
	"dig":       (*story).dig,
	"join": func(s *story, c *cluster, peers []string) error {
		return each(peers, func(p string) error { return c.join(s.ctx, p) })
	},
	"leave": func(s *story, c *cluster, peers []string) error {
		return each(peers, func(p string) error { return c.leave(s.ctx, p) })
	},
	"api":     (*story).api,
	"pods":    (*story).pods,
	"answer":  (*story).answer,
	"mutate":  (*story).mutate,
	"lose":    (*story).lose,
	"expire":  (*story).expire,
	"backup":  (*story).backup,
	"restore": (*story).restore,
	"proxies": (*story).proxies,
	"restart": (*story).restart,
	"install": (*story).install,
	"forge":   (*story).forge,
	"clock":   (*story).clock,
	"crash":   (*story).crash,
	"start":   (*story).start,
}

func each[T any](all []T, do func(T) error) error {
	var errs []error
	for _, one := range all {
		errs = append(errs, do(one))
	}
	return errors.Join(errs...)
}

// begin starts clusters that are joined all to all, with flags of the controller: "clusters 2", "clusters 3 peer-timeout=1m auto-export=on
// native-names=kubernetes.io/metadata.name keep-last-endpoints=false", and "clusters 1 families=dual" with addresses of both families.
func (s *story) begin(words []string) error {
	s.began = slices.Clone(words)
	words, of, err := options(words, "peer-timeout", "auto-export", "native-names", "keep-last-endpoints", "families")
	if err != nil {
		return err
	}
	_, err = oneOf([]string{of["families"]}, "", "dual")
	if err != nil {
		return err
	}
	flags, err := flagsOf(of)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(strings.Join(words, " "))
	if err != nil || count < 1 || count > 9 {
		return fmt.Errorf("want a number of clusters from 1 to 9: %w", err)
	}
	for n := range count {
		c, err := newCluster(s.ctx, s.network, s.judges, n+1, s.seed, of["families"] == "dual")
		if err != nil {
			return err
		}
		c.flags = flags
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

func flagsOf(text map[string]string) (flags reconcile.Options, err error) {
	if _, err := oneOf([]string{text["keep-last-endpoints"]}, "", "true", "false"); err != nil {
		return flags, err
	}
	flags = reconcile.Options{KeepLastEndpoints: text["keep-last-endpoints"] != "false", AutoExport: reconcile.AutoExportOff}
	if flags.PeerTimeout, err = time.ParseDuration(cmp.Or(text["peer-timeout"], "10m")); err != nil {
		return flags, err
	}
	if on := text["auto-export"]; on != "" {
		err = flags.AutoExport.UnmarshalText([]byte(on))
	}
	if in := text["native-names"]; in != "" {
		err = errors.Join(err, flags.NativeNames.UnmarshalText([]byte(in)))
	}
	return flags, err
}

func (s *story) wait(words []string) error {
	d, err := time.ParseDuration(strings.Join(words, " "))
	if d < 0 {
		return errors.New("time does not go back")
	}
	if err == nil {
		time.Sleep(d) //nolint:forbidigo // it is virtual time
		synctest.Wait()
	}
	return err
}
