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
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterset-dns/multicluster/test/kube"
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
	os.Exit(kube.Main(m, &single, &dual))
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
			played, err := inBubble(t, 1, string(text), nil)
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if t.Failed() || played == string(text) {
				return
			}
			if !*update {
				t.Errorf("%s:\n    %s\n(-says +is):\n%s", file, firstDifference(string(text), played), cmp.Diff(strings.Split(string(text), "\n"), strings.Split(played, "\n")))
			} else if err := os.WriteFile(file, []byte(played), 0o644); err != nil {
				t.Error(err)
			}
		})
	}
}

// endless is longer than any story takes, of which each is played in seconds.
const endless = 5 * time.Minute

// inBubble plays a story in virtual time, with values of its context. One that never ends, or waits for what is not virtual time, ends the program, with
// all stacks.
func inBubble(t *testing.T, seed uint64, text string, values map[any]any) (played string, err error) {
	t.Helper()
	hangs := time.AfterFunc(endless, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("seed %d: the story has not ended after %v. Somebody waits for a lock whose holder waits for virtual time, or there is no end:\n%s", seed, endless, text))
	})
	defer hangs.Stop()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		for key, value := range values {
			ctx = context.WithValue(ctx, key, value)
		}
		played, err = play(ctx, seed, text)
	})
	return played, err
}

// skip is for random{}: what does nothing is no error.
func skip(string) {}

// firstDifference is the first line that is not as the story has it, whatever the widths of columns, with what the story has and the step before.
func firstDifference(says, is string) string {
	lines, step := strings.Split(says, "\n"), ""
	for number, line := range strings.Split(is, "\n") {
		had := "nothing"
		if number < len(lines) {
			had = lines[number]
		}
		if !slices.Equal(strings.Fields(had), strings.Fields(line)) {
			return fmt.Sprintf("line %d is: %s\n    the story has: %s\n    after the step: %s", number+1, line, had, step)
		}
		if !strings.HasPrefix(line, "    ") {
			step = line
		}
	}
	return fmt.Sprintf("line %d is: missing", len(strings.Split(is, "\n"))+1)
}

// A mistake in a story is an error with the line, and what is expected.
func TestMistakes(t *testing.T) {
	for step, want := range map[string]string{
		"member1: export foo":                               "a story begins with, for example, clusters 2",
		"clusters 1 peer-timout=1m":                         `"peer-timout=1m" is no option: want some of peer-timeout=`,
		"clusters 1 keep-last-endpoints=no":                 `"no": want one of`,
		"clusters many":                                     "want a number of clusters from 1 to 9",
		"clusters 1\nexprot foo":                            `line 2, "exprot foo": "exprot" is no step: these are clusters,`,
		"clusters 1\nmember1: exprot foo":                   `"exprot" is no step in a cluster: these are annotate,`,
		"clusters 1\nmember1: api dwon":                     `"dwon": want one of down, silent, slow, up`,
		"clusters 1\nmember1: pods dwon":                    `"dwon": want one of down, up`,
		"clusters 1\nmember1: service foo 80/QQQ":           `"80/QQQ" is no port`,
		"clusters 1\nmember1: service foo tpe=x 80":         `"tpe=x" is no option`,
		"clusters 1\nmember1: service foo 80 10.9.1.1=redy": `"redy": want one of`,
		"clusters 1\nmember1: endpoints":                    `"endpoints" has 0 words after it, want at least 1`,
		"clusters 1\nmember1: patch":                        `"patch" has 0 words after it, want at least 3`,
		"clusters 1\nmember1: patch service foo {bad":       "{bad is not JSON",
		"clusters 1\nmember1: crash 1":                      "want: crash, crash before write 3",
		"clusters 1\nmember1: crash before write 0":         "want: crash, crash before write 3",
		"clusters 1\nmember1: answer 503 endpointslicez":    `"endpointslicez": want one of all, secrets`,
		"clusters 1\nmember1: answer 503 all redas":         `"redas": want a number of writes, reads, or spec`,
		"clusters 1\nmember1: answer 999 all":               `"999": want a code such as 403`,
		"clusters 1\nmember1: mutate servicez {}":           `"servicez": want one of services`,
		"clusters 1\nmember1: restore quikly":               `"quikly": want one of `,
		"clusters 1\nmember1: lose x":                       `"x": want a number of writes from 1 on`,
		"clusters 1\nmember1: delete pod foo":               `"pod" is no kind: want one of endpointslice,`,
		"clusters 1\nmember1: delete service foo cascade=o": `"o": want one of background, orphan, foreground`,
		"clusters 1\nmember1: export foo label=team=blue":   `"label=team=blue": want label=KEY:VALUE`,
		"clusters 1\nmember1: label namespace shop x":       `"x": want KEY=VALUE, or KEY- to remove it`,
		"clusters 1\nmember1: service foo 80 type=Foo":      `"Foo": want one of`,
		"clusters 1\nmember1: service foo 80 10.0.0.5":      "10.0.0.5 is not an address of a pod in member1",
		"clusters 1\nmember1: service foo 80 10.9.1.1..-5":  "want a number of endpoints from 1 to 1000",
		"clusters 1\nmember1: join member7":                 "there is no cluster member7",
		"clusters 1\nwrites servicez":                       `"servicez": want one of reads`,
		"clusters 1\nsettle now":                            `"settle" has 1 words after it, want at most 0`,
		"clusters 1\nclusters 1":                            "there are clusters already",
		"clusters 0":                                        `"0": want a number of clusters from 1 to 9`,
		"clusters 1 peer-timeout=-5m":                       `"-5m": want a time such as peer-timeout=1m`,
		"clusters 2\ncut":                                   `"cut" has 0 words after it`,
		"clusters 2\ncut member1 member7":                   "there is no cluster member7",
		"clusters 1\nwait -10s":                             `"-10s": want a time from 0s`,
		"clusters 1\nwait 99999h":                           `"99999h": want a time from 0s`,
		"clusters 1\n \t\nwait soon":                        `"soon": want a time from 0s`,
		"# nothing":                                         "want steps: a story begins with",
		"":                                                  "want steps: a story begins with",
	} {
		t.Run(step, func(t *testing.T) {
			if _, err := inBubble(t, 1, step, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %s", err, want)
			}
		})
	}
}
