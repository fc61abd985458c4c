package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// Server is the answer of an API server to the question for its version.
type Server struct {
	Version version.Info
	// Ahead is the clock of the API server minus the local one, to about a second. Times that a cluster has
	// written down are compared with the local time plus this: the local clock can be wrong.
	Ahead time.Duration
}

// maxVersion bounds the answer to the question for the version, in bytes.
const maxVersion = 64 << 10

// ReadServer asks an API server for its version. The header Date has its clock. now is the local clock.
func ReadServer(ctx context.Context, config *rest.Config, now func() time.Time) (Server, error) {
	var s Server
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return s, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return s, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base.String(), "/")+"/version", nil)
	if err != nil {
		return s, err
	}
	began := now()
	answer, err := client.Do(request)
	if err != nil {
		return s, err
	}
	ended := now()
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxVersion))
	switch {
	case err != nil:
		return s, fmt.Errorf("read the version: %w", err)
	case answer.StatusCode != http.StatusOK:
		return s, fmt.Errorf("read the version: the API server answers %s", answer.Status)
	}
	if err := json.Unmarshal(text, &s.Version); err != nil {
		return s, fmt.Errorf("read the version: %w", err)
	}
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return s, errors.New("read the version: the answer has no header Date")
	}
	s.Ahead = skew(date, began, ended)
	return s, nil
}

// skew is how far the clock of a server is ahead. The date was written between two local times, and cuts
// off parts of a second.
func skew(date, began, ended time.Time) time.Duration {
	switch {
	case date.Add(time.Second).Before(began):
		return date.Add(time.Second).Sub(began)
	case date.After(ended):
		return date.Sub(ended)
	}
	return 0
}
