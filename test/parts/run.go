package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// beside is how many parts run at the same time: each alone leaves a part of two cores idle, as most tests wait for API servers.
const beside = 2

// ranFile is where each part that ran, or did not have to, leaves a line.
const ranFile = "bin/parts.txt"

// failedPart is what such a line says of a part that failed.
const failedPart = "FAILED"

// logOf is where the output of a part is kept.
func logOf(name string) string { return filepath.Join("bin", "parts", name+".log") }

// runAll runs parts, also after one has failed: a second fault is worth knowing. The error contains the names of those that failed.
func runAll(ctx context.Context, chosen []part) error {
	tree, err := workTree(ctx)
	if err != nil {
		fmt.Println("everything runs, as the inputs are not known:", err)
	}
	for i, p := range chosen {
		if p.rest {
			if chosen[i].tests, err = rest(ctx, p.module); err != nil {
				return err
			}
		}
	}
	var all errgroup.Group
	all.SetLimit(beside)
	if len(chosen) > 0 && chosen[0].alone {
		all.SetLimit(1)
	}
	var mu sync.Mutex // of the output
	failed := make([]error, len(chosen))
	for i, p := range chosen {
		all.Go(func() error {
			failed[i] = p.run(ctx, tree, &mu)
			return nil
		})
	}
	_ = all.Wait()
	return errors.Join(failed...)
}

// built is the variable of the environment with which `make test` and .ci/run say that they have built the programs in bin. Otherwise those can
// be older than the inputs, and no stamp is left.
const built = "BUILT"

// run runs the part unless its inputs have passed, and then prints its output as a whole.
func (p part) run(ctx context.Context, tree string, mu *sync.Mutex) error {
	hash, since := "", ""
	if tree != "" {
		var err error
		if hash, err = p.hash(ctx, tree); err != nil {
			return err
		}
		if since = p.passed(hash); full {
			since = ""
		}
	}
	if since != "" {
		return write(mu, line{name: p.name, hash: hash, result: "unchanged since " + since}, "")
	}
	noted := map[string]part{hash: p} // by the hashes of the inputs before the run
	if covered, ok := p.covered(); ok && tree != "" {
		of, err := covered.hash(ctx, tree)
		if err != nil {
			return err
		}
		noted[of] = covered
	}
	log := logOf(p.name)
	l, err := p.start(ctx, log, mu)
	l.hash = hash
	for of, part := range noted {
		if err != nil || of == "" || os.Getenv(built) == "" {
			break
		}
		if noErr := part.note(ctx, of); noErr != nil { // such as a cache that cannot be written: the part has passed all the same
			fmt.Printf("%s leaves no stamp: %v\n", part.name, noErr)
		}
	}
	if l.result = "passed"; err != nil {
		l.result = failedPart
		err = fmt.Errorf("%s: %w (%s)", p.name, err, log)
	}
	if p.alone {
		log = "" // it is printed already
	}
	return errors.Join(err, write(mu, l, log))
}

