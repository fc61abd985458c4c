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

// What one answer of a peer may cost. Without these limits one hostile or broken API server exhausts the memory in which all other
// peers are kept. An honest API server has no object over 1.5 MB, and streams long lists as events since Kubernetes 1.34.
const (
	maxAnswer  = 64 << 20 // bytes of a list, decompressed
	maxEvent   = 16 << 20 // bytes of one event of a watch, as client-go limits those that are not JSON
	maxMessage = 1 << 10  // bytes of what is shown of an answer
)

var (
	errTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)
	errRedirect = errors.New("the server redirects to another address, which is not followed: put the address of the API server itself into the kubeconfig")
)

// boundedBody is a body that ends with errTooLarge when more than left bytes have been read.
type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// boundedTransport limits each answer, and makes an error of each redirect: a peer must not choose which addresses are asked from inside
// this cluster. A watch has no end. Its events are limited one by one, by boundedFramer.
type boundedTransport struct{ http.RoundTripper }

func (t boundedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(request)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode/100 == 3:
		return nil, errors.Join(errRedirect, response.Body.Close())
	case response.StatusCode != http.StatusOK || !request.URL.Query().Has("watch"):
		response.Body = &boundedBody{response.Body, maxAnswer}
	}
	return response, nil
}

// boundedSerializer limits what an answer weighs, and the length of each event of a watch. client-go limits that for protobuf only: a JSON
// decoder reads an event to its end.
type boundedSerializer struct{ runtime.NegotiatedSerializer }

func (s boundedSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	all := slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes())
	for i := range all {
		all[i].Serializer = weighed{all[i].Serializer}
		if all[i].StreamSerializer != nil {
			stream := *all[i].StreamSerializer
			stream.Framer = boundedFramer{stream.Framer}
			all[i].StreamSerializer = &stream
		}
	}
	return all
}

type boundedFramer struct{ runtime.Framer }

func (f boundedFramer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	body := &boundedBody{r, maxEvent}
	return &boundedFrames{f.Framer.NewFrameReader(body), body}
}

type boundedFrames struct {
	io.ReadCloser
	body *boundedBody
}

// Read reads a frame, or a part of it with io.ErrShortBuffer.
func (f *boundedFrames) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if err == nil {
		f.body.left = maxEvent
	}
	return n, err
}

// harmless makes a message that contains a peer's words fit for a Lease, an event and a terminal: one line, at most 1 kB, no control
// characters.
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
