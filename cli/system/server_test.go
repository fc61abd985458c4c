package system

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// The clock of an API server comes with its answer, in whole seconds.
func TestClockOfAServer(t *testing.T) {
	local := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	for off, want := range map[time.Duration]time.Duration{
		0: 0, -time.Hour: -time.Hour, time.Hour: time.Hour, -500 * time.Millisecond: 0,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/version" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Date", local.Add(off).Format(http.TimeFormat))
			_, _ = w.Write([]byte(`{"gitVersion": "v1.2.3"}`))
		}))
		defer server.Close()
		s, err := ReadServer(t.Context(), &rest.Config{Host: server.URL}, func() time.Time { return local })
		if err != nil || s.Version.GitVersion != "v1.2.3" || (s.Ahead-want).Abs() > time.Second || want == 0 && s.Ahead != 0 {
			t.Errorf("%v off: got %+v, %v", off, s, err)
		}
	}
}
