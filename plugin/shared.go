package multicluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns/caddy"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/plugin/watch"
)

// sharedWatch is a watch.Watch with its lifetime. All server blocks with the same options share it,
// and so do several CoreDNS instances: a reload creates the new instance before the old one ends,
// and the new one continues with what the old one knows, also while the API server is away.
type sharedWatch struct {
	*watch.Watch
	observer observer
	cancel   context.CancelFunc
	began    time.Time         // zero before it runs
	holders  map[*instance]int // how often each instance uses it
}

// blockWatch is what a block answers from: its watch, or until that knows as much, the watch of the
// block that it replaces. Otherwise a reload that changes what is watched, or the address of the API server,
// would lose all names until an API server answers.
type blockWatch struct {
	*sharedWatch
	before   atomic.Pointer[sharedWatch] // nil once the watch knows as much
	followed bool                        // by a block of an instance that is being set up, which begins with what this one answers from; of live.mu
}

// View returns the newest View, or nil.
func (s *blockWatch) View() *watch.View { return s.newest().View() }

func (s *blockWatch) newest() *sharedWatch {
	if before := s.before.Load(); before != nil {
		return before
	}
	return s.sharedWatch
}

// maxBehind bounds the wait for the version that another watch has got to. It may never come: if that watch selects other objects, or its
// API server is another one.
const maxBehind = 5 * time.Second

// takeOver waits until the watch has listed each namespace that the one before it knows, and neither answers nor serials would go back to
// earlier ones, or until the instance has ended.
func (s *blockWatch) takeOver(before *sharedWatch, ended <-chan struct{}) {
	defer s.before.Store(nil)
	var late <-chan time.Time
	for {
		last := before.View()
		next, now := s.After(last), s.sharedWatch.View()
		covers, isAsNew := now.Reaches(last)
		switch {
		case covers && isAsNew && int32(now.Index.Serial()-last.Index.Serial()) > 0:
			if live.goOver(s) {
				log.Info("What is watched since the reload is answered")
				return
			}
		case !covers:
			late = nil
		case late == nil:
			late = time.After(maxBehind)
		}
		select {
		case <-next:
		case <-late:
			if late = nil; live.goOver(s) {
				log.Infof("What is watched since the reload is answered. It has not seen all that was answered before, in %v", maxBehind)
				return
			}
		case <-ended:
			return
		}
	}
}

// instance is what one CoreDNS instance, which is one reading of the Corefile, watches.
type instance struct {
	watches    map[string]*sharedWatch
	blocks     map[string][]*blockWatch // by the names of their server blocks, which several can have: with *view*, or *bind*
	once       sync.Once
	began      time.Time
	restarting bool
	over       sync.Once
	ended      chan struct{} // closed when it ends, or has failed to start
}

func newInstance() *instance {
	return &instance{watches: map[string]*sharedWatch{}, blocks: map[string][]*blockWatch{}, ended: make(chan struct{})}
}

// live contains the watches that run in this process, by what they watch.
var live = liveWatches{running: map[string]*sharedWatch{}}

type liveWatches struct {
	mu      sync.Mutex
	running map[string]*sharedWatch
}

type instanceKey struct{}

// instanceOf returns the instance that is being set up. The first call ties it to the lifetime of
// the CoreDNS instance.
func instanceOf(c *caddy.Controller) *instance {
	if i, ok := c.Get(instanceKey{}).(*instance); ok {
		return i
	}
	for _, running := range caddy.Instances() {
		hearFailures(running)
	}
	i := newInstance()
	c.Set(instanceKey{}, i)
	c.OnFirstStartup(i.begin) // before the OnStartup of plugins that wait, so that all wait at the same time
	c.OnStartup(i.begin)      // a reload calls no OnFirstStartup
	c.OnRestart(func() error { i.restarting = true; return nil })
	c.OnRestartFailed(i.restartFailed)
	// During the lameduck of *health*, which is an OnFinalShutdown too, answers are still current.
	c.OnShutdown(func() error {
		if i.restarting {
			i.end()
		}
		return nil
	})
	c.OnFinalShutdown(func() error { i.end(); return nil })
	return i
}

// hearFailures lets a CoreDNS instance without a block of this plugin tell when another one failed to
// replace it: the callbacks of the one that runs are called then.
func hearFailures(running *caddy.Instance) {
	running.StorageMu.Lock()
	defer running.StorageMu.Unlock()
	if running.Storage[instanceKey{}] == nil {
		without := newInstance()
		running.Storage[instanceKey{}] = without
		running.OnRestartFailed = append(running.OnRestartFailed, without.restartFailed)
	}
}

// end releases the watches.
func (i *instance) end() {
	i.finish()
	live.release(func(holder *instance) bool { return holder == i })
}

func (i *instance) finish() { i.over.Do(func() { close(i.ended) }) }

// restartFailed releases the watches of the instance that was to replace i.
func (i *instance) restartFailed() error {
	i.restarting = false
	live.unfollow(i)
	live.release(func(holder *instance) bool { return holder != i })
	return nil
}

// block returns what the plugin's block in a server block answers from. It sends no request to the
// API server.
func (i *instance) block(serverBlock []string, conf config) (*blockWatch, error) {
	own, err := i.watch(conf)
	if err != nil {
		return nil, err
	}
	s, name := &blockWatch{sharedWatch: own}, strings.Join(serverBlock, " ")
	if before := live.predecessor(name, own, i); before != nil {
		s.before.Store(before)
		go func() {
			s.takeOver(before, i.ended)
			live.leave(before, i)
		}()
	}
	i.blocks[name] = append(i.blocks[name], s)
	return s, nil
}

