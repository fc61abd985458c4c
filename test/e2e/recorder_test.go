package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// recorder is a test that can repeat its errors. When a scenario fails, much is logged after the
// error, and the error must be at the end of the log too.
type recorder struct {
	*testing.T
	mu     sync.Mutex
	errors []string
}

func (r *recorder) record(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, strings.TrimSpace(message))
}

// repeat logs the errors again.
func (r *recorder) repeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Logf("the errors again:\n%s", strings.Join(r.errors, "\n"))
}

// Error implements testing.TB.
func (r *recorder) Error(args ...any) {
	r.Helper()
	r.record(fmt.Sprintln(args...))
	r.T.Error(args...)
}

// Errorf implements testing.TB.
func (r *recorder) Errorf(format string, args ...any) {
	r.Helper()
	r.Error(fmt.Sprintf(format, args...))
}

// Fatal implements testing.TB.
func (r *recorder) Fatal(args ...any) {
	r.Helper()
	r.record(fmt.Sprintln(args...))
	r.T.Fatal(args...)
}

// Fatalf implements testing.TB.
func (r *recorder) Fatalf(format string, args ...any) {
	r.Helper()
	r.Fatal(fmt.Sprintf(format, args...))
}
