package realkube

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
	every, format := 20*time.Second, "%s: %s\n"
	if isTerminal(to) {
		every, format = time.Second, "\r%s: %s"
	}
	start, ended := time.Now(), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		var said time.Duration
		for {
			select {
			case <-ended:
				if said > 0 {
					_, _ = fmt.Fprintf(to, format+"\n", what, "done after "+time.Since(start).Round(time.Second).String())
				}
				return
			case <-tick.C:
				if passed := time.Since(start); said == 0 || passed-said >= every {
					said = passed
					_, _ = fmt.Fprintf(to, format, what, passed.Round(time.Second))
				}
			}
		}
	})
	return func() { close(ended); running.Wait() }
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
