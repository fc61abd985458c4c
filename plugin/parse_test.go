package multicluster

import (
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterset-dns/multicluster/plugin/watch"
)

func parseText(text string, serverBlock ...string) (config, error) {
	c := caddy.NewTestController("dns", text)
	c.ServerBlockKeys = serverBlock
	return parse(c)
}

func TestParse(t *testing.T) {
	basic := config{zones: []string{"clusterset.local."}, ttl: 5, negTTL: 5, udpSize: 1232, clusterDomain: "cluster.local.", startupTimeout: 5 * time.Second, readyTimeout: time.Minute}
	with := func(f func(*config)) config {
		conf := basic
		f(&conf)
		return conf
	}
	for name, test := range map[string]struct {
		text string
		want config
	}{
		"a zone alone":                     {"multicluster clusterset.local", basic},
		"an empty block":                   {"multicluster clusterset.local {\n}", basic},
		"several zones, in any case":       {"multicluster ClusterSet.Local example.org.", with(func(c *config) { c.zones = []string{"clusterset.local.", "example.org."} })},
		"no zone takes the server block's": {"multicluster", with(func(c *config) { c.zones = []string{"block.example."} })},
		"a kubeconfig":                     {"multicluster clusterset.local {\nkubeconfig /k\n}", with(func(c *config) { c.kubeconfig = "/k" })},
		"a kubeconfig's context":           {"multicluster clusterset.local {\nkubeconfig /k c\n}", with(func(c *config) { c.kubeconfig, c.context = "/k", "c" })},
		"namespaces":                       {"multicluster clusterset.local {\nnamespaces b a b\n}", with(func(c *config) { c.watch.Namespaces = []string{"a", "b"} })},
		"labels":                           {"multicluster clusterset.local {\nlabels tier=web, env in (a, b)\n}", with(func(c *config) { c.watch.Labels = "env in (a,b),tier=web" })},
		"noendpoints":                      {"multicluster clusterset.local {\nnoendpoints\n}", with(func(c *config) { c.watch = watch.Options{NoEndpoints: true} })},
		"ttl is negttl too":                {"multicluster clusterset.local {\nttl 60\n}", with(func(c *config) { c.ttl, c.negTTL = 60, 60 })},
		"negttl, before ttl":               {"multicluster clusterset.local {\nnegttl 0\nttl 3600\n}", with(func(c *config) { c.ttl, c.negTTL = 3600, 0 })},
		"a size over UDP":                  {"multicluster clusterset.local {\nudp_size 65535\n}", with(func(c *config) { c.udpSize = 65535 })},
		"aliases":                          {"multicluster clusterset.local {\nalias Cluster.Local example.org\n}", with(func(c *config) { c.aliases = []string{"cluster.local.", "example.org."} })},
		"a cluster domain":                 {"multicluster clusterset.local {\ncluster_domain K8s.Example\n}", with(func(c *config) { c.clusterDomain = "k8s.example." })},
		"a startup timeout":                {"multicluster clusterset.local {\nstartup_timeout 250ms\n}", with(func(c *config) { c.startupTimeout = 250 * time.Millisecond })},
		"a ready timeout":                  {"multicluster clusterset.local {\nready_timeout 0s\n}", with(func(c *config) { c.readyTimeout = 0 })},
		"fallthrough of every zone":        {"multicluster clusterset.local {\nfallthrough\n}", with(func(c *config) { c.fall = fall.Root })},
		"fallthrough of some":              {"multicluster clusterset.local {\nfallthrough a.org\n}", with(func(c *config) { c.fall = fall.F{Zones: []string{"a.org."}} })},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseText(test.text, map[bool]string{true: "block.example.", false: "."}[test.text == "multicluster"])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(config{}), cmpopts.IgnoreFields(config{}, "line")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Each error contains the line and the expected form.
func TestParseErrors(t *testing.T) {
	for name, test := range map[string]struct{ text, line, want string }{
		"an unknown property":                {"multicluster clusterset.local {\n\nttls 5\n}", ":3", "want kubeconfig, namespaces"},
		"a block twice":                      {"multicluster clusterset.local\nmulticluster example.org", ":2", "want it once"},
		"a line twice":                       {"multicluster clusterset.local {\nttl 5\nttl 6\n}", ":3", "want it once"},
		"the root zone":                      {"multicluster .", ":1", "multicluster clusterset.local"},
		"the root server block":              {"multicluster", ":1", "multicluster clusterset.local"},
		"a reverse zone":                     {"multicluster 10.in-addr.arpa", ":1", "no PTR records"},
		"a zone that is no name":             {"multicluster a..b", ":1", "want one such as clusterset.local"},
		"a kubeconfig without a file":        {"multicluster z.org {\nkubeconfig\n}", ":2", "want a file"},
		"a kubeconfig with too much":         {"multicluster z.org {\nkubeconfig a b c\n}", ":2", "want a file"},
		"no namespaces":                      {"multicluster z.org {\nnamespaces\n}", ":2", "want the names"},
		"a namespace that cannot be":         {"multicluster z.org {\nnamespaces ok Not_OK\n}", ":2", `"Not_OK" is not a namespace's name`},
		"no labels":                          {"multicluster z.org {\nlabels\n}", ":2", "want one such as"},
		"labels that are no selector":        {"multicluster z.org {\nlabels a in b\n}", ":2", "want one such as"},
		"noendpoints with an argument":       {"multicluster z.org {\nnoendpoints yes\n}", ":2", "want none"},
		"a ttl of words":                     {"multicluster z.org {\nttl soon\n}", ":2", "want seconds, from 0 to 3600"},
		"a ttl below":                        {"multicluster z.org {\nttl -1\n}", ":2", "want seconds, from 0 to 3600"},
		"a ttl above":                        {"multicluster z.org {\nttl 3601\n}", ":2", "want seconds, from 0 to 3600"},
		"a ttl without a number":             {"multicluster z.org {\nttl\n}", ":2", "want seconds, from 0 to 3600"},
		"a negttl above":                     {"multicluster z.org {\nnegttl 3601\n}", ":2", "want seconds, from 0 to 3600"},
		"a size over UDP below":              {"multicluster z.org {\nudp_size 511\n}", ":2", "want bytes, from 512 to 65535"},
		"a size over UDP above":              {"multicluster z.org {\nudp_size 65536\n}", ":2", "want bytes, from 512 to 65535"},
		"no alias":                           {"multicluster z.org {\nalias\n}", ":2", "want zones of another plugin"},
		"an alias that is a zone of ours":    {"multicluster z.org {\nalias Z.org\n}", ":2", "want the zone of another plugin"},
		"an alias that is no name":           {"multicluster z.org {\nalias a..b\n}", ":2", "not a domain name"},
		"an alias of all the world":          {"multicluster z.org {\nalias .\n}", ":2", "every name in the world"},
		"no cluster domain":                  {"multicluster z.org {\ncluster_domain\n}", ":2", "want the one domain"},
		"a fallthrough zone that is no name": {"multicluster z.org {\nfallthrough a..b\n}", ":2", "not a zone"},
		"a zone of odd characters":           {"multicluster foo_bar,x", ":1", "want one such as clusterset.local"},
		"a negttl of words":                  {"multicluster z.org {\nnegttl soon\n}", ":2", `negttl "soon"; want seconds`},
		"a cluster domain with spaces":       {"multicluster z.org {\ncluster_domain a_b\n}", ":2", "not a domain name"},
		"a startup timeout of a number":      {"multicluster z.org {\nstartup_timeout 5\n}", ":2", "want a duration"},
		"a ready timeout of a number":        {"multicluster z.org {\nready_timeout 60\n}", ":2", `ready_timeout "60"; want a duration`},
		"a startup timeout below":            {"multicluster z.org {\nstartup_timeout -5s\n}", ":2", "want a duration"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseText(test.text, ".")
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.line) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, want line %s and %q", err, test.line, test.want)
			}
		})
	}
}

