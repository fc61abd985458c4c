// Package corefile reads Corefiles, as far as it matters for names of the clusterset: which server block
// answers a zone, and what it does with it. It opens no files: what `import` names comes from the caller.
package corefile

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/coredns/caddy/caddyfile"
)

// Block is a server block.
type Block struct {
	// Zones are in lower case, without a port and without a dot at the end. The root is "". Zones of DNS over
	// TLS, HTTPS and gRPC are left out.
	Zones   []string
	Plugins []Plugin

	ports []string // of the zones
}

// Plugin is a directive of a server block.
type Plugin struct {
	Name string
	Args []string
	// Options are the lines of its own block, split into words.
	Options [][]string
	// File is the imported file with the directive, or "" for the Corefile itself.
	File string
	// Line is the number of the directive's first line, from 1.
	Line int
}

// Option returns the words after the name of the first option with this name.
func (p Plugin) Option(name string) (args []string, found bool) {
	for _, line := range p.Options {
		if line[0] == name {
			return line[1:], true
		}
	}
	return nil, false
}

// Plugin returns the first directive with this name.
func (b *Block) Plugin(name string) (Plugin, bool) {
	for _, p := range b.Plugins {
		if p.Name == name {
			return p, true
		}
	}
	return Plugin{}, false
}

const (
	maxDepth      = 8     // of blocks and of imports
	maxStatements = 10000 // that imports can multiply
)

// Parse reads a Corefile. The files are those that `import` can name, by their base name, such as the
// keys of the ConfigMap coredns-custom. An import that matches none adds nothing, as for CoreDNS.
func Parse(text string, files map[string]string) ([]Block, error) {
	r := reader{files: files, snippets: map[string][]statement{}}
	all, err := statements("", text)
	if err == nil {
		all, err = r.expand(all, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("read the Corefile: %w", err)
	}
	var blocks []Block
	for _, s := range all {
		b := Block{}
		b.Zones, b.ports = zones(s.words)
		inside, err := r.expand(s.block, 0)
		if err != nil {
			return nil, fmt.Errorf("read the Corefile: %w", err)
		}
		for _, of := range inside {
			p := Plugin{Name: of.words[0], Args: of.words[1:], File: of.file, Line: of.line}
			for _, line := range of.block {
				p.Options = append(p.Options, line.words)
			}
			b.Plugins = append(b.Plugins, p)
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// statement is the words of a line, and the block that it opens.
type statement struct {
	words []string
	block []statement
	file  string
	line  int
}

type token struct {
	text, file string
	line       int
}

var errBraces = errors.New("a { or a } is missing")

func statements(file, text string) ([]statement, error) {
	dispenser := caddyfile.NewDispenser("Corefile", strings.NewReader(text))
	var all []token
	for dispenser.Next() {
		all = append(all, token{dispenser.Val(), file, dispenser.Line()})
	}
	found, rest, err := read(all, 0)
	if err == nil && len(rest) > 0 {
		err = errBraces
	}
	return found, err
}

// read returns the statements up to the brace that closes them, and the tokens from that brace on.
func read(all []token, depth int) (found []statement, rest []token, err error) {
	if depth > maxDepth {
		return nil, nil, errors.New("blocks are nested too deeply")
	}
	for len(all) > 0 && all[0].text != "}" {
		s := statement{file: all[0].file, line: all[0].line}
		line := s.line
		for len(all) > 0 && all[0].text != "}" && all[0].text != "{" && all[0].line == line {
			s.words = append(s.words, strings.TrimSuffix(all[0].text, ","))
			if strings.HasSuffix(all[0].text, ",") && len(all) > 1 {
				line = all[1].line // The keys of a server block can continue in the next line.
			}
			all = all[1:]
		}
		if len(s.words) == 0 {
			return nil, nil, errBraces
		}
		if len(all) > 0 && all[0].text == "{" {
			if s.block, all, err = read(all[1:], depth+1); err != nil {
				return nil, nil, err
			}
			if len(all) == 0 {
				return nil, nil, errBraces
			}
			all = all[1:]
		}
		found = append(found, s)
	}
	return found, all, nil
}

type reader struct {
	files    map[string]string
	snippets map[string][]statement
	seen     int
}

// expand replaces imports by what they name, and keeps snippets for later.
func (r *reader) expand(all []statement, depth int) ([]statement, error) {
	if depth > maxDepth {
		return nil, errors.New("imports are nested too deeply")
	}
	var found []statement
	for _, s := range all {
		if r.seen++; r.seen > maxStatements {
			return nil, errors.New("it is too long")
		}
		first := s.words[0]
		switch {
		case strings.HasPrefix(first, "(") && strings.HasSuffix(first, ")"):
			r.snippets[strings.Trim(first, "()")] = s.block
		case first == "import" && len(s.words) > 1:
			named, err := r.named(s.words[1])
			if err == nil {
				named, err = r.expand(named, depth+1)
			}
			if err != nil {
				return nil, err
			}
			found = append(found, named...)
		default:
			found = append(found, s)
		}
	}
	return found, nil
}

// named returns the snippet, or the files that match the pattern, in the order of their names.
func (r *reader) named(pattern string) ([]statement, error) {
	if snippet, ok := r.snippets[pattern]; ok {
		return snippet, nil
	}
	var names []string
	for name := range r.files {
		if ok, err := path.Match(path.Base(pattern), name); ok && err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var found []statement
	for _, name := range names {
		inside, err := statements(name, r.files[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		found = append(found, inside...)
	}
	return found, nil
}

// usualPort is that of a key without a port.
const usualPort = "53"

// zones are the keys of a server block, with their ports: "dns://clusterset.local.:53" is clusterset.local.
func zones(keys []string) (found, ports []string) {
	for _, key := range keys {
		if transport, after, ok := strings.Cut(key, "://"); ok {
			if transport != "dns" {
				continue
			}
			key = after
		}
		port := usualPort
		if at := strings.LastIndex(key, ":"); at >= 0 {
			key, port = key[:at], key[at+1:]
		}
		found, ports = append(found, normal(key)), append(ports, port)
	}
	return found, ports
}

// Port returns the port that pods ask: that of the root zone, else that of the first server block.
func Port(blocks []Block) string {
	port := ""
	for i := range blocks {
		for j, zone := range blocks[i].Zones {
			if zone == "" {
				return blocks[i].ports[j]
			}
			port = cmp.Or(port, blocks[i].ports[j])
		}
	}
	return cmp.Or(port, usualPort)
}

func normal(zone string) string { return strings.ToLower(strings.TrimSuffix(zone, ".")) }

// Within reports whether a name is in a zone.
func Within(name, zone string) bool {
	name, zone = normal(name), normal(zone)
	return zone == "" || name == zone || strings.HasSuffix(name, "."+zone)
}

// Serving returns the server block that answers a name on the port that pods ask: the one with the longest
// zone. It returns nil if there is none.
func Serving(blocks []Block, name string) *Block {
	var best *Block
	longest, port := -1, Port(blocks)
	for i := range blocks {
		for j, zone := range blocks[i].Zones {
			if blocks[i].ports[j] == port && Within(name, zone) && len(zone) > longest {
				best, longest = &blocks[i], len(zone)
			}
		}
	}
	return best
}
