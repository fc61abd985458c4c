// Command mutants makes small wrong versions of the product, one at a time, and plays the stories and the first histories of test/simulation with
// each: the judges are worth what they find.
//
//	go run ./test/simulation/mutants [-n 150] [-seed 1] [-of controller/merge]
//
// A mutant is one change at one place: a condition that is the opposite, or never true; one half of an "and" or an "or"; a case that never applies; a
// time of zero; a call that is not made. The places follow from the seed. Each mutant has a line, with the story or the promise that found it. Some
// cannot be found: those that make nothing wrong, only slower, and those about what no story has.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutated are the folders of what decides. The rest is what a simulated network takes the place of, or text for people.
var mutated = []string{
	"controller/merge", "controller/desired", "controller/diff", "controller/apply", "controller/observed", "controller/conditions", "controller/plan",
	"controller/preference", "controller/datapath", "controller/reconcile", "controller/peers", "internal/ownership", "internal/reflector", "plugin/watch",
}

func main() {
	count := flag.Int("n", 150, "how many mutants")
	seed := flag.Uint64("seed", 1, "where they are")
	of := flag.String("of", "", "only in files whose path contains this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *count, *seed, *of); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, count int, seed uint64, of string) error {
	all, err := places(of)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b mutant) int { return strings.Compare(a.String(), b.String()) })
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tried, found := 0, 0
	for _, m := range all {
		if tried == count || ctx.Err() != nil {
			break
		}
		by, builds, err := m.try(ctx, dir)
		if err != nil {
			return err
		}
		if !builds {
			continue // such as with a variable that is not used any more
		}
		tried++
		if by != "" {
			found++
		}
		fmt.Printf("%-8s %s\n", verdict(by), m)
		if by != "" {
			fmt.Printf("         by %s\n", by)
		}
	}
	fmt.Printf("\n%d of %d mutants are found, of %d places\n", found, tried, len(all))
	return ctx.Err()
}

func verdict(by string) string {
	if by == "" {
		return "NOT"
	}
	return "found"
}

// mutant is a text that takes the place of another one.
type mutant struct {
	file     string
	line     int
	from, to int // bytes of the file
	old, new string
}

// String is such as "controller/merge/merge.go:12: a && b -> a".
func (m mutant) String() string {
	short := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	return fmt.Sprintf("%s:%d: %s -> %s", m.file, m.line, short(m.old), short(m.new))
}

func places(of string) (all []mutant, err error) {
	for _, folder := range mutated {
		err = errors.Join(err, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || !strings.Contains(path, of) {
				return err
			}
			more, err := placesIn(path)
			all = append(all, more...)
			return err
		}))
	}
	return all, err
}

func placesIn(path string) (all []mutant, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, 0)
	if err != nil {
		return nil, err
	}
	at := func(n ast.Node) (from, to int) { return set.Position(n.Pos()).Offset, set.Position(n.End()).Offset }
	source := func(n ast.Node) string { from, to := at(n); return string(text[from:to]) }
	add := func(n ast.Node, with string) {
		from, to := at(n)
		all = append(all, mutant{path, set.Position(n.Pos()).Line, from, to, source(n), with})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if !aboutErrors(source(n.Cond)) {
				add(n.Cond, "!("+source(n.Cond)+")")
				add(n.Cond, "("+source(n.Cond)+") && false")
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				add(n, source(n.X))
				add(n, source(n.Y))
			}
		case *ast.SwitchStmt:
			for _, condition := range conditions(n) {
				if !aboutErrors(source(condition)) {
					add(condition, "("+source(condition)+") && false")
				}
			}
		case *ast.ValueSpec:
			for _, value := range slices.DeleteFunc(slices.Clone(n.Values), func(e ast.Expr) bool { return !duration.MatchString(source(e)) }) {
				add(value, "0*time.Second")
			}
		case *ast.ExprStmt:
			if !notMissed.MatchString(source(n)) {
				add(n, "{}")
			}
		}
		return true
	})
	return all, nil
}

// duration is a time in a constant. Locks, and texts for people, are not missed.
var (
	duration  = regexp.MustCompile(`^(\d+ \* )?time\.(Second|Minute|Hour|Millisecond)$`)
	notMissed = regexp.MustCompile(`Lock\(\)|\.Info\(|\.Error\(`)
)

// conditions are those of the cases of a switch without a value.
func conditions(s *ast.SwitchStmt) (all []ast.Expr) {
	if s.Tag != nil {
		return nil
	}
	for _, clause := range s.Body.List {
		all = append(all, clause.(*ast.CaseClause).List...)
	}
	return all
}

// aboutErrors reports whether a condition is about an error of the network or of a program.
func aboutErrors(condition string) bool { return regexp.MustCompile(`\berr\b`).MatchString(condition) }

// try builds the tests with the mutant and runs them. by is what found it, or "".
func (m mutant) try(ctx context.Context, dir string) (by string, builds bool, err error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", false, err
	}
	wrong, overlay, program := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "simulation.test")
	whole, err := filepath.Abs(m.file)
	if err != nil {
		return "", false, err
	}
	places, err := json.Marshal(map[string]map[string]string{"Replace": {whole: wrong}})
	if err != nil {
		return "", false, err
	}
	mutated := string(text[:m.from]) + m.new + string(text[m.to:])
	if err := errors.Join(os.WriteFile(wrong, []byte(mutated), 0o600), os.WriteFile(overlay, places, 0o600)); err != nil {
		return "", false, err
	}
	build := exec.CommandContext(ctx, "go", "test", "-overlay="+overlay, "-vet=off", "-ldflags=-w", "-c", "-o", program, "./test/simulation")
	if build.Run() != nil {
		return "", false, ctx.Err()
	}
	for _, tests := range []string{"^TestStories$", "^TestHistories$"} {
		limited, cancel := context.WithTimeout(ctx, 3*time.Minute) // a controller that writes without a pause ends no story
		play := exec.CommandContext(limited, program, "-test.failfast", "-test.run="+tests, "-enough", "1")
		play.Dir = "test/simulation"
		out, err := play.CombinedOutput()
		cancel()
		if ctx.Err() != nil {
			return "", true, ctx.Err()
		}
		if err != nil {
			return finder(string(out)), true, nil
		}
	}
	return "", true, nil
}

var (
	story   = regexp.MustCompile(`--- FAIL: TestStories/(\S+)`)
	promise = regexp.MustCompile(`seed (\d+): line \d+, .*?: (\w+): `)
)

// finder is the story or the seed, and the promise that it breaks.
func finder(out string) string {
	if found := story.FindStringSubmatch(out); found != nil {
		return "the story " + found[1]
	}
	if found := promise.FindStringSubmatch(out); found != nil {
		return fmt.Sprintf("the history of seed %s, which breaks %q", found[1], found[2])
	}
	if strings.Contains(out, "panic:") {
		return "a panic of the tests"
	}
	return "no end within three minutes"
}
