package corefile

import "strings"

// NodeLocal is the ConfigMap of kube-system with the Corefile of NodeLocal DNSCache.
const NodeLocal = "node-local-dns"

// Stanza returns the command that gives the Corefile of NodeLocal DNSCache a server block for a zone. The
// block is that of corefile-examples/nodelocal.Corefile. It binds the addresses of the block for the
// cluster's own domain, and forwards to the same server. It returns "" if that block forwards nothing.
// Context is the context of the cluster.
func Stanza(context string, blocks []Block, zone, domain string) string {
	b := Serving(blocks, domain)
	to, ok := forwarding(b, domain)
	if !ok {
		return ""
	}
	block := []string{zone + ":" + Port(blocks) + " {", "    errors", "    cache {", "        success 9984 30", "        denial 9984 5", "    }", "    reload", "    loop"}
	block = append(block, copied(b, "bind")...)
	block = append(block, "    forward . "+strings.Join(to.Args[1:], " ")+" {", "        force_tcp", "    }")
	block = append(block, copied(b, "prometheus")...)
	return Append(context, NodeLocal, append(block, "}")...)
}

// copied is the line of a directive, if the server block has it.
func copied(b *Block, name string) []string {
	p, ok := b.Plugin(name)
	if !ok {
		return nil
	}
	return []string{"    " + strings.Join(append([]string{name}, p.Args...), " ")}
}
