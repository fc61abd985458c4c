package check

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/deploy/peer"
)

// Links are objects of deploy/peer: to read, to apply and to delete each kind are rights of their own.
func TestRightsForLinks(t *testing.T) {
	reader, err := peer.Reader("member2")
	if err != nil {
		t.Fatal(err)
	}
	token, err := peer.TokenSecret("member2")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range append(append(peer.Objects(), reader...), token) {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		for _, verb := range []string{"get", "create", "patch", "delete"} {
			if !slices.ContainsFunc(usage, func(r right) bool {
				return r.verb == verb && r.group == resource.Group && r.resource == resource.Resource && r.namespace == object.GetNamespace()
			}) {
				t.Errorf("%s %s in %q is missing", verb, resource.GroupResource(), object.GetNamespace())
			}
		}
	}
	for i, r := range usage {
		if slices.ContainsFunc(usage[:i], func(o right) bool { return o.String() == r.String() }) {
			t.Errorf("%s is there twice", r)
		}
	}
}

// The DNS servers are asked where they run.
func TestPortForwardToTheSecondDNS(t *testing.T) {
	for _, r := range usage {
		if r.resource != portForward || r.namespace == metav1.NamespaceSystem {
			continue
		}
		f := &facts{denied: factOf([]right{r}, nil)}
		if c := f.checkRights(false); c.Result != OK {
			t.Errorf("no second CoreDNS, and %s: %+v", r, c)
		}
		f.second.value = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace}}
		if c := f.checkRights(false); c.Result != Failed {
			t.Errorf("a second CoreDNS, and %s: %+v", r, c)
		}
		f.second.value, f.second.err = nil, errors.New("forbidden")
		if c := f.checkRights(false); c.Result != Failed {
			t.Errorf("it is not known whether there is a second CoreDNS, and %s: %+v", r, c)
		}
	}
}

// Each command that needs a right has a row in the section Rights.
func TestRightsAreInTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Rights\n")
	var first string
	for _, line := range strings.Split(section, "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			first += cells[1]
		}
	}
	for _, r := range usage {
		if !strings.Contains(first, "`"+r.command+"`") {
			t.Errorf("docs/cli.md has no row for the rights of %s", r.command)
		}
	}
}
