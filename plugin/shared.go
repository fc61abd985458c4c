package multicluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/coredns/caddy"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/plugin/watch"
)

// sharedWatch is a watch.Watch with its life. It serves all server blocks that watch alike, and more than one CoreDNS instance: a
// reload makes the new instance before the old one ends, and the new one goes on with what the old one knows, also while the API
// server is away.
type sharedWatch struct {
	*watch.Watch
	observer observer
	cancel   context.CancelFunc
	began    time.Time          // zero before it runs
	holders  map[*instance]bool // who would miss it
}

// instance is what one CoreDNS instance, that is one reading of the Corefile, watches.
type instance struct {
	watches map[string]*sharedWatch
	once    sync.Once
	began   time.Time
	over    sync.Once
	ended   chan struct{} // closed by end
}

func newInstance() *instance {
	return &instance{watches: map[string]*sharedWatch{}, ended: make(chan struct{})}
}

// live are the watches that run in this process, by what they watch.
var live = liveWatches{running: map[string]*sharedWatch{}}

type liveWatches struct {
	mu      sync.Mutex
	running map[string]*sharedWatch
}

type instanceKey struct{}

// instanceOf returns the instance that is being set up. The first call ties it to the instance's life.
func instanceOf(c *caddy.Controller) *instance {
	if i, ok := c.Get(instanceKey{}).(*instance); ok {
		return i
	}
	i := newInstance()
	c.Set(instanceKey{}, i)
	c.OnFirstStartup(i.begin) // before plugins that wait in their OnStartup, so that we wait beside them
	c.OnStartup(i.begin)      // a reload has no first startup
	c.OnShutdown(func() error { i.end(); return nil })
	c.OnRestartFailed(func() error { i.restartFailed(); return nil })
	return i
}

// end lets go of the watches.
func (i *instance) end() {
	i.over.Do(func() { close(i.ended) })
	live.release(func(holder *instance) bool { return holder == i })
}

// restartFailed lets go of those of the instance that should have taken i's place.
func (i *instance) restartFailed() { live.release(func(holder *instance) bool { return holder != i }) }

// watch returns the watch that a block needs. It makes no request to the API server.
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
		s = &sharedWatch{holders: map[*instance]bool{i: true}}
		if s.Watch, err = watch.New(config, conf.watch, &s.observer); err != nil {
			return nil, err
		}
	}
	i.watches[key] = s
	return s, nil
}

// identity tells watches apart: by what they are asked for, and by the content of the files that lead to the API server. Client
// certificates and tokens that stand in files of their own are read anew by the client itself.
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

// begin starts what does not run yet.
func (i *instance) begin() error {
	i.once.Do(func() {
		i.began = time.Now()
		for key, s := range i.watches {
			live.run(key, s)
		}
	})
	return nil
}

// await waits until a watch has synced, at most for a time counted from the instance's beginning: several blocks, and other
// plugins, wait beside each other, and a watch that cannot sync never keeps the server from serving its other zones.
func (i *instance) await(s *sharedWatch, timeout time.Duration) {
	select {
	case <-s.Synced():
	case <-time.After(time.Until(i.began.Add(timeout))):
		log.Warningf("Not in step with the API server after %v: clusterset names that are not known yet are SERVFAIL until then", timeout)
	}
}

// boundReadiness has the block reported as ready when its watch has not synced after a time. The server may answer all of a cluster's
// names: Kubernetes would send it no questions for them, because of imports that cannot be listed. A reload does not begin the time anew.
func (m *Multicluster) boundReadiness(s *sharedWatch, timeout time.Duration, ended <-chan struct{}) {
	timer := time.NewTimer(live.left(s, timeout))
	go func() {
		defer timer.Stop()
		select {
		case <-s.Synced():
		case <-ended:
		case <-timer.C:
			m.waited.Store(true)
			readyTimeouts.Inc()
			log.Warningf("Not in step with the API server after %v: this server reports that it is ready all the same. Clusterset names that are not known yet are SERVFAIL, "+
				"and NXDOMAIN in the zones of alias", timeout)
		}
	}()
}

// find returns the running watch of that key, if any, held by one more instance.
func (l *liveWatches) find(key string, by *instance) *sharedWatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.running[key]
	if s != nil {
		s.holders[by] = true
	}
	return s
}

// left is what is left of a time since a watch began.
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

// release lets some instances go, and ends the watches that nobody holds any more. It does not wait: a request on its way may take
// a while to notice.
func (l *liveWatches) release(who func(*instance) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, s := range l.running {
		for holder := range s.holders {
			if who(holder) {
				delete(s.holders, holder)
			}
		}
		if len(s.holders) == 0 {
			s.cancel()
			delete(l.running, key)
		}
	}
}
