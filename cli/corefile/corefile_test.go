package corefile

import (
	"os"
	"path/filepath"
	"testing"
)

// The Corefiles of the documents are what users have.
func TestExamples(t *testing.T) {
	const name, own = "foo.default.svc.clusterset.local", "foo.default.svc.cluster.local"
	for file, want := range map[string]struct {
		by, to          string
		alias, autopath bool
	}{
		"stock":               {by: Multicluster},
		"autopath":            {by: Multicluster, autopath: true},
		"alias":               {by: Multicluster, alias: true},
		"central":             {by: Multicluster},
		"second-server":       {by: Multicluster},
		"alias-second-server": {by: Multicluster, alias: true},
		"forwarding":          {to: "10.96.0.11"},
		"alias-forwarding":    {to: "10.96.0.11"},
		"nodelocal":           {to: "10.96.0.12"},
	} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "corefile-examples", file+".Corefile"))
			if err != nil {
				t.Fatal(err)
			}
			blocks, err := Parse(string(text), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := RouteOf(blocks, name)
			if got.By != want.by || want.to != "" && (len(got.To) != 1 || got.To[0] != want.to) || want.to == "" && len(got.To) > 0 {
				t.Errorf("route %+v, want %+v", got, want)
			}
			if Aliases(blocks, own) != want.alias || Autopath(blocks, own) != want.autopath {
				t.Errorf("alias %v, autopath %v, want %+v", Aliases(blocks, own), Autopath(blocks, own), want)
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	files := map[string]string{"x.server": "clusterset.local:53 {\n forward . 10.0.0.9\n}", "y.override": "multicluster clusterset.local"}
	for name, c := range map[string]struct {
		text string
		want Route
	}{
		"no block":              {"cluster.local {\n}", Route{}},
		"the root forwards":     {".:53 {\n forward . /etc/resolv.conf\n}", Route{Block: true, To: []string{"/etc/resolv.conf"}}},
		"the root knows more":   {".:53 {\n forward clusterset.local 10.0.0.8\n forward . /etc/resolv.conf\n}", Route{Block: true, OwnZone: true, To: []string{"10.0.0.8"}}},
		"the plugin in-tree":    {".:53 {\n kubernetes cluster.local {\n multicluster clusterset.local\n }\n}", Route{Block: true, By: Kubernetes}},
		"an imported block":     {".:53 {\n}\nimport custom/*.server", Route{Block: true, OwnZone: true, To: []string{"10.0.0.9"}}},
		"an imported directive": {".:53 {\n import custom/*.override\n}", Route{Block: true, By: Multicluster}},
		"a snippet":             {"(ours) {\n multicluster clusterset.local\n}\n. {\n import ours\n}", Route{Block: true, By: Multicluster}},
		"keys on two lines":     {"example.org,\nclusterset.local {\n multicluster\n}", Route{Block: true, OwnZone: true, By: Multicluster}},
		"another port":          {".:53 {\n forward . /etc/resolv.conf\n}\nclusterset.local:5353 {\n multicluster\n}", Route{Block: true, To: []string{"/etc/resolv.conf"}}},
		"all on another port":   {".:5353 {\n}\nclusterset.local:5353 {\n multicluster\n}", Route{Block: true, OwnZone: true, By: Multicluster}},
		"another protocol":      {".:53 {\n}\ntls://clusterset.local:53 {\n multicluster\n}", Route{Block: true}},
		"a comment":             {". {\n # multicluster clusterset.local\n}", Route{Block: true}},
	} {
		t.Run(name, func(t *testing.T) {
			blocks, err := Parse(c.text, files)
			if err != nil {
				t.Fatal(err)
			}
			got := RouteOf(blocks, "foo.default.svc.clusterset.local.")
			if got.Block != c.want.Block || got.By != c.want.By || got.OwnZone != c.want.OwnZone || len(got.To) != len(c.want.To) || len(got.To) > 0 && got.To[0] != c.want.To[0] {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// What a cluster gives must end, whatever it is.
func TestInvalid(t *testing.T) {
	for name, text := range map[string]string{
		"an open block":        ".:53 {\n",
		"a brace too many":     ". {\n}\n}",
		"a block without keys": "{\n}",
		"a snippet of itself":  "(a) {\n import a\n}\n. {\n import a\n}",
	} {
		t.Run(name, func(t *testing.T) {
			if blocks, err := Parse(text, nil); err == nil {
				t.Errorf("got %+v, want an error", blocks)
			}
		})
	}
}
