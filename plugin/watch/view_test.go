package watch

import "testing"

// A reload goes over to the new watch once that knows what the old one knew: what neither can read, and what only the new one is to read,
// does not count.
func TestAViewCoversAnother(t *testing.T) {
	of := func(names ...string) namespaces {
		n := namespaces{}
		for _, name := range names {
			n[name] = struct{}{}
		}
		return n
	}
	for name, c := range map[string]struct {
		now, before *View
		want        bool
	}{
		"nothing, before nothing":                    {nil, nil, true},
		"nothing, before something":                  {nil, &View{watched: of("")}, false},
		"something, before nothing":                  {&View{watched: of("a", "b"), unlisted: of("b")}, nil, true},
		"all":                                        {&View{watched: of("")}, &View{watched: of("")}, true},
		"all imports, no slices, before both":        {&View{watched: of(""), partless: of("")}, &View{watched: of("")}, false},
		"all imports, before no slices either":       {&View{watched: of(""), partless: of("")}, &View{watched: of(""), partless: of("")}, true},
		"one of two, before that one":                {&View{watched: of("a", "b"), unlisted: of("b"), partless: of("b")}, &View{watched: of("a", "b"), unlisted: of("b"), partless: of("b")}, true},
		"one of two, before the other":               {&View{watched: of("a", "b"), unlisted: of("b")}, &View{watched: of("a", "b"), unlisted: of("a")}, false},
		"one of two, before only that one":           {&View{watched: of("a", "b"), unlisted: of("b")}, &View{watched: of("a")}, true},
		"one of two, before all":                     {&View{watched: of("a", "b"), unlisted: of("b")}, &View{watched: of("")}, false},
		"none of all, before one":                    {&View{watched: of(""), unlisted: of("")}, &View{watched: of("a")}, false},
		"one of two, before both, one not any more":  {&View{watched: of("a")}, &View{watched: of("a", "b")}, true},
		"slices of one of two, before those of both": {&View{watched: of("a", "b"), partless: of("b")}, &View{watched: of("a", "b")}, false},
	} {
		if got := c.now.Covers(c.before); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
