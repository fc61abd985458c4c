package corefile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubectl reads and writes a key of a ConfigMap, which is a file with the names of both.
const kubectl = `#!/bin/sh
case "$*" in
*" get "*) cat "$MAPS/${7}" ;;
*" create "*) cat Corefile.new ;;
*" apply "*) cat >"$MAPS/written" ;;
esac
`

// run executes a printed command, and returns the text that it stores.
func run(t *testing.T, command, configMap, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"kubectl": kubectl, configMap: text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "MAPS="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	written, err := os.ReadFile(filepath.Join(dir, "written"))
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

// The printed command changes the directive of the zone, and nothing else.
func TestRedirect(t *testing.T) {
	const root = ".:53 {\n    forward . %\n}\n"
	for name, c := range map[string]struct{ to, block, want string }{
		"an address":                  {"10.0.0.5", "clusterset.local {\n    forward . %\n}\n", "10.0.0.11"},
		"a file":                      {"/etc/resolv.conf", "clusterset.local {\n    forward . % {\n        max_concurrent 9\n    }\n}\n", "10.0.0.11"},
		"several":                     {"10.0.0.5 dns://10.0.0.6:53", "clusterset.local:53 {\n    errors\n    forward . % # both\n}\n", "10.0.0.11"},
		"a pattern":                   {"10.0.0.5:[5]*&", "clusterset.local {\n    forward . %\n}\n", "10.0.0.11"},
		"a directive of another zone": {"10.0.0.5", "example.org {\n    forward . 10.0.0.53\n}\nclusterset.local {\n    forward . %\n}\n", "10.0.0.11"},
	} {
		before := strings.ReplaceAll(root+c.block, "%", c.to)
		want := strings.ReplaceAll(root, "%", c.to) + strings.ReplaceAll(c.block, "%", c.want)
		fix, _ := Config{Corefile: before}.Redirect("two", "foo.default.svc.clusterset.local", c.want)
		if fix == "" {
			t.Errorf("%s: there is no command", name)
			continue
		}
		if got := run(t, fix, "coredns", before); got != want {
			t.Errorf("%s: %s\ngot\n%s\nwant\n%s", name, fix, got, want)
		}
	}
	block := "clusterset.local {\n forward . 10.0.0.5\n}\n"
	c := Config{Corefile: ".:53 {\n}\nimport custom/*.server\n", Files: map[string]string{"x.server": "\n" + block}, Custom: true}
	fix, _ := c.Redirect("two", "clusterset.local", "10.0.0.11")
	if got := run(t, fix, "coredns-custom", "\n"+block); got != "\n"+strings.ReplaceAll(block, "10.0.0.5", "10.0.0.11") || !strings.Contains(fix, `x\.server}`) {
		t.Errorf("an imported file: %s\n%s", fix, got)
	}
	c = Config{Corefile: "clusterset.local {\n forward . 10.0.0.5  10.0.0.6\n}\n"}
	if fix, edit := c.Redirect("two", "clusterset.local", "10.0.0.11"); fix != "" || edit != "kubectl --context two --namespace kube-system edit configmap coredns" {
		t.Errorf("a line that is not as it was read: %q, %q", fix, edit)
	}
}

// The block for NodeLocal DNSCache is that of the example, with the addresses of the block for the cluster's
// own domain.
func TestStanza(t *testing.T) {
	example, err := os.ReadFile(filepath.Join("..", "..", "corefile-examples", "nodelocal.Corefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(example), "\nclusterset.local:53 {")
	block = "clusterset.local:53 {" + block
	const domain = "cluster.local:53 {\n    errors\n    bind %BIND\n    forward . %TO {\n        force_tcp\n    }\n    prometheus :9253\n}\n.:53 {\n    bind %BIND\n    forward . /etc/resolv.conf\n}\n"
	for name, c := range map[string]struct{ bind, to string }{
		"one address": {"169.254.20.10", "10.96.0.12"},
		"words":       {"169.254.20.10 10.96.0.10", "__PILLAR__CLUSTER__DNS__"},
	} {
		of := func(text string) string { return strings.NewReplacer("%BIND", c.bind, "%TO", c.to).Replace(text) }
		want := of(domain) + "\n" + strings.NewReplacer("169.254.20.10", c.bind, "10.96.0.12", c.to).Replace(block)
		blocks, err := Parse(of(domain), nil)
		if err != nil {
			t.Fatal(err)
		}
		fix := Stanza("two", blocks, "clusterset.local", "cluster.local")
		if got := run(t, fix, NodeLocal, of(domain)); got != want {
			t.Errorf("%s: %s\ngot\n%s\nwant\n%s", name, fix, got, want)
		}
	}
	for name, text := range map[string]string{"no block": "example.org {\n}", "nothing is forwarded": "cluster.local {\n bind 169.254.20.10\n}"} {
		blocks, err := Parse(text, nil)
		if fix := Stanza("two", blocks, "clusterset.local", "cluster.local"); err != nil || fix != "" {
			t.Errorf("%s: %q, %v", name, fix, err)
		}
	}
}

// The block comes to where the platform does not overwrite it.
func TestForward(t *testing.T) {
	const stock = ".:53 {\n    forward . /etc/resolv.conf\n}\n"
	fix := Config{Corefile: stock}.Forward("two", "clusterset.local", "10.0.0.11")
	if len(fix) != 1 {
		t.Fatal(fix)
	}
	after := run(t, fix[0], "coredns", stock)
	blocks, err := Parse(after, nil)
	if r := RouteOf(blocks, "clusterset.local"); err != nil || !strings.HasPrefix(after, stock) || !r.OwnZone || len(r.To) != 1 || r.To[0] != "10.0.0.11" {
		t.Errorf("%v\n%s", err, after)
	}
	if fix := (Config{Corefile: ".:5353 {\n}\n"}).Forward("two", "clusterset.local", "10.0.0.11"); !strings.Contains(fix[0], "clusterset.local:5353 {") {
		t.Errorf("the servers use port 5353, and the command is %s", fix[0])
	}
	const patch = `kubectl --context two --namespace kube-system patch configmap coredns-custom --type merge --patch ` +
		`'{"data":{"multicluster.server":"clusterset.local:53 {\n    errors\n    cache 5\n    forward . 10.0.0.11\n}\n"}}'`
	const create = "kubectl --context two --namespace kube-system create configmap coredns-custom"
	for custom, want := range map[bool]string{true: patch, false: create + "\n" + patch} {
		c := Config{Corefile: stock + "import /etc/coredns/custom/*.server\n", Custom: custom}
		if got := strings.Join(c.Forward("two", "clusterset.local", "10.0.0.11"), "\n"); got != want {
			t.Errorf("custom %v: got\n%s\nwant\n%s", custom, got, want)
		}
	}
}
