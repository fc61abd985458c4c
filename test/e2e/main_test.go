// Package e2e shows what users do, in pods of real clusters: those of KUBECONFIGS, as `make e2e` sets it.
package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// clusterset is what the scenarios run in: `need` gives it.
var (
	opening    sync.Mutex
	clusterset *set
)

// TestMain lets all scenarios use one clusterset, of the clusters whose kubeconfigs are in KUBECONFIGS. `make e2e` starts some; any others
// do as well, if they have what README.md says. What is installed stays when the tests end.
func TestMain(m *testing.M) {
	code := m.Run()
	if clusterset != nil {
		if err := clusterset.close(context.Background()); err != nil { //nolint:forbidigo // the tests, and their contexts, have ended
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}
