package reflector

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// etcd is restored from a backup, so the server is at an earlier version than the Follower. It accepts watches from later versions, and sends
// nothing: neither events nor the end of a streamed list. The Follower lists again.
func TestVersionsGoBack(t *testing.T) {
	for name, streams := range map[string]bool{"streamed": true, "asked for": false} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			version, service, ended := 70, "before", make(chan struct{})
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			listed := make(chan struct{}, 10)
			f, _ := followInto(t, store, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				now, service, ended := version, service, ended
				mu.Unlock()
				query := r.URL.Query()
				var from int
				_, _ = fmt.Sscan(query.Get("resourceVersion"), &from)
				object := fmt.Sprintf(`{"kind": "Service", "apiVersion": "v1", "metadata": {"namespace": "ns", "name": %q, "resourceVersion": "%d"}}`, service, now)
				switch initial := query.Get("sendInitialEvents") == "true"; {
				case initial && !streams:
					w.WriteHeader(http.StatusUnprocessableEntity)
				case isWatch(r):
					answer(w, "")
					if from <= now && initial {
						answer(w, fmt.Sprintf(`{"type": "ADDED", "object": %s}
{"type": "BOOKMARK", "object": {"kind": "Service", "apiVersion": "v1", "metadata": {"resourceVersion": "%d", "annotations": {"k8s.io/initial-events-end": "true"}}}}
`, object, now))
					}
					select {
					case <-ended:
					case <-r.Context().Done():
					}
				default:
					answer(w, fmt.Sprintf(`{"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "%d"}, "items": [%s]}`, now, object))
				}
			}, func(verb Verb, err error) {
				if verb == List && err == nil {
					listed <- struct{}{}
				}
			})
			run(t, f)
			for _, want := range []string{"before", "restored"} {
				select {
				case <-listed:
				case <-time.After(time.Minute):
					t.Fatalf("%s is not listed; the store has %v", want, store.ListKeys())
				}
				if got := store.ListKeys(); !slices.Equal(got, []string{"ns/" + want}) {
					t.Errorf("the store has %v, want %s", got, want)
				}
				mu.Lock()
				version, service = 7, "restored"
				close(ended)
				ended = make(chan struct{})
				mu.Unlock()
			}
		})
	}
}

// Etcd can be restored while no API server listens, and have passed the version of a watch again when one does.
func TestARefusedWatchIsNotTriedAgain(t *testing.T) {
	watches := 0
	lw := Versioned(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			watches++
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		},
	})
	quiet := logr.Discard()
	r := cache.NewReflectorWithOptions(lw, &corev1.Service{}, cache.NewStore(cache.MetaNamespaceKeyFunc), cache.ReflectorOptions{Logger: &quiet})
	if err := r.ListAndWatchWithContext(t.Context()); err == nil || watches != 2 {
		t.Errorf("%v after %d watches, want an error after a streamed list and a watch", err, watches)
	}
}

// A hostile peer answers the question for its version with megabytes. They are not read to their end.
func TestTheQuestionForAVersionIsBounded(t *testing.T) {
	_, _, client := followServer(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, `{"items": "`+strings.Repeat("x", maxQuestion)+`", "metadata": {"resourceVersion": "7"}}`)
	}, func(Verb, error) {})
	if version, err := versionOf(client, Resource{Name: "services"})(t.Context()); err == nil {
		t.Errorf("the version is %q after more than %d bytes, want an error", version, maxQuestion)
	}
}
