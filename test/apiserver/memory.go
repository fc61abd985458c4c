package apiserver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// RoundTripper sends requests to a handler in this process, without a socket: so virtual time (testing/synctest) does not wait for the
// kernel. An answer that is flushed before its end is streamed.
type RoundTripper struct{ Handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if r.URL.Query().Get("watch") == "" { // nothing is streamed
		w := &reply{header: http.Header{}}
		t.Handler.ServeHTTP(w, r)
		_ = r.Body.Close()
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return w.response(r, io.NopCloser(&w.text)), nil
	}
	reading, writing := io.Pipe()
	w := &reply{header: http.Header{}, stream: writing, begun: make(chan struct{})}
	go func() {
		t.Handler.ServeHTTP(w, r)
		w.Flush()
		_ = writing.CloseWithError(io.EOF)
	}()
	select {
	case <-w.begun:
	case <-r.Context().Done():
		_ = reading.CloseWithError(r.Context().Err())
		return nil, r.Context().Err()
	}
	stop := context.AfterFunc(r.Context(), func() { _ = reading.CloseWithError(r.Context().Err()) })
	return w.response(r, &body{reading, stop}), nil
}

// body ends its stream with the context of the request.
type body struct {
	*io.PipeReader
	stop func() bool
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.stop()
	return b.PipeReader.Close()
}

// reply is an answer that is written.
type reply struct {
	header http.Header
	code   int
	text   bytes.Buffer
	stream *io.PipeWriter // nil if the answer is sent as a whole
	begun  chan struct{}
	once   sync.Once
}

func (w *reply) Header() http.Header { return w.header }

func (w *reply) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
}

// Write implements http.ResponseWriter.
func (w *reply) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.text.Write(p); w.stream != nil && w.text.Len() > 32<<10 {
		w.Flush()
	}
	return len(p), nil
}

// FlushError is for http.ResponseController.
func (w *reply) FlushError() error {
	if w.stream == nil {
		return nil
	}
	w.begin()
	_, err := w.stream.Write(w.text.Bytes())
	w.text.Reset()
	return err
}

// Flush implements http.Flusher.
func (w *reply) Flush() { _ = w.FlushError() }

func (w *reply) begin() {
	w.WriteHeader(http.StatusOK)
	w.once.Do(func() { close(w.begun) })
}

func (w *reply) response(r *http.Request, body io.ReadCloser) *http.Response {
	w.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: strconv.Itoa(w.code) + " " + http.StatusText(w.code), StatusCode: w.code, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: w.header, Body: body, ContentLength: -1, Request: r,
	}
}
