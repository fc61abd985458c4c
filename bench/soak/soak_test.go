package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/bench/soak/oracle"
)

func TestEveryStateOfAThingIsOneThatItMayHave(t *testing.T) {
	w := newWorld(40, 20)
	for _, thing := range w.all {
		last, gone, empty := oracle.State{Gone: true}, 0, 0
		for range 200 {
			next, err := thing.next(last)
			if err != nil || next.Gone && last.Gone || next.Size > thing.most || next.Number == last.Number {
				t.Fatalf("%s: %v after %v, %v", thing.name, next, last, err)
			}
			if next.Gone {
				gone++
			} else if next.Size == 0 {
				empty++
			}
			last = next
		}
		if thing.fickle != (gone > 0 && empty > 0) {
			t.Errorf("%s was gone %d times and empty %d times: is it fickle? %t", thing.name, gone, empty, thing.fickle)
		}
	}
}

func TestEachThingHasOneWriter(t *testing.T) {
	s := &soak{world: newWorld(40, 20), options: options{writers: 7}}
	owner := map[*thing]int{}
	for writer := range s.options.writers {
		own := s.shares(writer)
		for _, share := range own {
			for _, thing := range share.things {
				if other, ok := owner[thing]; ok {
					t.Errorf("%s is written by %d and %d", thing.name, other, writer)
				}
				owner[thing] = writer
			}
		}
		for range 100 {
			if thing := pick(own); owner[thing] != writer {
				t.Errorf("%d picked %s, which is of %d", writer, thing.name, owner[thing])
			}
		}
	}
	for _, c := range s.canaries {
		if writer, ok := owner[c.thing]; ok {
			t.Errorf("the canary %s is written by %d too", c.name, writer)
		}
	}
}

// apiTo writes to a server that gives one status after the other, and notes the requests.
func apiTo(t *testing.T, statuses ...int) (*api, *[]string) {
	t.Helper()
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method)
		status := statuses[0]
		statuses = statuses[1:]
		w.Header().Set("Content-Type", "application/json")
		if status == http.StatusNotFound {
			w.Header().Set("Content-Type", "text/plain") // of no such path
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reasons[status], status)
	}))
	t.Cleanup(server.Close)
	ticks := time.Duration(0)
	a, err := newAPI(&rest.Config{Host: server.URL}, func() time.Duration { ticks++; return ticks })
	if err != nil {
		t.Fatal(err)
	}
	return a, &requests
}

var reasons = map[int]string{http.StatusConflict: "AlreadyExists", http.StatusServiceUnavailable: "ServiceUnavailable"}

func TestAWriteIsSentUntilItIsDone(t *testing.T) {
	w := newWorld(1, 0)
	thing := w.all[0]
	a, requests := apiTo(t, 503, 409, 503, 200, 404, 200)
	gone := func(oracle.State) (oracle.State, error) { return oracle.State{Gone: true}, nil }
	for _, choose := range []next{thing.full, thing.full, gone} {
		if err := a.write(t.Context(), thing, choose); err != nil {
			t.Fatal(err)
		}
	}
	// "Already exists" means that the first POST has succeeded. A path that does not exist does not
	// mean that the object is deleted.
	if got, want := strings.Join(*requests, " "), "POST POST PATCH PATCH DELETE DELETE"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if a.written.Load() != 3 || a.retried.Load() != 3 || !thing.Last().Gone {
		t.Errorf("%d written, %d sent again, it is %v", a.written.Load(), a.retried.Load(), thing.Last())
	}
}

func TestMemoryIsLevelWithinItsBounds(t *testing.T) {
	begin := memory{heap: 1000, goroutines: 20}
	for want, end := range map[string]memory{
		"":                                   {heap: 1150, goroutines: 25},
		"the heap is 1.16 times what it was": {heap: 1160, goroutines: 20},
		"there are 6 goroutines more":        {heap: 500, goroutines: 26},
	} {
		if got := level(begin, end); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestWrongAnswersAreCountedAndTheFirstPrinted(t *testing.T) {
	var out strings.Builder
	w := wrongs{out: &out}
	for range mostPrinted {
		w.add(&oracle.Wrong{Kind: oracle.Stale})
	}
	w.add(&oracle.Wrong{Kind: oracle.Torn})
	w.add(errors.New("other"))
	if got, want := w.String(), "22, 20 stale, 1 torn, 1 malformed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := strings.Count(out.String(), "WRONG"); got != mostPrinted {
		t.Errorf("%d were printed, want %d", got, mostPrinted)
	}
}

func TestDurationsOfNoneAreZero(t *testing.T) {
	var d durations
	if got, want := d.String(), "p50 0.0 ms, p99 0.0 ms, max 0.0 ms"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
