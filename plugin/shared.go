package multicluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coredns/caddy"

	"github.com/clusterset-dns/multicluster/plugin/watch"
)

// watches are those of one CoreDNS instance. Server blocks that ask for the same share one.
type watches struct {
	all   map[string]*sharedWatch
	once  sync.Once
	began time.Time
}

// sharedWatch is a watch.Watch with its life.
type sharedWatch struct {
	*watch.Watch
	of       *watches
	observer *observer
	cancel   context.CancelFunc
}

type watchesKey struct{}

// watchesOf returns the watches of the instance that is being set up.
func watchesOf(c *caddy.Controller) *watches {
	if ws, ok := c.Get(watchesKey{}).(*watches); ok {
		return ws
	}
	ws := &watches{all: map[string]*sharedWatch{}}
	c.Set(watchesKey{}, ws)
	return ws
}

// watch returns the watch that a block needs. It makes no request to the API server.
func (ws *watches) watch(conf config) (*sharedWatch, error) {
	key := fmt.Sprintf("%q %q %q", conf.kubeconfig, conf.context, fmt.Sprintf("%+v", conf.watch))
	if s, ok := ws.all[key]; ok {
		return s, nil
	}
	rest, err := watch.LoadConfig(conf.kubeconfig, conf.context)
	if err != nil {
		return nil, err
	}
	rest.UserAgent = "coredns-multicluster"
	s := &sharedWatch{of: ws, observer: &observer{}}
	if s.Watch, err = watch.New(rest, conf.watch, s.observer); err != nil {
		return nil, err
	}
	ws.all[key] = s
	return s, nil
}

// start begins all watches of the instance, if that was not done yet, and waits for this one, at most for a time counted from there:
// several blocks wait beside each other, and one that cannot sync never keeps the server from serving its other zones.
func (s *sharedWatch) start(timeout time.Duration) {
	s.of.once.Do(func() {
		s.of.began = time.Now()
		for _, other := range s.of.all {
			other.run()
		}
	})
	select {
	case <-s.Synced():
	case <-time.After(time.Until(s.of.began.Add(timeout))):
		log.Warningf("Not in step with the API server after %v: clusterset names are SERVFAIL until then", timeout)
	}
}

func (s *sharedWatch) run() {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // CoreDNS gives a plugin no context: it lives from start to stop
	s.cancel = cancel
	s.observer.began()
	go func() {
		s.Run(ctx)
		s.observer.ended()
	}()
}

// stop ends the watch, whether it has begun or not. It does not wait: a request on its way may take a while to notice.
func (s *sharedWatch) stop() {
	if s.cancel != nil {
		s.cancel()
	}
}
