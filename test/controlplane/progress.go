package controlplane

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// report says what goes on, and for how long already, until the returned function is called: every second on one line of a
// terminal, else a line every 20 seconds, so that a log of it stays short. Work of under a second is not mentioned.
func report(to io.Writer, what string) (done func()) {
	r := &reporter{to: to, what: what, start: time.Now()}
	r.every, r.format = 20*time.Second, "%s: %.0f s\n"
	if isTerminal(to) {
		r.every, r.format, r.end = time.Second, "\r%s: %.0f s", "\n"
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
	_, _ = fmt.Fprintf(r.to, r.format, r.what, passed.Seconds())
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