// A zone that the server block never gets a question for is a slip.
func TestAZoneOutsideOfTheServerBlockIsRefused(t *testing.T) {
	for block, want := range map[string]bool{"example.org.": false, "dns://example.org.:53": false, ".": true, "local.:1053": true, "foo.clusterset.local.": true} {
		if _, err := parseText("multicluster clusterset.local", block); (err == nil) != want {
			t.Errorf("in the block %s: %v", block, err)
		}
	}
}

// Settings that cannot work are reported when the Corefile is read, not at the first question.
func TestSetupReportsKubeconfigFaults(t *testing.T) {
	c := caddy.NewTestController("dns", "multicluster clusterset.local {\nttl 5\nkubeconfig /nowhere/config\nnegttl 5\n}")
	if err := setup(c); err == nil || !strings.Contains(err.Error(), "/nowhere/config") || !strings.Contains(err.Error(), ":3:") {
		t.Errorf("got %v, want an error that names the file and line 3", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if err := setup(caddy.NewTestController("dns", "multicluster clusterset.local")); err == nil || !strings.Contains(err.Error(), "kubeconfig FILE") {
		t.Errorf("got %v, want an error that asks for a kubeconfig", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"multicluster", "multicluster clusterset.local {\nttl 5\n}", "multicluster a {\nlabels a in (b)\nfallthrough\n}",
		"multicluster \"{\n", "multicluster ::1/8", "multicluster a {\nnamespaces é\n}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		conf, err := parseText(text, "clusterset.local.")
		if err == nil && strings.HasPrefix(text, "multicluster\n") && len(conf.zones) == 0 {
			t.Errorf("%q has neither zones nor an error", text)
		}
		for _, zone := range conf.zones {
			if err == nil && !strings.HasSuffix(zone, ".") {
				t.Errorf("%q gave the zone %q", text, zone)
			}
		}
	})
}
