package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	target      = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):(?:.*## (.*))?`)
	makeCommand = regexp.MustCompile(`(?:^|&& )make(?: -s)? ([a-z][a-z0-9-]*)`)
	folderOf    = regexp.MustCompile(`kubectl.*? (?:-k|kustomize) ([a-z][a-z/-]*)`)
	runOf       = regexp.MustCompile(`go run (\./[a-z0-9/]+)`)
	valueOf     = regexp.MustCompile(`--set ([a-zA-Z.]+)=`)
	pluginFlag  = regexp.MustCompile(` --([a-z-]+)`)
	program     = regexp.MustCompile(`^(make|kubectl|helm|deploy/|go |git |skopeo |for |export |ctr |docker |dig |kind )`)
	placeholder = regexp.MustCompile(`<[a-z' -]+>`)
	inline      = regexp.MustCompile("`([^`\n]+)`")
)

// TestCommands checks the commands of the documents: make has the target, kubectl multicluster the
// flag, the chart the value, and the repository the folder. Bash accepts their syntax. Those of docs/install.md and of
// docs/operations are also executed, by test/e2e and deploy/charts.
func TestCommands(t *testing.T) {
	targets, values := makeTargets(t), chartValues(t)
	plugin := pluginSource(t)
	checks := []struct {
		what    string
		pattern *regexp.Regexp
		of      string // the command begins so
		exists  func(string) bool
	}{
		{"target of make", makeCommand, "", func(name string) bool { return targets[name] != nil }},
		{"base", folderOf, "kubectl", func(path string) bool { return isFile(path, "kustomization.yaml") }},
		{"Go program", runOf, "", func(path string) bool { return isFile(path, "main.go") }},
		{"value of the chart", valueOf, "helm", func(path string) bool { return hasValue(values, strings.Split(path, ".")) }},
		{"flag of the plugin", pluginFlag, "kubectl multicluster", func(flag string) bool { return ofKubectl[flag] || strings.Contains(plugin, strconv.Quote(flag)) }},
	}
	found := map[string]int{}
	for document, command := range allCommands(t) {
		for _, check := range checks {
			if !strings.HasPrefix(command, check.of) {
				continue
			}
			for _, match := range check.pattern.FindAllStringSubmatch(command, -1) {
				found[check.what]++
				if !check.exists(match[1]) {
					t.Errorf("%s: no %s %s, in: %s", document, check.what, match[1], command)
				}
			}
		}
	}
	for _, check := range checks {
		if found[check.what] < 3 {
			t.Errorf("the documents have %d times a %s: they were not read", found[check.what], check.what)
		}
	}
}

// TestRunbookCommands: a command of docs/operations/alerts.md is complete, and works as written: it prints no
// credentials, reads the logs of all pods, also of containers that ended, and needs no program that pods do not have.
func TestRunbookCommands(t *testing.T) {
	verify := regexp.MustCompile(`^kubectl multicluster verify [a-z0-9-]+ [a-z0-9-]+$`)
	commands, logs, previous := 0, 0, 0
	for document, command := range allCommands(t) {
		if !strings.HasSuffix(document, "docs/operations/alerts.md") {
			continue
		}
		commands++
		switch {
		case strings.HasPrefix(command, "dig "):
			t.Errorf("the images of Pods have no dig: %s", command)
		case strings.Contains(command, " get secret") && !strings.Contains(command, " -o custom-columns="):
			t.Errorf("the command prints credentials: %s", command)
		case strings.Contains(command, "multicluster verify") && !verify.MatchString(command):
			t.Errorf("verify needs two contexts: %s", command)
		case strings.HasPrefix(command, "kubectl logs "):
			logs++
			if strings.HasSuffix(command, " --previous") {
				previous++
			}
			if !strings.Contains(command, " -l app.kubernetes.io/name=") || !strings.Contains(command, " --prefix") {
				t.Errorf("the command reads the log of one Pod: %s", command)
			}
		}
	}
	if commands < 10 || logs == 0 || previous == 0 {
		t.Errorf("there are %d commands, %d of logs, %d of them of containers that ended", commands, logs, previous)
	}
}

// ofKubectl are flags that the plugin has from cli-runtime.
var ofKubectl = map[string]bool{"context": true, "kubeconfig": true, "help": true}

// pluginSource returns the source of the commands of the plugin, which is in another module.
func pluginSource(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "cli/command/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestCommandBlocksAreBash checks each block of commands for errors of syntax.
func TestCommandBlocksAreBash(t *testing.T) {
	blocks := 0
	for file, text := range documents(t) {
		for _, block := range codeBlocks(text) {
			if !program.MatchString(block) {
				continue
			}
			blocks++
			check := exec.Command("bash", "-n")
			check.Stdin = strings.NewReader(placeholder.ReplaceAllString(block, "X"))
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s\n%s", file, err, out, block)
			}
		}
	}
	if blocks < 20 {
		t.Errorf("found %d blocks of commands: the documents were not read", blocks)
	}
}

// allCommands yields each line of a code block, and each inline code, with its document.
func allCommands(t *testing.T) func(yield func(string, string) bool) {
	t.Helper()
	return func(yield func(string, string) bool) {
		for file, text := range documents(t) {
			var lines []string
			for _, block := range codeBlocks(text) {
				lines = append(lines, strings.Split(block, "\n")...)
			}
			for _, code := range inline.FindAllStringSubmatch(text, -1) {
				lines = append(lines, code[1])
			}
			for _, line := range lines {
				if line = strings.TrimSpace(line); program.MatchString(line) && !yield(file, line) {
					return
				}
			}
		}
	}
}

// codeBlocks returns the indented blocks of a document, without their indentation.
func codeBlocks(text string) (blocks []string) {
	var block []string
	for line := range strings.Lines(text + "\nend\n") {
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case indented:
			block = append(block, strings.TrimPrefix(code, "   "))
		case strings.TrimSpace(line) == "" && block != nil:
			block = append(block, line)
		case block != nil:
			blocks = append(blocks, strings.TrimSpace(strings.Join(block, "")))
			block = nil
		}
	}
	return blocks
}

// makeTargets returns the matches of target by name.
func makeTargets(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, match := range target.FindAllStringSubmatch(string(readFile(t, "Makefile")), -1) {
		all[match[1]] = match
	}
	return all
}

func chartValues(t *testing.T) (values map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal(readFile(t, "deploy/charts/multicluster/values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// hasValue reports whether the values have something at the path.
func hasValue(values any, path []string) bool {
	all, _ := values.(map[string]any)
	value, found := all[path[0]]
	return found && (len(path) == 1 || hasValue(value, path[1:]))
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func isFile(path ...string) bool {
	info, err := os.Stat(filepath.Join(slices.Concat([]string{root}, path)...))
	return err == nil && info.Mode().IsRegular()
}
