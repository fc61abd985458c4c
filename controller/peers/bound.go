package peers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
)

// The limits of one answer of a peer. Without them one malicious or broken API server exhausts the
// memory that contains the data of all other peers. A correct API server has no object over 1.5 MB,
// and streams long lists as events since Kubernetes 1.34.
const (
	maxAnswer = 64 << 20 // bytes of a list, decompressed
	// maxEvent is in bytes. client-go has the same limit for events that are not JSON.
	maxEvent       = 16 << 20
	maxTokenAnswer = 1 << 20 // bytes of the answer to the request for a token
	maxMessage     = 1 << 10 // bytes of a message with text from a peer
)

var (
	errLargeList  = tooLargeError{"list", maxAnswer}
	errLargeEvent = tooLargeError{"event", maxEvent}
	errLargeToken = tooLargeError{"token", maxTokenAnswer}
	errRedirect   = errors.New("the server redirects to another address, which the controller does not follow: set the address of the API server itself in the kubeconfig")
)

// tooLargeError reports an answer that is larger than the limit for its content.
type tooLargeError struct {
	content string
	most    int // bytes
}

// Error implements error.
func (e tooLargeError) Error() string {
	return fmt.Sprintf("the answer is larger than %d MiB, which is the limit for one %s", e.most>>20, e.content)
}

// bound limits a body.
func (e tooLargeError) bound(body io.ReadCloser) *boundedBody { return &boundedBody{body, e.most, e} }

// boundedBody is a body that returns tooLarge after left bytes have been read.
type boundedBody struct {
	io.ReadCloser
	left     int
	tooLarge tooLargeError
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, b.tooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// boundedTransport limits the length of each answer and returns an error for each redirect: a peer
// must not choose which addresses the controller contacts from inside this cluster. A watch has no
// limit for the whole answer: boundedFramer limits each of its events. But it waits for the budget.
type boundedTransport struct {
	http.RoundTripper
	budget *budget
}

func (t boundedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	watches := request.URL.Query().Has("watch")
	if watches {
		if err := t.budget.watch(request.Context()); err != nil {
			return nil, err
		}
	}
	response, err := t.RoundTripper.RoundTrip(request)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode/100 == 3:
		return nil, errors.Join(errRedirect, response.Body.Close())
	case request.Method == http.MethodPost: // for a token: nothing else is created in peers
		response.Body = errLargeToken.bound(response.Body)
	case response.StatusCode != http.StatusOK || !watches:
		response.Body = errLargeList.bound(response.Body)
	}
	return response, nil
}

// boundedSerializer limits the memory that an answer needs, and the length of each event of a
// watch. client-go limits the length only for protobuf: its JSON decoder reads an event of any
// length. The events wait for the budget.
type boundedSerializer struct {
	runtime.NegotiatedSerializer
	budget *budget
}

func (s boundedSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	all := slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes())
	for i := range all {
		all[i].Serializer = weighed{all[i].Serializer}
		if all[i].StreamSerializer != nil {
			stream := *all[i].StreamSerializer
			stream.Framer = boundedFramer{stream.Framer, s.budget}
			all[i].StreamSerializer = &stream
		}
	}
	return all
}

type boundedFramer struct {
	runtime.Framer
	budget *budget
}

func (f boundedFramer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	body := errLargeEvent.bound(r)
	return &boundedFrames{f.Framer.NewFrameReader(body), body, f.budget}
}

type boundedFrames struct {
	io.ReadCloser
	body   *boundedBody
	budget *budget
}

// Read reads a frame. If p is too short, it reads a part of the frame and returns
// io.ErrShortBuffer. A frame that ends too early counts for the budget, too.
func (f *boundedFrames) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if !errors.Is(err, io.ErrShortBuffer) {
		f.budget.read(maxEvent - f.body.left)
	}
	if err == nil {
		f.body.left = maxEvent
	}
	return n, err
}

// harmless makes a message with text from a peer safe for a Lease, an event and a terminal: one
// line, at most 1 kB, no control characters.
func harmless(message string) string {
	const more = "..."
	clipped := message
	if len(message) > maxMessage {
		clipped = message[:maxMessage-len(more)]
		for clipped != "" && !utf8.RuneStart(message[len(clipped)]) {
			clipped = clipped[:len(clipped)-1]
		}
		clipped += more
	}
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, clipped)
}
