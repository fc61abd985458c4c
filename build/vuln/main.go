// Command vuln looks for known vulnerabilities in this project's modules and programs, with
// govulncheck. `make vuln` runs it.
//
//	go run ./build/vuln -program bin/govulncheck-v1.8.0 . deploy/charts bin/coredns
//
// Each argument is the folder of a module, or a program: CoreDNS contains far more modules than
// this project names. A vulnerability that the code can reach, or that is in a program, is an
// error. The database is https://vuln.go.dev, or the value of the environment variable GOVULNDB:
// https://..., or file:///... for a copy. If the database does not answer, the output is clearly
// different from "none found"; with -required it is an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	program := flag.String("program", "", "the path of govulncheck")
	required := flag.Bool("required", false, "fail where the database does not answer")
	flag.Parse()
	database := os.Getenv("GOVULNDB")
	if database == "" {
		database = "https://vuln.go.dev"
	}
	if err := check(context.Background(), os.Stdout, *program, strings.TrimSuffix(database, "/"), *required, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(1)
	}
}

var errNoDatabase = errors.New("the database of known vulnerabilities does not answer")

func check(ctx context.Context, out io.Writer, program, database string, required bool, targets []string) error {
	if len(targets) == 0 {
		return errors.New("nothing to check: name folders of modules, or programs")
	}
	if err := reach(ctx, database); err != nil {
		err = fmt.Errorf("%w: %s: %w", errNoDatabase, database, err)
		if required {
			return err
		}
		bar := strings.Repeat("!", 100)
		_, _ = fmt.Fprintf(out, "%s\nNOT CHECKED for known vulnerabilities: %v\nGOVULNDB can name a copy of it.\n%[1]s\n", bar, err)
		return nil
	}
	var failed []error
	for _, target := range targets {
		_, _ = fmt.Fprintf(out, "%s, by %s:\n", target, database)
		if err := scan(ctx, out, program, database, target); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", target, err))
		}
	}
	return errors.Join(failed...)
}

// patience is for a database that is reached at all.
const patience = 30 * time.Second

// reach asks for the database's first file, which govulncheck wants compressed where it comes over a network.
func reach(ctx context.Context, database string) error {
	const first = "/index/db.json"
	if path, ok := strings.CutPrefix(database, "file://"); ok {
		_, err := os.Stat(filepath.FromSlash(path + first)) //nolint:gosec // who runs this says where the database is
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, database+first+".gz", nil) //nolint:gosec // likewise
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request) //nolint:gosec // likewise
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) { // its text contains the address already
			err = failed.Err
		}
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// found is govulncheck's exit code where the code can reach a vulnerability.
const found = 3

func scan(ctx context.Context, out io.Writer, program, database, target string) error {
	info, err := os.Stat(target)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(program) // as the program starts in the module's folder
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, "-db", database) //nolint:gosec // the Makefile names it
	if info.IsDir() {
		cmd.Dir, cmd.Args = target, append(cmd.Args, "./...")
	} else {
		cmd.Args = append(cmd.Args, "-mode=binary", target)
	}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == found {
		return errors.New("it reaches known vulnerabilities: take a newer version of what is named above")
	}
	return err
}
