package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// shell is one bash that lines are typed to, as to a person's terminal: where one has gone, and what it has set, holds for the next.
type shell struct {
	stdin io.WriteCloser
	out   *bufio.Reader // what the lines print, errors as well
}

// newShell begins in a folder, and ends with the test.
func newShell(t testing.TB, folder string, environment ...string) *shell {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-o", "pipefail")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), environment...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the error is that it was killed: the test's context has ended
	return &shell{stdin, bufio.NewReader(out)}
}

// typed comes after a line's output, with its exit status. Nothing else prints it.
const typed = "--- typed:"

// types gives a line to the shell, waits until it is over, and returns what it has printed. Programs read nothing of what is typed next.
func (s *shell) types(line string) (string, error) {
	if _, err := fmt.Fprintf(s.stdin, "{\n%s\n} </dev/null\nprintf '\\n%%s %%d\\n' '%s' $?\n", line, typed); err != nil {
		return "", fmt.Errorf("type %s: %w", line, err)
	}
	var text strings.Builder
	for {
		printed, err := s.out.ReadString('\n')
		if err != nil {
			return text.String(), fmt.Errorf("the shell ended at %s: %w: %s", line, err, text.String())
		}
		status, over := strings.CutPrefix(printed, typed)
		if !over {
			text.WriteString(printed)
			continue
		}
		out := strings.TrimSuffix(text.String(), "\n")
		if n, err := strconv.Atoi(strings.TrimSpace(status)); err != nil || n != 0 {
			return out, fmt.Errorf("%s: exit status %s: %s", line, strings.TrimSpace(status), out)
		}
		return out, nil
	}
}

// TestUnitShell: a line that fails is noticed, and one shell is for all lines.
func TestUnitShell(t *testing.T) {
	s := newShell(t, t.TempDir(), "FROM=outside")
	for _, c := range []struct {
		line, want string
		fails      bool
	}{
		{line: "mkdir one && cd one && export SET=here"},
		{line: "cat; echo $FROM $SET $(basename $PWD)", want: "outside here one\n"},
		{line: "cd nowhere", want: "nowhere: No such file or directory", fails: true},
		{line: "false | true", fails: true},
		{line: "cat <<< \"$SET\"", want: "here\n"},
		{line: "exit 3", fails: true},
	} {
		got, err := s.types(c.line)
		if (err != nil) != c.fails || !strings.Contains(got, c.want) || !c.fails && got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.line, got, err, c.want)
		}
	}
}
