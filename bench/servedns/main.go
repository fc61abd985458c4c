// Command servedns turns the output of this folder's benchmarks, which measure ServeDNS alone of our plugin and of CoreDNS' own
// kubernetes plugin, into a table of medians and goals:
//
//	go test -run '^$' -bench ServeDNS -benchmem -count 6 ./bench/servedns | go run ./bench/servedns
//
// «benchstat -col /plugin» compares the same output with its confidence.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	f := figures{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		text := lines.Text()
		if strings.HasPrefix(text, "FAIL") || strings.HasPrefix(text, "--- FAIL") {
			return fmt.Errorf("the benchmarks failed: %s", text)
		}
		if err := f.read(text); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if len(f) == 0 {
		return errors.New("no benchmark in the input; want the output of `go test -bench ServeDNS`")
	}
	_, err := fmt.Fprint(out, f.table())
	return err
}
