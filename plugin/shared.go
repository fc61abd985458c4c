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

// sharedWatch is a watch.Watch with its lifetime. All server blocks with the same options share it,
// and so do several CoreDNS instances: a reload creates the new instance before the old one ends,
// and the new one continues with what the old one knows, also while the API server is away.
type sharedWatch struct {
	*watch.Watch
	observer observer
	cancel   context.CancelFunc
	began    time.Time          // zero before it runs
	holders  map[*instance]bool // number of instances that use it
}

// instance is what one CoreDNS instance, which is one reading of the Corefile, watches.
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
	i := newInstance()
	c.Set(instanceKey{}, i)
	c.OnFirstStartup(i.begin) // before the OnStartup of plugins that wait, so that all wait at the same time
	c.OnStartup(i.begin)      // a reload calls no OnFirstStartup
	c.OnShutdown(func() error { i.end(); return nil })
	c.OnRestartFailed(func() error { i.restartFailed(); return nil })
	return i
}

// end releases the watches.
func (i *instance) end() {
	i.over.Do(func() { close(i.ended) })
	live.release(func(holder *instance) bool { return holder == i })
}

// restartFailed releases the watches of the instance that was to replace i.
func (i *instance) restartFailed() { live.release(func(holder *instance) bool { return holder != i }) }

// watch returns the watch that a block needs. It sends no request to the API server.
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
func (i *instance) await(s *sharedWatch, timeout time.Duration) {
	select {
	case <-s.Synced():
	case <-time.After(time.Until(i.began.Add(timeout))):
		log.Warningf("Not synced with the API server after %v: unknown clusterset names are SERVFAIL until it is", timeout)
	}
}

// boundReadiness reports the block as ready if its watch has not synced after a time. The server
// can also answer all names of a cluster: Kubernetes would send it no questions because of imports
// that cannot be listed. A reload does not restart the time.
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
		s.holders[by] = true
	}
	return s
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

// release removes users, and ends the watches without users. It does not wait: a request in
// progress can take a while to end.
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
