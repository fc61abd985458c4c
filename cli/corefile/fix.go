package corefile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterset-dns/multicluster/cli/output"
)

const (
	namespace = "kube-system"
	own       = "coredns"
	custom    = "coredns-custom"
	key       = "Corefile"
)

// Config is the configuration of a cluster's own CoreDNS.
type Config struct {
	// Corefile is the key Corefile of the ConfigMap coredns of kube-system.
	Corefile string
	// Files are what it can import: the keys of the ConfigMap coredns-custom if there is one, else those of
	// coredns.
	Files map[string]string
	// Custom is true if there is a ConfigMap coredns-custom, as on AKS and K3s.
	Custom bool
}

// Parse reads the Corefile with the files that it imports.
func (c Config) Parse() ([]Block, error) { return Parse(c.Corefile, c.Files) }

// Forward returns the commands that forward a zone, which has no server block yet, to an address. The block
// is that of corefile-examples/forwarding.Corefile. It is added where the cluster's CoreDNS reads it: to
// coredns-custom if the Corefile imports files *.server, because a platform that does so resets the
// Corefile. Context is the context of the cluster.
func (c Config) Forward(context, zone, address string) []string {
	const file = "multicluster.server"
	now, _ := c.Parse()
	key := zone + ":" + Port(now)
	block := []string{key + " {", "    errors", "    cache 5", "    forward . " + address, "}"}
	probe, _ := Parse(c.Corefile, map[string]string{file: key + " {\n}"})
	if b := Serving(probe, zone); b == nil || !slices.Contains(b.Zones, normal(zone)) {
		return []string{Append(context, own, block...)}
	}
	var fix []string
	if !c.Custom {
		fix = append(fix, output.Kubectl(context, "--namespace", namespace, "create", "configmap", custom))
	}
	patch, _ := json.Marshal(map[string]any{"data": map[string]string{file: strings.Join(block, "\n") + "\n"}})
	return append(fix, output.Kubectl(context, "--namespace", namespace, "patch", "configmap", custom, "--type", "merge", "--patch", string(patch)))
}

// Redirect returns the command that gives the directive `forward` of a name another address. If the
// addresses are not one text in the line of the directive, it returns "" and the command that opens the
// ConfigMap in an editor.
func (c Config) Redirect(context, name, address string) (fix, edit string) {
	blocks, _ := c.Parse()
	p, ok := forwarding(Serving(blocks, name), name)
	text, file, holder := c.Corefile, key, own
	if p.File != "" {
		text, file = c.Files[p.File], p.File
		if c.Custom {
			holder = custom
		}
	}
	at := []string{"--namespace", namespace}
	edit = output.Kubectl(context, append(at, "edit", "configmap", holder)...)
	if !ok {
		return "", edit
	}
	lines, to := strings.Split(text, "\n"), strings.Join(p.Args[1:], " ")
	if p.Line < 1 || p.Line > len(lines) || strings.Count(lines[p.Line-1], to) != 1 {
		return "", edit
	}
	// The number of the line, because other lines can have the same address.
	replace := fmt.Sprintf("%ds/%s/%s/", p.Line, pattern.Replace(to), address)
	return output.Kubectl(context, append(at, "get", "configmap", holder, "-o", "jsonpath={.data."+strings.ReplaceAll(file, ".", `\.`)+"}")...) + " >Corefile.old && " +
		output.Command("sed", replace, "Corefile.old") + " >Corefile.new && " + store(context, holder, file), edit
}

// pattern escapes a text for the left side of the command s of sed(1), with slashes.
var pattern = strings.NewReplacer(`\`, `\\`, "/", `\/`, ".", `\.`, "*", `\*`, "[", `\[`, "]", `\]`, "^", `\^`, "$", `\$`)

// Append returns the command that adds lines to the Corefile of a ConfigMap of kube-system. Nothing is
// written if the Corefile cannot be read, and other keys of the ConfigMap stay.
func Append(context, configMap string, lines ...string) string {
	return output.Kubectl(context, "--namespace", namespace, "get", "configmap", configMap, "-o", "jsonpath={.data."+key+"}") + " >Corefile.new && " +
		output.Command(append([]string{"printf", `%s\n`, ""}, lines...)...) + " >>Corefile.new && " + store(context, configMap, key)
}

// store writes the file Corefile.new to a key of a ConfigMap.
func store(context, configMap, file string) string {
	return output.Kubectl(context, "--namespace", namespace, "create", "configmap", configMap, "--from-file", file+"=Corefile.new", "--dry-run=client", "-o", "yaml") + " | " +
		output.Kubectl(context, "apply", "--server-side", "--force-conflicts", "-f", "-")
}
