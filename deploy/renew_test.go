package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// TestControllerWritesNoSecretByDefault compares the rights of the controller without and with deploy/renew: the base adds that it can
// patch the Secrets of its own namespace, and nothing else.
func TestControllerWritesNoSecretByDefault(t *testing.T) {
	c := kube.New(t, kube.Options{})
	kubectl(t, c, "apply", "-k", "deploy/controller")
	account, _, err := c.ServiceAccount(t.Context(), system, "multicluster-controller")
	if err != nil {
		t.Fatal(err)
	}
	before := rights(t, account)
	var ofSecrets []string
	for right := range before {
		if strings.Contains(right, " secrets. ") || strings.HasPrefix(right, "*") {
			ofSecrets = append(ofSecrets, right)
		}
	}
	slices.Sort(ofSecrets)
	if diff := cmp.Diff([]string{"list secrets. ", "watch secrets. "}, ofSecrets); diff != "" {
		t.Errorf("by default (-want +got):\n%s", diff)
	}
	kubectl(t, c, "apply", "-k", "deploy/renew")
	const canI = "--as=system:serviceaccount:multicluster-system:multicluster-controller"
	if got := kubectl(t, c, "auth", "can-i", "patch", "secrets", "--namespace="+system, canI); got != "yes\n" {
		t.Errorf("the comment of the base: %q", got)
	}
	kube.Eventually(t, "the base adds one right", func() error {
		after := rights(t, account)
		maps.DeleteFunc(after, func(right string, _ bool) bool { return before[right] })
		if all := slices.Collect(maps.Keys(after)); !slices.Equal(all, []string{"patch secrets. "}) {
			return fmt.Errorf("it adds %q", all)
		}
		return nil
	})
	other := kube.Namespace(t, c)
	if got, err := binaries.Kubectl(t.Context(), c, "auth", "can-i", "patch", "secrets", "--namespace="+other, canI); err == nil || got != "no\n" {
		t.Errorf("in another namespace: %q, %v", got, err)
	}
}
