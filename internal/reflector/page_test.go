package reflector

import (
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// names keeps the names of objects.
type names struct {
	mu       sync.Mutex
	kept     int // objects
	replaced [][]string
}

func (n *names) Keep(object any) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kept++
	return object.(*corev1.Service).Name, nil
}
func (*names) Set(string)       {}
func (*names) Remove(any) error { return nil }
func (n *names) ReplaceAll(_ string, _ int, all iter.Seq[string]) {
	var list []string
	for name := range all {
		list = append(list, name)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.replaced = append(n.replaced, list)
}

// TestAListThatIsNotStreamedIsTrimmedPageByPage: no more than a page of whole objects is in memory, also when the list is read again as the
// server has forgotten where the watch was, or the list between two pages.
func TestAListThatIsNotStreamedIsTrimmedPageByPage(t *testing.T) {
	const total = 3*pageSize + 1
	var mu sync.Mutex
	var faults []string
	lists, watches, forgotten := 0, 0, false
	store := &names{}
	listed := make(chan error, 100)
	f, _ := followInto(t, NewStore[string](store), func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case query.Get("sendInitialEvents") == "true":
			w.WriteHeader(http.StatusUnprocessableEntity) // a server that cannot stream lists
			return
		case isWatch(r):
			if watches++; watches == 1 {
				answer(w, `{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}}`+"\n")
				return
			}
			mu.Unlock()
			answer(w, "")
			<-r.Context().Done()
			mu.Lock()
			return
		}
		if query.Get("limit") == "1" { // before a watch
			answer(w, fmt.Sprintf(`{"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "%d"}, "items": []}`, lists))
			return
		}
		from, _ := strconv.Atoi(query.Get("continue"))
		if from == 2*pageSize && !forgotten {
			forgotten = true
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusGone)
			_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}`))
			return
		}
		if from == 0 {
			lists++
			store.mu.Lock()
			store.kept = 0
			store.mu.Unlock()
		}
		store.mu.Lock()
		if query.Get("limit") != strconv.Itoa(pageSize) || query.Get("resourceVersion") != "" || store.kept != from {
			faults = append(faults, fmt.Sprintf("%s with %d objects trimmed", r.URL.RawQuery, store.kept))
		}
		store.mu.Unlock()
		var items []string
		for i := from; i < min(from+pageSize, total); i++ {
			items = append(items, fmt.Sprintf(`{"metadata": {"namespace": "ns", "name": "s%d"}}`, i))
		}
		more := ""
		if from+pageSize < total {
			more = strconv.Itoa(from + pageSize)
		}
		answer(w, fmt.Sprintf(`{"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "%d", "continue": %q}, "items": [%s]}`,
			lists, more, strings.Join(items, ",")))
	}, func(verb Verb, err error) {
		if verb == List {
			listed <- err
		}
	})
	run(t, f)
	for complete := 0; complete < 2; {
		select {
		case err := <-listed:
			if err == nil {
				complete++
			} else if !apierrors.IsResourceExpired(err) {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("no list is reported")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	store.mu.Lock()
	defer store.mu.Unlock()
	if len(faults) > 0 || !forgotten || len(store.replaced) != 2 {
		t.Errorf("%d lists, %d stored, and requests that are not for the next page: %v", lists, len(store.replaced), faults)
	}
	for _, list := range store.replaced {
		if len(list) != total || list[0] != "s0" || list[total-1] != fmt.Sprint("s", total-1) {
			t.Errorf("a list has %d objects, want %d", len(list), total)
		}
	}
}
