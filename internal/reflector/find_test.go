package reflector

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/tools/cache"
)

// A server that has no list of the resource sends millions of resources in its discovery. They are not decoded, and prove nothing.
func TestDiscoveryIsBounded(t *testing.T) {
	for what, path := range map[string]string{"resources": "/api/v1", "groups": "/apis"} {
		t.Run(what, func(t *testing.T) {
			reports := make(chan error, 100)
			f, _ := followInto(t, cache.NewStore(cache.MetaNamespaceKeyFunc), func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != path {
					http.NotFound(w, r)
					return
				}
				answer(w, `{"`+what+`": [{"name": "services"}`+strings.Repeat(", {}", maxDiscovery/4)+`]}`)
			}, func(verb Verb, err error) {
				if verb == List {
					reports <- err
				}
			})
			run(t, f)
			if err := <-reports; err == nil || !strings.Contains(err.Error(), "want at most 1048576") {
				t.Errorf("reported %v, want that the answer is too long", err)
			}
		})
	}
}
