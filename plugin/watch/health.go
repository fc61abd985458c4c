package watch

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// Health is the state of the watches of one resource.
type Health struct {
	Resource string
	// Up means that the last list and the last watch succeeded, and the API server answers further
	// requests. It is false for a resource that the API server does not have.
	Up bool
	// Contact is when the API server last answered, or sent a part of an answer, such as a bookmark of
	// an idle watch. It is zero if it never has.
	Contact time.Time
}

// Health returns the state of each resource. Of a resource that is watched in several namespaces, it
// returns the worst.
func (w *Watch) Health() (all []Health) {
	for _, r := range w.reporters {
		h := Health{r.resource, r.up.Load() && !r.contact.lost.Load(), r.contact.time()}
		if n := len(all); n > 0 && all[n-1].Resource == h.Resource {
			all[n-1] = Worse(all[n-1], h)
		} else {
			all = append(all, h)
		}
	}
	return all
}

// Worse returns what is wrong in either of two states of one resource.
func Worse(a, b Health) Health {
	a.Up = a.Up && b.Up
	if b.Contact.Before(a.Contact) {
		a.Contact = b.Contact
	}
	return a
}

// contact is whether an API server answers.
type contact struct {
	at atomic.Int64 // when it last did, in nanoseconds since 1970, or 0 for never
	// lost means that the last request got no answer. A follower reports this minutes later: client-go
	// first repeats a watch without an answer ten times.
	lost atomic.Bool
}

func (c *contact) note() { c.at.Store(time.Now().UnixNano()) }

func (c *contact) time() time.Time {
	if at := c.at.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// noting wraps a client and notes when answers, and parts of them, arrive. Errors of servers, 500 and
// above, also come from a proxy in front of an API server that is gone.
func (c *contact) noting(client *http.Client) *http.Client {
	noted := *client
	inner := client.Transport
	noted.Transport = roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := inner.RoundTrip(request)
		lost := err != nil || response.StatusCode >= http.StatusInternalServerError
		c.lost.Store(lost)
		if lost {
			return response, err
		}
		c.note()
		response.Body = &notedBody{response.Body, c}
		return response, nil
	})
	return &noted
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

type notedBody struct {
	io.ReadCloser
	contact *contact
}

// Read implements io.Reader.
func (b *notedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.contact.note()
	}
	return n, err
}
