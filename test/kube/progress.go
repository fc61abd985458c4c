package kube

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// report prints what is being done, for how long and how far it is, until the returned function is
// called: every second on one line of a terminal, otherwise a line every 20 seconds, so that a log
// stays short. Work of under a second is not printed.
func report(to io.Writer, what string, howFar ...func() string) (done func()) {
	r := &reporter{to: to, what: what, start: time.Now(), howFar: howFar}
	r.every, r.format = 20*time.Second, "%s: %.0f s%s\n"
	if isTerminal(to) {
		r.every, r.format, r.end = time.Second, "\r%s: %.0f s%s", "\n"
	}
	ended := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { r.run(ended) })
	return func() { close(ended); running.Wait() }
}

type reporter struct {
	to                io.Writer
	what, format, end string
	every             time.Duration
	start             time.Time
	howFar            []func() string
	next              time.Duration // when to speak again
}

func (r *reporter) run(ended <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.speak(time.Since(r.start))
		case <-ended:
			r.conclude()
			return
		}
	}
}

func (r *reporter) speak(passed time.Duration) {
	if passed < r.next {
		return
	}
	// Half a tick early: ticks come a little sooner or later than asked for.
	r.next = passed + r.every - time.Second/2
	far := ""
	for _, f := range r.howFar {
		far += ", " + f()
	}
	_, _ = fmt.Fprintf(r.to, r.format, r.what, passed.Seconds(), far)
}

func (r *reporter) conclude() {
	if r.next > 0 {
		_, _ = fmt.Fprint(r.to, r.end)
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// counter counts the packages that go build -v names, a line each, and keeps all other lines. It implements io.Writer.
type counter struct {
	of int // all that there are; 0 where that is not known

	mu    sync.Mutex
	named int
	line  []byte // that is not complete
	other bytes.Buffer
}

func (c *counter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line = append(c.line, p...)
	for {
		end := bytes.IndexByte(c.line, '\n')
		if end < 0 {
			return len(p), nil
		}
		line := c.line[:end+1]
		if bytes.ContainsAny(line, " :\t") {
			_, _ = c.other.Write(line)
		} else {
			c.named++
		}
		c.line = c.line[end+1:]
	}
}

// String is how far it is.
func (c *counter) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == 0 {
		return fmt.Sprintf("%d packages", c.named)
	}
	return fmt.Sprintf("%d of %d packages", min(c.named, c.of), c.of)
}

// rest is what is no package's name.
func (c *counter) rest() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.other.String() + string(c.line)
}
