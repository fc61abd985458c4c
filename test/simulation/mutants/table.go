package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed *.txt
var tables embed.FS

// mutant is a wrong version of the product: the edits of some files, and a sentence that says what is wrong.
type mutant struct {
	part, name, says string
	why              string // nothing finds it; empty for those that something has to find
	edits            []edit
}

// edit is a text that takes the place of another one, which the file has once. Lines are compared without their indentation.
type edit struct {
	file     string
	old, new []string
}

// all reads the tables. A mutant is a line with its name and its sentence, and indented below it a file, lines that begin with "-" for the
// former text and with "+" for the new one, further ones of them, and perhaps a line with "why:".
func all() (mutants []*mutant, err error) {
	files, err := fs.Glob(tables, "*.txt")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := tables.ReadFile(file)
		if err != nil {
			return nil, err
		}
		some, err := parse(strings.TrimSuffix(file, ".txt"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		mutants = append(mutants, some...)
	}
	names := map[string]bool{}
	for _, m := range mutants {
		if names[m.name] {
			return nil, fmt.Errorf("two mutants have the name %s", m.name)
		}
		names[m.name] = true
	}
	return mutants, nil
}

func parse(part, text string) (all []*mutant, err error) {
	m, file := new(mutant), ""
	for number, line := range strings.Split(text, "\n") {
		content := strings.TrimSpace(line)
		switch {
		case content == "" || strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, " "):
			name, says, found := strings.Cut(line, ": ")
			if !found || strings.Contains(name, " ") {
				return nil, fmt.Errorf("line %d: want a name, a colon and a sentence", number+1)
			}
			m = &mutant{part: part, name: name, says: says}
			all, file = append(all, m), ""
		case content[0] == '-' || content[0] == '+':
			if file == "" {
				return nil, fmt.Errorf("line %d: %s has no file", number+1, m.name)
			}
			m.note(file, content[0] == '-', strings.TrimSpace(content[1:]))
		case strings.HasPrefix(content, "why: "):
			m.why = strings.TrimPrefix(content, "why: ")
		default:
			file = content
		}
	}
	return all, nil
}

// note adds a line to the last edit, or begins the next one.
func (m *mutant) note(file string, old bool, text string) {
	at := len(m.edits) - 1
	if at < 0 || m.edits[at].file != file || old && m.edits[at].new != nil {
		m.edits = append(m.edits, edit{file: file})
		at++
	}
	if old {
		m.edits[at].old = append(m.edits[at].old, text)
	} else {
		m.edits[at].new = append(m.edits[at].new, text)
	}
}

// files returns the wrong content of each file, below the root of the repository.
func (m *mutant) files(root string) (map[string]string, error) {
	wrong := map[string]string{}
	if len(m.edits) == 0 {
		return nil, fmt.Errorf("%s edits nothing", m.name)
	}
	for _, e := range m.edits {
		text, edited := wrong[e.file]
		if !edited {
			bytes, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
			text = string(bytes)
		}
		after, err := e.apply(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", m.name, e.file, err)
		}
		wrong[e.file] = after
	}
	return wrong, nil
}

func (e edit) apply(text string) (string, error) {
	if len(e.old) == 0 || e.new == nil {
		return "", errors.New(`want lines with "-" and then with "+"`)
	}
	var lines []string
	for _, line := range e.old {
		lines = append(lines, regexp.QuoteMeta(line))
	}
	found := regexp.MustCompile(strings.Join(lines, `\s*\n\s*`)).FindAllStringIndex(text, -1)
	if len(found) != 1 {
		return "", fmt.Errorf("it has this text %d times, want once:\n%s", len(found), strings.Join(e.old, "\n"))
	}
	return text[:found[0][0]] + strings.Join(e.new, "\n") + text[found[0][1]:], nil
}
