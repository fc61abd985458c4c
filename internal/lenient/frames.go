package lenient

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lines frames the events of a watch. An API server writes each event on one line, and JSON has no
// other use for the end of a line than space. So the end of an event is found without parsing it:
// client-go's framer for JSON parses an event twice to find it.
type lines struct{}

// NewFrameWriter implements runtime.Framer.
func (lines) NewFrameWriter(w io.Writer) io.Writer { return w }

// NewFrameReader implements runtime.Framer.
func (lines) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &lineReader{Closer: r, stream: bufio.NewReader(r)}
}

// lineReader reads one event at a time. It keeps no more than its stream's buffer, and looks at each
// byte once, also if a peer sends a long line in small pieces.
type lineReader struct {
	io.Closer
	stream *bufio.Reader
	rest   []byte // of the piece of a line that was read last
	more   bool   // the line continues after this piece
}

// Read reads an event. If into is too short, it fills into with a part of the event and returns
// io.ErrShortBuffer.
func (l *lineReader) Read(into []byte) (n int, err error) {
	for {
		if len(l.rest) == 0 {
			if err := l.next(); err != nil {
				return 0, err
			}
		}
		copied := copy(into[n:], l.rest)
		n += copied
		l.rest = l.rest[copied:]
		switch {
		case len(l.rest) > 0:
			return n, io.ErrShortBuffer
		case !l.more && n > 0: // otherwise the line is empty
			return n, nil
		}
	}
}

const space = " \t\r\n"

// next reads the next piece of a line. A line without an end was cut, and is not an event.
func (l *lineReader) next() error {
	piece, err := l.stream.ReadSlice('\n')
	if !l.more {
		piece = bytes.TrimLeft(piece, space)
	}
	switch {
	case err == nil:
		l.rest, l.more = bytes.TrimRight(piece, space), false
	case errors.Is(err, bufio.ErrBufferFull):
		l.rest, l.more = piece, l.more || len(piece) > 0
		return nil
	case errors.Is(err, io.EOF) && (l.more || len(piece) > 0):
		return io.ErrUnexpectedEOF
	}
	return err
}
