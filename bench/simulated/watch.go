package simulated

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
)

// As in a kube-apiserver, except that it takes 30 to 60 minutes for watches whose clients name no timeout. Before its timeout, a watch
// gets a last bookmark, so that the next one begins at a recent version.
const (
	defaultTimeout = 45 * time.Minute
	beforeEnd      = 2 * time.Second
	bookmarkEvery  = time.Minute
)

// stream is the answer to one watch.
type stream struct {
	server  *Server
	of      *store
	asked   options
	body    *gzipStream
	network *http.ResponseController
	events  streaming.Encoder
	version uint64 // up to which the client knows everything
}

// watch sends changes until the client leaves, the timeout is over, or the Server refuses.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, of *store, asked options) {
	items, current := s.snapshot(of, asked.selection)
	t := &stream{server: s, of: of, asked: asked, network: http.NewResponseController(w), version: asked.version}
	// Compressed since Kubernetes 1.37.
	compress := asked.streams() && asked.AllowWatchBookmarks && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	t.body = &gzipStream{to: w, off: !compress}
	defer func() { _ = t.body.Close() }()
	media := of.encoding.MediaType
	if media != runtime.ContentTypeJSON {
		media += ";stream=watch"
	}
	w.Header().Set("Content-Type", media)
	if compress {
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(http.StatusOK)
	_ = t.network.Flush() // fails if the client has gone, as the next write does
	t.events = streaming.NewEncoder(of.encoding.StreamSerializer.NewFrameWriter(t.body), of.encoding.StreamSerializer.Serializer)
	if asked.version == 0 || asked.streams() {
		t.version = current
	}
	if asked.streams() && t.initial(items) != nil {
		return // the client has gone
	}
	t.follow(r)
}

func (t *stream) flush() error { return errors.Join(t.body.Close(), t.network.Flush()) }

// initial sends all objects, and the bookmark that ends them.
func (t *stream) initial(items []*item) error {
	for _, one := range items {
		if err := t.write(watch.Added, one.text); err != nil {
			return err
		}
	}
	return t.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
}

// follow sends changes and bookmarks.
func (t *stream) follow(r *http.Request) {
	timeout := defaultTimeout
	if seconds := t.asked.TimeoutSeconds; seconds != nil {
		timeout = time.Duration(*seconds) * time.Second
	}
	end := time.NewTimer(timeout)
	defer end.Stop()
	last := time.NewTimer(timeout - beforeEnd) // at once for a shorter watch
	defer last.Stop()
	every := time.NewTicker(bookmarkEvery)
	defer every.Stop()
	for {
		changed, err := t.sendChanges()
		if err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-end.C:
			return
		case <-changed:
			continue
		case <-last.C:
		case <-every.C:
		}
		if t.asked.AllowWatchBookmarks && t.bookmark(nil) != nil {
			return
		}
	}
}

// sendChanges sends the changes after the stream's version, up to that of the Server. It returns the channel that the next change closes.
// A client whose version is too old gets the error that an API server sends, and then the end of the stream.
func (t *stream) sendChanges() (changed chan struct{}, err error) {
	t.server.mu.Lock()
	changes, known := t.of.after(t.version)
	changed, oldest, current := t.of.changed, t.of.forgotten, t.server.version
	t.server.mu.Unlock()
	if !known {
		expired := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", t.version, oldest))
		text, err := runtime.Encode(t.of.encoding.Serializer, statusOf(expired))
		if err == nil {
			err = errors.Join(t.write(watch.Error, text), t.flush())
		}
		return nil, errors.Join(err, io.EOF)
	}
	t.version = max(t.version, current)
	for _, one := range changes {
		event := watch.Modified
		if one.added {
			event = watch.Added
		}
		if t.asked.has(one) {
			if err := t.write(event, one.text); err != nil {
				return nil, err
			}
		}
	}
	if len(changes) > 0 {
		err = t.flush()
	}
	return changed, err
}

// bookmark sends the version up to which the client knows everything.
func (t *stream) bookmark(annotations map[string]string) error {
	object := t.of.empty("")
	to, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	to.SetResourceVersion(strconv.FormatUint(t.version, 10))
	to.SetAnnotations(annotations)
	text, err := t.of.encode(object)
	if err != nil {
		return err
	}
	return errors.Join(t.write(watch.Bookmark, text), t.flush())
}

func (t *stream) write(event watch.EventType, object []byte) error {
	return t.events.Encode(&metav1.WatchEvent{Type: string(event), Object: runtime.RawExtension{Raw: object}})
}

// compressors are shared, because one needs a megabyte. The level is a kube-apiserver's.
var compressors = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is valid
	}
	return w
}}

// gzipStream compresses what is written until the next Close on its own, as a kube-apiserver does: between two events, a watch then needs
// no compressor.
type gzipStream struct {
	to  http.ResponseWriter
	off bool         // it passes on what is written
	now *gzip.Writer // nil if nothing was written
}

// Write implements io.Writer.
func (g *gzipStream) Write(p []byte) (int, error) {
	if g.off {
		return g.to.Write(p)
	}
	if g.now == nil {
		g.now = compressors.Get().(*gzip.Writer)
		g.now.Reset(g.to)
	}
	return g.now.Write(p)
}

// Close ends what was written. The end follows the data in a part of its own: a reader that sees the end together with data waits for what
// comes next before it returns the data.
func (g *gzipStream) Close() error {
	if g.now == nil {
		return nil
	}
	err := errors.Join(g.now.Flush(), g.now.Close())
	g.now.Reset(nil)
	compressors.Put(g.now)
	g.now = nil
	return err
}
