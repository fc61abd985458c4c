package simulated

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
)

// defaultTimeout ends watches whose clients name no timeout. A kube-apiserver takes 30 to 60 minutes.
const defaultTimeout = 45 * time.Minute

// beforeEnd is how long before its timeout a watch gets a last bookmark, so that the next one begins at a recent version.
const beforeEnd = 2 * time.Second

// stream is the answer to one watch.
type stream struct {
	server   *Server
	of       *store
	asked    options
	encoding runtime.SerializerInfo
	events   streaming.Encoder
	flush    func() error
	version  uint64 // up to which the client knows everything
}

// watch sends changes until the client leaves, the timeout is over, or the Server refuses.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, of *store, encoding runtime.SerializerInfo, asked options) {
	s.mu.Lock()
	items, current := of.items, s.version
	s.mu.Unlock()
	if asked.streams() && asked.version > current {
		fail(w, encoding, tooLarge(asked.version, current))
		return
	}
	t := &stream{server: s, of: of, asked: asked, encoding: encoding, version: asked.version}
	closeStream := t.open(w, r)
	defer closeStream()
	if asked.version == 0 {
		t.version = current
	}
	if asked.streams() {
		t.version = current
		if t.initial(items) != nil {
			return // the client has gone
		}
	}
	t.follow(r)
}

// open writes the head of the answer. The returned function ends the answer.
func (t *stream) open(w http.ResponseWriter, r *http.Request) (closeStream func()) {
	media := t.encoding.MediaType
	if media != runtime.ContentTypeJSON {
		media += ";stream=watch"
	}
	w.Header().Set("Content-Type", media)
	network := http.NewResponseController(w)
	var body io.Writer = w
	t.flush, closeStream = network.Flush, func() {}
	if t.asked.streams() && t.asked.AllowWatchBookmarks && compressible(r) { // since Kubernetes 1.37
		w.Header().Set("Content-Encoding", "gzip")
		compressed := &gzipStream{to: w}
		body = compressed
		t.flush = func() error {
			if err := compressed.Close(); err != nil {
				return err
			}
			return network.Flush()
		}
		closeStream = func() { _ = compressed.Close() }
	}
	w.WriteHeader(http.StatusOK)
	_ = network.Flush() // fails if the client has gone, as the next write does
	t.events = streaming.NewEncoder(t.encoding.StreamSerializer.NewFrameWriter(body), t.encoding.StreamSerializer.Serializer)
	return closeStream
}

// initial sends all objects, and the bookmark that ends them.
func (t *stream) initial(items []*item) error {
	for _, one := range items {
		if !t.asked.has(one) {
			continue
		}
		if err := t.send(watch.Added, one); err != nil {
			return err
		}
	}
	if !t.asked.AllowWatchBookmarks {
		return t.flush()
	}
	return t.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
}

// follow sends changes and bookmarks.
func (t *stream) follow(r *http.Request) {
	timeout := defaultTimeout
	if seconds := t.asked.TimeoutSeconds; seconds != nil && *seconds > 0 {
		timeout = time.Duration(*seconds) * time.Second
	}
	end := time.NewTimer(timeout)
	defer end.Stop()
	last := time.NewTimer(timeout - beforeEnd) // at once for a shorter watch
	defer last.Stop()
	every := time.NewTicker(t.server.options.BookmarkEvery)
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
		if t.asked.AllowWatchBookmarks && t.progress() != nil {
			return
		}
	}
}

// sendChanges sends the changes after the stream's version. It returns the channel that the next change closes. A client whose version is
// too old gets the error that an API server sends, and then the end of the stream.
func (t *stream) sendChanges() (changed chan struct{}, err error) {
	t.server.mu.Lock()
	events, known := t.of.after(t.version)
	changed, oldest := t.of.changed, t.of.forgotten
	t.server.mu.Unlock()
	if !known {
		text, err := encode(t.encoding, typed(tooOld(t.version, oldest).Status()))
		if err == nil {
			err = t.write(watch.Error, text)
		}
		if err == nil {
			err = t.flush()
		}
		return nil, errors.Join(err, io.EOF)
	}
	for _, e := range events {
		t.version = e.version
		if kind, of, sees := e.seen(t.asked.selection); sees {
			if err := t.send(kind, of); err != nil {
				return nil, err
			}
		}
	}
	if len(events) > 0 {
		err = t.flush()
	}
	return changed, err
}

// progress sends the version up to which the client knows everything.
func (t *stream) progress() error {
	t.server.mu.Lock()
	if _, known := t.of.after(t.version); known && t.of.last() <= t.version {
		t.version = t.server.version // nothing of this kind has changed since
	}
	t.server.mu.Unlock()
	return t.bookmark(nil)
}

func (t *stream) bookmark(annotations map[string]string) error {
	object := t.of.kind.object()
	object.SetResourceVersion(strconv.FormatUint(t.version, 10))
	object.SetAnnotations(annotations)
	text, err := t.of.kind.encode(t.encoding, object)
	if err != nil {
		return err
	}
	if err := t.write(watch.Bookmark, text); err != nil {
		return err
	}
	return t.flush()
}

func (t *stream) send(kind watch.EventType, of *item) error {
	text, err := of.in(t.encoding)
	if err != nil {
		return err
	}
	return t.write(kind, text)
}

func (t *stream) write(kind watch.EventType, object []byte) error {
	return t.events.Encode(&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}})
}
