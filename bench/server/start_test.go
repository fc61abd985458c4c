package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// One answer that comes is not enough: the first collections leave what is still to be freed.
func TestAHeapIsThatAfterAllCollections(t *testing.T) {
	for _, every := range []int{1, 3, 10} { // which of the requests is answered
		requests := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if requests++; requests%every != 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = fmt.Fprintf(w, "heap profile\n# HeapAlloc = %d\n", 1000-requests)
		}))
		heap, err := heapOf(t.Context(), s.Listener.Addr().String())
		s.Close()
		switch want := int64(1000 - 4*every); {
		case every < 10 && (err != nil || heap != want):
			t.Errorf("one of %d requests is answered: %d, %v; want %d", every, heap, err, want)
		case every == 10 && (err == nil || !strings.Contains(err.Error(), "2 of 4 garbage collections")):
			t.Errorf("two requests are answered: %d, %v", heap, err)
		}
	}
}

func TestReadingShowsWhyAWatchEnded(t *testing.T) {
	const added, end = `{"type":"ADDED","object":{}}` + "\n", `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
	for stream, want := range map[string]string{
		added + end: "<nil>",
		added + `{"type":"ERROR","object":{"message":"too old"}}` + "\n": "too old",
		added: io.ErrUnexpectedEOF.Error(),
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, stream) }))
		err := readImports(t.Context(), s.Client(), s.URL)
		s.Close()
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %v; want %s", stream, err, want)
		}
	}
}