// watch returns the watch that a block needs.
func (i *instance) watch(conf config) (*sharedWatch, error) {
	config, err := watch.LoadConfig(conf.kubeconfig, conf.context)
	if err != nil {
		return nil, err
	}
	key, err := identity(conf, config)
	if err != nil {
		return nil, err
	}
	s := i.watches[key]
	if s == nil {
		s = live.find(key, i)
	}
	if s == nil {
		config.UserAgent = "coredns-multicluster"
		s = &sharedWatch{holders: map[*instance]int{i: 1}}
		if s.Watch, err = watch.New(config, conf.watch, &s.observer); err != nil {
			return nil, err
		}
	}
	i.watches[key] = s
	return s, nil
}

// identity returns a key for a watch: its options, and the content of the files that contain the
// API server's address and credentials. The client itself reads client certificates and tokens in
// separate files again.
func identity(conf config, config *rest.Config) (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%q %q %+v %q\n", conf.kubeconfig, conf.context, conf.watch, config.Host)
	for _, path := range []string{conf.kubeconfig, config.CAFile} {
		if path == "" {
			continue
		}
		content, err := os.ReadFile(path) //nolint:gosec // the Corefile names it, or the pod has it
		if err != nil {
			return "", err
		}
		_, _ = sum.Write(content)
	}
	return string(sum.Sum(nil)), nil
}

// begin starts the watches that do not run yet.
func (i *instance) begin() error {
	i.once.Do(func() {
		i.began = time.Now()
		for key, s := range i.watches {
			live.run(key, s)
		}
	})
	return nil
}

// await waits until a watch has synced, at most for a time that counts from the start of the
// instance. So several blocks and other plugins wait at the same time, and a watch that cannot sync
// does not keep the server from serving its other zones.
func (i *instance) await(s *blockWatch, timeout time.Duration) {
	select {
	case <-s.Synced():
	case <-time.After(time.Until(i.began.Add(timeout))):
		if s.before.Load() != nil {
			log.Warningf("Not synced with the API server after %v: until it is, the answers are those of the options before this reload", timeout)
			return
		}
		log.Warningf("Not synced with the API server after %v: clusterset names that are not listed are SERVFAIL until it is", timeout)
	}
}

// boundReadiness reports the block as ready if its watch has not synced after a time. The server
// can also answer all names of a cluster: Kubernetes would send it no questions because of imports
// that cannot be listed. A reload does not restart the time.
func (m *Multicluster) boundReadiness(s *blockWatch, timeout time.Duration, ended <-chan struct{}) {
	since := s.sharedWatch
	if before := s.before.Load(); before != nil && !before.View().Whole() {
		since = before
	}
	timer := time.NewTimer(live.left(since, timeout))
	go func() {
		defer timer.Stop()
		select {
		case <-s.Synced():
		case <-ended:
		case <-timer.C:
			m.waited.Store(true)
			readyTimeouts.Inc()
			log.Warningf("Not synced with the API server after %v, and reported as ready. Unknown clusterset names are SERVFAIL, "+
				"and NXDOMAIN in the zones of alias", timeout)
		}
	}()
}

// find returns the running watch with that key, if there is one, and counts one more user of it.
func (l *liveWatches) find(key string, by *instance) *sharedWatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.running[key]
	if s != nil {
		s.holders[by]++
	}
	return s
}

// predecessor returns the watch that answers for a server block now, if it is another one and knows
// something, and counts one more user of it. There is none if several blocks of that name answer from different watches: one of them could
// have what the clients of another one must not see.
func (l *liveWatches) predecessor(block string, own *sharedWatch, by *instance) (before *sharedWatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.running {
		for holder := range s.holders {
			if holder == by {
				continue
			}
			for _, answering := range holder.blocks[block] {
				if before != nil && answering.newest() != before {
					return nil
				}
				before, answering.followed = answering.newest(), true
			}
		}
	}
	if before == nil || before == own || before.View() == nil || len(by.blocks[block]) > 0 {
		return nil
	}
	before.holders[by]++
	return before
}

// goOver lets a block answer from its own watch, unless another block begins with what it answers from: answers would go back there.
func (l *liveWatches) goOver(s *blockWatch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !s.followed {
		s.before.Store(nil)
	}
	return !s.followed
}

// unfollow lets the blocks of an instance go over to their own watches: the one that was to replace it has failed.
func (l *liveWatches) unfollow(i *instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, blocks := range i.blocks {
		for _, s := range blocks {
			s.followed = false
		}
	}
}

// leave is the end of one use of a watch.
func (l *liveWatches) leave(s *sharedWatch, by *instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.holders[by]--; s.holders[by] <= 0 {
		delete(s.holders, by)
	}
	l.endUnusedLocked()
}

// left returns the rest of a time that began with a watch.
func (l *liveWatches) left(s *sharedWatch, timeout time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.began.IsZero() {
		return timeout
	}
	return timeout - time.Since(s.began)
}

func (l *liveWatches) run(key string, s *sharedWatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[key] == s {
		return
	}
	l.running[key] = s
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // CoreDNS gives a plugin no context: it lives from start to stop
	s.cancel, s.began = cancel, time.Now()
	s.observer.began()
	go func() {
		s.Run(ctx)
		s.observer.ended()
	}()
}

// release removes users, and ends the watches without users.
func (l *liveWatches) release(who func(*instance) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.running {
		for holder := range s.holders {
			if who(holder) {
				holder.finish()
				delete(s.holders, holder)
			}
		}
	}
	l.endUnusedLocked()
}

// endUnusedLocked does not wait: a request in progress can take a while to end.
func (l *liveWatches) endUnusedLocked() {
	for key, s := range l.running {
		if len(s.holders) == 0 {
			s.cancel()
			delete(l.running, key)
		}
	}
}
