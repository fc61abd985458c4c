package explain

import (
	"fmt"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/system"
)

// A cluster that nobody looked at is not one without an export.
func TestContextsAboveTheLimitAreUnread(t *testing.T) {
	q := Question{Server: func(string) string { return "" }}
	for i := range maxContexts + 2 {
		c, err := clusters.New(fmt.Sprint("context-", i), &rest.Config{Host: "https://127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		q.Others = append(q.Others, c)
	}
	unread := map[string]string{}
	if found := readOthers(t.Context(), q, system.Identity{}, unread); len(found) > 0 || len(unread) != len(q.Others) {
		t.Errorf("%d clusters are read, and %d of %d are noted as unread", len(found), len(unread), len(q.Others))
	}
}
