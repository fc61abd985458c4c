package load

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

func dnsperf(path string) Generator {
	return func(ctx context.Context, address string, l *Load, d time.Duration) (Outcome, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return Outcome{}, err
		}
		cmd := exec.CommandContext(ctx, path, "-s", host, "-p", port, "-B", "-d", l.path, "-W",
			"-l", strconv.FormatFloat(d.Seconds(), 'f', -1, 64), "-q", strconv.Itoa(window), "-b", strconv.Itoa(buffer), "-t", "1")
		text, err := cmd.Output()
		if ctx.Err() != nil {
			return Outcome{}, ctx.Err() // it was killed, and says no more than that
		}
		if err != nil {
			return Outcome{}, fmt.Errorf("dnsperf: %w\n%s", err, text)
		}
		return parse(string(text))
	}
}

// parse reads the end of what dnsperf prints.
func parse(text string) (o Outcome, err error) {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			values[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	if o.Answered, err = number(values["Queries completed"]); err != nil {
		return o, fmt.Errorf("dnsperf says no «Queries completed»: %w\n%s", err, text)
	}
	if o.Lost, err = number(values["Queries lost"]); err != nil {
		return o, fmt.Errorf("dnsperf says no «Queries lost»: %w\n%s", err, text)
	}
	if o.Elapsed, err = time.ParseDuration(values["Run time (s)"] + "s"); err != nil {
		return o, fmt.Errorf("dnsperf says no «Run time»: %w\n%s", err, text)
	}
	o.Rcodes, err = rcodes(values["Response codes"])
	return o, err
}

// number is the first word of «136580 (100.00%)».
func number(text string) (int, error) {
	first, _, _ := strings.Cut(text, " ")
	return strconv.Atoi(first)
}

// rcodes reads «NOERROR 136570 (99.99%), SERVFAIL 10 (0.01%)».
func rcodes(text string) (map[string]int, error) {
	counts := map[string]int{}
	for part := range strings.SplitSeq(text, ", ") {
		name, rest, _ := strings.Cut(part, " ")
		count, err := number(rest)
		if err != nil {
			return nil, fmt.Errorf("read dnsperf's response codes %q: %w", text, err)
		}
		counts[name] = count
	}
	return counts, nil
}
