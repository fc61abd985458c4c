package charts

import (
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// changes are the fields that differ between two renderings: "Deployment/coredns spec.replicas" with what it is after, in JSON, or ""
// where it is gone. Of an object that is there in one of them alone there is one entry: "new", or "".
func changes(t *testing.T, before, after []*unstructured.Unstructured) map[string]string {
	t.Helper()
	old, now := without(t, before), without(t, after)
	all := map[string]string{}
	for name, object := range now {
		if _, known := old[name]; !known {
			all[name] = "new"
			continue
		}
		was, is := leaves(t, name+" ", old[name]), leaves(t, name+" ", object)
		for path, value := range is {
			if was[path] != value {
				all[path] = value
			}
		}
		for path := range was {
			if _, still := is[path]; !still {
				all[path] = ""
			}
		}
	}
	for name := range old {
		if _, still := now[name]; !still {
			all[name] = ""
		}
	}
	return all
}

// leaves are the fields of an object by their paths. A list of plain values is one.
func leaves(t *testing.T, path string, value any) map[string]string {
	t.Helper()
	children := map[string]any{}
	switch v := value.(type) {
	case map[string]any:
		children = v
	case []any:
		for i, child := range v {
			if _, deep := child.(map[string]any); deep {
				children[fmt.Sprint(i)] = child
			}
		}
	}
	if len(children) == 0 {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{path: string(text)}
	}
	all := map[string]string{}
	for name, child := range children {
		next := path + "." + name
		if path[len(path)-1] == ' ' {
			next = path + name
		}
		for deeper, leaf := range leaves(t, next, child) {
			all[deeper] = leaf
		}
	}
	return all
}
