package simulation

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

var update = flag.Bool("update", false, "write what the steps of the stories print now")

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	debug.SetGCPercent(800)         // the heap is small
	utilruntime.ErrorHandlers = nil // one of them waits for times from outside the bubble
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, fault any) {
		panicked.Store(new(fmt.Sprintf("%v\n%s", fault, debug.Stack())))
	}}
	os.Exit(m.Run())
}

// Each file of testdata is a story. What its steps print has to be what it says.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var played string
			synctest.Test(t, func(t *testing.T) {
				if played, err = play(t.Context(), 1, string(text)); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			})
			if t.Failed() || played == string(text) {
				return
			}
			if !*update {
				t.Errorf("%s:\n    %s\n(-says +is):\n%s", file, firstDifference(string(text), played), cmp.Diff(string(text), played))
			} else if err := os.WriteFile(file, []byte(played), 0o644); err != nil {
				t.Error(err)
			}
		})
	}
}

// firstDifference is the first line that is not as the story has it, whatever the widths of columns.
func firstDifference(says, is string) string {
	lines := strings.Split(says, "\n")
	for number, line := range strings.Split(is, "\n") {
		if number >= len(lines) || !slices.Equal(strings.Fields(lines[number]), strings.Fields(line)) {
			return fmt.Sprintf("line %d is: %s", number+1, line)
		}
	}
	return fmt.Sprintf("line %d is: missing", len(strings.Split(is, "\n"))+1)
}
