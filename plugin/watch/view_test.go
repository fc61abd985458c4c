package watch

import (
	"strings"
	"testing"
)

// A reload goes over to the new watch once that knows what the old one knew: what neither can read, and what only the new one is to read,
// does not count. Of what both know, the new one must be as new.
func TestAViewReachesAnother(t *testing.T) {
	of := func(watched string, at ...any) *View {
		k := known{watched: namespaces{}, at: map[string]uint64{}}
		for _, namespace := range strings.Split(watched, " ") {
			k.watched[namespace] = struct{}{}
		}
		for i := 0; i < len(at); i += 2 {
			k.at[at[i].(string)] = uint64(at[i+1].(int))
		}
		return &View{known: map[string]known{importKind.name: k}}
	}
	imports := of("", "", 7)
	both := &View{known: map[string]known{importKind.name: imports.known[importKind.name], sliceKind.name: of("", "", 8).known[importKind.name]}}
	only := &View{known: map[string]known{importKind.name: imports.known[importKind.name], sliceKind.name: of("").known[importKind.name]}}
	for name, c := range map[string]struct {
		now, before     *View
		covers, isAsNew bool
	}{
		"nothing, before nothing":                   {nil, nil, true, true},
		"nothing, before something":                 {nil, imports, false, false},
		"something, before nothing":                 {of("a b", "a", 7), nil, true, true},
		"all":                                       {imports, imports, true, true},
		"all, before newer":                         {imports, of("", "", 8), true, false},
		"all, before older":                         {of("", "", 8), imports, true, true},
		"all imports, no slices, before both":       {only, both, false, false},
		"all imports, before no slices either":      {only, only, true, true},
		"slices are not watched any more":           {imports, both, true, true},
		"one of two, before that one":               {of("a b", "a", 7), of("a b", "a", 7), true, true},
		"one of two, before the other":              {of("a b", "a", 7), of("a b", "b", 7), false, false},
		"one of two, before only that one":          {of("a b", "a", 7), of("a", "a", 7), true, true},
		"one of two, before all":                    {of("a b", "a", 7), imports, false, false},
		"none of all, before one":                   {of(""), of("a", "a", 7), false, false},
		"one of two, before both, one not any more": {of("a", "a", 7), of("a b", "a", 7, "b", 9), true, true},
		"two, before one of them newer":             {of("a b", "a", 7, "b", 9), of("a b", "a", 7, "b", 10), true, false},
		"two, before all and newer":                 {of("a b", "a", 7, "b", 9), of("", "", 8), true, false},
		"all, before two and one newer":             {of("", "", 8), of("a b", "a", 7, "b", 9), true, false},
		"an absent resource":                        {of("", "", 0), of("", "", 0), true, true},
	} {
		if covers, isAsNew := c.now.Reaches(c.before); covers != c.covers || isAsNew != c.isAsNew {
			t.Errorf("%s: covers %v, is as new %v; want %v and %v", name, covers, isAsNew, c.covers, c.isAsNew)
		}
	}
}
