package lenient

import (
	"bufio"
	"bytes"
	"cmp"
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
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	scanner.Split(splitLine)
	return &lineReader{Closer: r, scanner: scanner}
}

// maxLine is in bytes. It is larger than client-go's limit for an event, 16 MiB, and than that of a
// bounded reader, so that their errors come first.
const maxLine = 17 << 20

// lineReader reads one event at a time.
type lineReader struct {
	io.Closer
	scanner *bufio.Scanner
	rest    []byte // of the current line
}

// Read reads an event. If into is too short, it reads a part of the event and returns
// io.ErrShortBuffer.
func (l *lineReader) Read(into []byte) (int, error) {
	for len(l.rest) == 0 { // also skips empty lines
		if !l.scanner.Scan() {
			return 0, cmp.Or(l.scanner.Err(), io.EOF)
		}
		l.rest = l.scanner.Bytes()
	}
	n := copy(into, l.rest)
	l.rest = l.rest[n:]
	if len(l.rest) > 0 {
		return n, io.ErrShortBuffer
	}
	return n, nil
}

// splitLine is a bufio.SplitFunc. A line without an end was cut, and is not an event.
func splitLine(data []byte, atEOF bool) (advance int, line []byte, err error) {
	end := bytes.IndexByte(data, '\n')
	switch {
	case end >= 0:
		return end + 1, bytes.TrimSpace(data[:end]), nil
	case atEOF && len(bytes.TrimSpace(data)) > 0:
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}