// start runs the part's command. A part that runs alone prints as it goes, the others into a file.
func (p part) start(ctx context.Context, log string, mu *sync.Mutex) (line, error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return line{}, err
	}
	file, err := os.Create(log)
	if err != nil {
		return line{}, err
	}
	defer func() { _ = file.Close() }()
	mu.Lock()
	fmt.Printf("%s begins (%s)\n", p.name, time.Now().Format(time.TimeOnly))
	mu.Unlock()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", p.script())
	cmd.Stdout, cmd.Stderr = file, file
	if p.alone {
		both := io.MultiWriter(os.Stdout, file)
		cmd.Stdout, cmd.Stderr = both, both
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	starts, err := filepath.Abs(filepath.Join(filepath.Dir(log), p.name+".starts"))
	if err != nil {
		return line{}, err
	}
	if err := os.RemoveAll(starts); err != nil {
		return line{}, err
	}
	// kubectl remembers for ten minutes what the API server at an address serves, and the next server there can be another one.
	remembered, err := os.MkdirTemp("", "kubectl-")
	if err != nil {
		return line{}, err
	}
	defer func() { _ = os.RemoveAll(remembered) }()
	cmd.Env = append(slices.DeleteFunc(os.Environ(), narrows), kube.Starts+"="+starts, "KUBECACHEDIR="+remembered)
	began := time.Now()
	err = cmd.Run()
	l := line{name: p.name, wall: time.Since(began)}
	text, _ := os.ReadFile(starts) // not there if none was started
	if l.servers = bytes.Count(text, []byte("\n")); l.servers > p.servers && err == nil {
		err = fmt.Errorf("%d API servers were started, %d are allowed: share one (test/README.md), or give the reason for another in test/parts/parts.go\n%s", l.servers, p.servers, text)
	}
	if text, _ := os.ReadFile(log); err == nil && slices.ContainsFunc(p.flags, isRun) && bytes.Contains(text, []byte("[no tests to run]")) {
		err = fmt.Errorf("no test has the name of %v: was it renamed?", p.flags)
	}
	if cmd.ProcessState != nil { // with that of all its descendants that were waited for
		l.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return l, err
}

func isRun(flag string) bool { return strings.HasPrefix(flag, "-run=") }

// narrows reports whether a variable of the environment can change what a part tests: a stamp is for all of it.
func narrows(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains([]string{"ARGS", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "KUBECONFIGS", "TOKENS",
		"OLDEST_KUBERNETES", "KUBEBUILDER_ASSETS", "QUESTIONS", "INTEROP"}, name) || strings.HasPrefix(name, "E2E_")
}

// script is the part's command for bash.
func (p part) script() string {
	if p.command != "" {
		return p.command
	}
	// vet is a part of lint. Go's own cache does not see what programs in bin and other child processes read.
	flags := append([]string{"-count=1", "-vet=off", "-ldflags=-w", "-timeout=40m"}, p.flags...)
	cgo := "0"
	if p.race { // the race detector needs cgo
		flags, cgo = append(flags, "-race"), "1"
	}
	return fmt.Sprintf("cd %s && CGO_ENABLED=%s go test %s %s", p.module, cgo, strings.Join(flags, " "), strings.Join(p.tests, " "))
}

// line is what is known of a part that ran.
type line struct {
	name, result, hash string
	wall, cpu          time.Duration
	servers            int // API servers that its tests have started
}

func (l line) String() string {
	return fmt.Sprintf("%-14s %7.0f %7.0f %12d  %s %s", l.name, l.wall.Seconds(), l.cpu.Seconds(), l.servers, l.result, l.hash)
}

// write prints the line after the log of the part, and adds it to ranFile.
func write(mu *sync.Mutex, l line, log string) error {
	mu.Lock()
	defer mu.Unlock()
	if text, err := os.ReadFile(log); err == nil {
		fmt.Printf("\n=== %s\n%s", l.name, text)
	}
	fmt.Printf("=== %s\n", l)
	if err := os.MkdirAll(filepath.Dir(ranFile), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(ranFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, l)
	return errors.Join(err, file.Close())
}

// report prints what the parts took, then what the tests that failed said, and last a message of each: of a long output that is kept in part,
// the end is kept, and that can be a few lines.
func report(out io.Writer) error {
	text, err := os.ReadFile(ranFile)
	if err != nil {
		return fmt.Errorf("no part has run: %w", err)
	}
	_, _ = fmt.Fprintf(out, "%-14s %7s %7s %12s  result, and a hash of the inputs\n%s", "part", "wall, s", "CPU, s", "API servers", text)
	var shortly strings.Builder
	for row := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(row, " ")
		if log, err := os.ReadFile(logOf(name)); err == nil && strings.Contains(row, failedPart) {
			failed, said := complaints(string(log))
			_, _ = fmt.Fprintf(out, "\n%s, the tests that failed (all in %s):\n", name, logOf(name))
			for _, test := range failed {
				_, _ = fmt.Fprintf(out, "--- %s\n%s", test, strings.Join(said[test], ""))
				fmt.Fprintf(&shortly, "%s, %s:\n%s\n", name, test, decisive(said[test]))
			}
		}
	}
	if shortly.Len() > 0 {
		_, _ = fmt.Fprintf(out, "\nIn short:\n%s", shortly.String())
	}
	return nil
}

// mostDecisive is the size of what is repeated of a test, in bytes.
const mostDecisive = 500

// decisive is the last message that says what was wanted, or else the last one: messages of t.Log and t.Error look the same.
func decisive(said []string) string {
	var messages []string
	for _, line := range said {
		if len(messages) == 0 || saysPlace.MatchString(line) {
			messages = append(messages, "")
		}
		messages[len(messages)-1] += line
	}
	for _, message := range slices.Backward(messages) {
		if strings.Contains(message, "want") {
			return message[:min(len(message), mostDecisive)]
		}
	}
	all := strings.Join(said, "")
	return all[max(0, len(all)-mostDecisive):]
}

var (
	beginsTest = regexp.MustCompile(`^=== (?:RUN|NAME|CONT) +([^/\s]+)`)
	endsTest   = regexp.MustCompile(`^--- (FAIL|PASS|SKIP): ([^/\s]+)`)
	saysPlace  = regexp.MustCompile(`^ +\S+\.go:\d+: `)
)

// mostComplaints is how many lines are printed of each test that failed, the last ones, and continued how many lines of each message.
const (
	mostComplaints = 60
	continued      = 8
)

// complaints is which tests failed, and what they said, in the log of `go test` with or without -v: the begin of each of the last messages. Where
// no test says that it failed, such as where a package does not compile, or a test panics or takes too long, it is the end of the log.
func complaints(log string) (failed []string, said map[string][]string) {
	test, room := "", 0
	said = map[string][]string{}
	for line := range strings.Lines(log) {
		if m := beginsTest.FindStringSubmatch(line); m != nil {
			test, room = m[1], 0
			continue
		}
		if m := endsTest.FindStringSubmatch(line); m != nil {
			if test, room = m[2], 0; m[1] == "FAIL" {
				failed = append(failed, test)
			} else {
				delete(said, test)
			}
			continue
		}
		if saysPlace.MatchString(line) {
			room = continued
		} else if line[0] != ' ' {
			room = 0
		}
		if room > 0 {
			room--
			said[test] = append(said[test], line)
		}
	}
	for _, test := range failed {
		said[test] = last(said[test])
	}
	if len(failed) == 0 || strings.Contains(log, "\npanic: ") || strings.HasPrefix(log, "panic: ") {
		const end = "the end of the log"
		failed, said[end] = append(failed, end), last(slices.Collect(strings.Lines(log)))
	}
	return failed, said
}

func last(lines []string) []string { return lines[max(0, len(lines)-mostComplaints):] }
