package apiserver

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	*call
	server  *Server
	asked   asked
	body    *gzipStream
	network *http.ResponseController
	events  streaming.Encoder
	version uint64 // up to which the client knows everything
}

// watch sends changes until the client leaves, or the timeout is over. A watch from a version that the server has not reached shows nothing
// until then, and a streamed list does not end.
func (s *Server) watch(c *call, o asked) error {
	s.mu.Lock()
	var items []*item
	streams := o.SendInitialEvents != nil && *o.SendInitialEvents
	if streams || o.ResourceVersion == "" || o.ResourceVersion == "0" {
		items = c.of.sorted(o.selection)
	}
	current := s.version
	s.mu.Unlock()
	t := &stream{call: c, server: s, asked: o, network: http.NewResponseController(c.writer), version: o.version}
	t.begin(streams && o.AllowWatchBookmarks)
	defer func() { _ = t.body.Close() }() // fails if the client has gone
	if streams || o.version == 0 {
		t.version = max(current, o.version)
	}
	for _, one := range items {
		if err := t.sendItem(watch.Added, one); err != nil {
			return nil //nolint:nilerr // the client has gone
		}
	}
	if streams && o.version <= current {
		if t.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"}) != nil {
			return nil
		}
	}
	_ = t.flush() // fails if the client has gone, as the next write does
	t.follow()
	return nil
}

// begin sends the headers. Lists that are streamed are compressed since Kubernetes 1.37.
func (t *stream) begin(list bool) {
	header, media := t.writer.Header(), t.media.MediaType
	if media != runtime.ContentTypeJSON {
		media += ";stream=watch"
	}
	header.Set("Content-Type", media)
	t.body = &gzipStream{to: t.writer, off: !list || !strings.Contains(t.request.Header.Get("Accept-Encoding"), "gzip")}
	if !t.body.off {
		header.Set("Content-Encoding", "gzip")
	}
	t.writer.WriteHeader(http.StatusOK)
	t.events = streaming.NewEncoder(t.media.StreamSerializer.NewFrameWriter(t.body), t.media.StreamSerializer.Serializer)
}

func (t *stream) flush() error { return errors.Join(t.body.Close(), t.network.Flush()) }

// follow sends changes and bookmarks.
func (t *stream) follow() {
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
		case <-t.request.Context().Done():
			return
		case <-end.C:
			return
		case <-changed:
			continue
		case <-last.C:
		case <-every.C:
		}
		if t.asked.AllowWatchBookmarks && (t.bookmark(nil) != nil || t.flush() != nil) {
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
		expired := statusOf(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", t.version, oldest)))
		text, err := runtime.Encode(t.media.Serializer, expired)
		return nil, errors.Join(t.write(watch.Error, text, err), t.flush(), io.EOF)
	}
	t.version = max(t.version, current)
	for _, one := range changes {
		if err := t.change(one); err != nil {
			return nil, err
		}
	}
	if len(changes) > 0 {
		err = t.flush()
	}
	return changed, err
}

// change sends what a change means for those who see a selection only: an object that leaves it is deleted.
func (t *stream) change(one *item) error {
	was := one.before != nil && t.asked.has(one.before.object)
	is := !one.gone && t.asked.has(one.object)
	switch {
	case is && was:
		return t.sendItem(watch.Modified, one)
	case is:
		return t.sendItem(watch.Added, one)
	case was:
		last := shallow(one.before.object).(client.Object)
		last.SetResourceVersion(strconv.FormatUint(one.version, 10))
		return t.send(watch.Deleted, last)
	}
	return nil
}

// bookmark sends the version up to which the client knows everything.
func (t *stream) bookmark(annotations map[string]string) error {
	object := t.of.new()
	object.SetResourceVersion(strconv.FormatUint(t.version, 10))
	object.SetAnnotations(annotations)
	return t.send(watch.Bookmark, object)
}

func (t *stream) send(event watch.EventType, object client.Object) error {
	text, err := t.of.encode(object, t.media)
	return t.write(event, text, err)
}

func (t *stream) sendItem(event watch.EventType, one *item) error {
	text, err := one.text(t.of.kind, t.media)
	return t.write(event, text, err)
}

// write sends an event with an encoded object, unless that has failed.
func (t *stream) write(event watch.EventType, text []byte, err error) error {
	if err != nil {
		return err
	}
	return t.events.Encode(&metav1.WatchEvent{Type: string(event), Object: runtime.RawExtension{Raw: text}})
}

// compressors are shared, because one needs a megabyte. The level is a kube-apiserver's.
var compressors = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	must(err)
	return w
}}

// gzipStream compresses what is written until the next Close on its own, as a kube-apiserver does: between two events, a watch then needs
// no compressor.
type gzipStream struct {
	to  io.Writer
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
