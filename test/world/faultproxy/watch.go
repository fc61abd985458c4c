package faultproxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// Expire ends the open watches as an API server does when etcd has forgotten the changes that they would go on with: with an event of
// the type ERROR that is a Status 410 Gone. It gives their number. From then on a watch that goes on from an earlier version ends in
// that way at once, until the same client has listed the same resource again.
func (a *API) Expire() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.age++
	for s := range a.streams {
		s.end()
	}
	return len(a.streams)
}

// pass looks at a reply of the API server that is on its way to the client.
func (a *API) pass(reply *http.Response) error {
	r := reply.Request
	switch {
	case r.Method != http.MethodGet || reply.StatusCode != http.StatusOK:
		return nil
	case !isWatch(r):
		a.noteList(r)
		return nil
	default:
		return a.track(reply)
	}
}

func isWatch(r *http.Request) bool {
	v := r.URL.Query().Get("watch")
	return v == "true" || v == "1"
}

// startsAnew is true for a watch that asks for what there is before it asks for changes, and is a list so far.
func startsAnew(r *http.Request) bool {
	q := r.URL.Query()
	version := q.Get("resourceVersion")
	return q.Get("sendInitialEvents") == "true" || version == "" || version == "0"
}

// listing is what a list has in common with the watches that follow it.
func listing(r *http.Request) string {
	q := r.URL.Query()
	return fmt.Sprintf("%s %q %q %s", r.URL.Path, q.Get("labelSelector"), q.Get("fieldSelector"), r.Header.Get("Authorization"))
}

func (a *API) noteList(r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listed[listing(r)] = a.age
}

// track has a watch go through a stream.
func (a *API) track(reply *http.Response) error {
	s, err := newStream(reply)
	if err != nil {
		return err
	}
	s.forget = func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.streams, s)
	}
	r := reply.Request
	a.mu.Lock()
	defer a.mu.Unlock()
	a.streams[s] = struct{}{}
	switch {
	case startsAnew(r):
		a.listed[listing(r)] = a.age
	case a.listed[listing(r)] < a.age:
		s.end()
	}
	a.running.Go(s.read) // the request is still running
	reply.Body = s
	return nil
}

// stream is the body of a watch: whole events, so that it can end between two of them.
type stream struct {
	from   io.ReadCloser // of frames
	write  func(frame []byte) []byte
	gone   []byte // the event that it ends with if it expires
	forget func()

	frames  chan []byte
	err     error         // why there are no more frames; to be read when frames is closed
	expired chan struct{} // closed by end
	closed  chan struct{} // closed by Close
	over    bool
	rest    []byte // to be read
}

var errUnknownEncoding = errors.New("a watch in an encoding that client-go does not have")

func newStream(reply *http.Response) (*stream, error) {
	kind, _, err := mime.ParseMediaType(reply.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), kind)
	if !ok || info.StreamSerializer == nil {
		return nil, fmt.Errorf("%w: %s", errUnknownEncoding, kind)
	}
	s := &stream{
		from:   info.StreamSerializer.NewFrameReader(reply.Body),
		frames: make(chan []byte), expired: make(chan struct{}), closed: make(chan struct{}),
	}
	s.write = func(frame []byte) []byte {
		var text bytes.Buffer
		_, _ = info.StreamSerializer.NewFrameWriter(&text).Write(frame) // into memory
		if info.EncodesAsText {
			text.WriteByte('\n')
		}
		return text.Bytes()
	}
	s.gone, err = goneEvent(info)
	return s, err
}

// goneEvent is the last event of a watch that is too old, in its encoding.
func goneEvent(info runtime.SerializerInfo) ([]byte, error) {
	status := apierrors.NewResourceExpired("too old resource version").Status()
	object, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, metav1.Unversioned), &status)
	if err != nil {
		return nil, err
	}
	event := &metav1.WatchEvent{Type: string(watch.Error), Object: runtime.RawExtension{Raw: object}}
	var text bytes.Buffer
	err = streaming.NewEncoder(info.StreamSerializer.NewFrameWriter(&text), info.StreamSerializer.Serializer).Encode(event)
	return text.Bytes(), err
}

// end has the stream expire. The API's lock is held.
func (s *stream) end() {
	select {
	case <-s.expired:
	default:
		close(s.expired)
	}
}

// read hands on the events of the API server.
func (s *stream) read() {
	defer close(s.frames)
	for {
		frame, err := readFrame(s.from)
		if err != nil {
			s.err = err
			return
		}
		select {
		case s.frames <- s.write(frame):
		case <-s.closed:
			s.err = io.ErrClosedPipe
			return
		}
	}
}

// readFrame reads a whole frame, of any length. An event is never split, and no two are read at once.
func readFrame(from io.Reader) ([]byte, error) {
	frame, length := make([]byte, 4096), 0
	for {
		n, err := from.Read(frame[length:])
		length += n
		if !errors.Is(err, io.ErrShortBuffer) {
			return frame[:length], err
		}
		frame = append(frame, make([]byte, len(frame))...)
	}
}

// Read returns the events, and at the end the event that the watch has expired.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *stream) next() error {
	if s.over {
		return io.EOF
	}
	select {
	case <-s.expired: // before an event that is waiting too
		s.rest, s.over = s.gone, true
		return nil
	default:
	}
	select {
	case <-s.expired:
		s.rest, s.over = s.gone, true
	case frame, ok := <-s.frames:
		if !ok {
			return s.err
		}
		s.rest = frame
	}
	return nil
}

// Close is called once, by the proxy.
func (s *stream) Close() error {
	s.forget()
	close(s.closed)
	return s.from.Close()
}
