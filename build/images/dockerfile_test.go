package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// dockerfile is what the two stages of a Dockerfile say: instruction by instruction, each with its arguments.
type dockerfile struct {
	build, final map[string][]string
}

func readDockerfile(t *testing.T, path string) dockerfile {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file := dockerfile{build: map[string][]string{}, final: map[string][]string{}}
	stage := file.build
	joined := strings.ReplaceAll(regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(text), ""), "\\\n", " ")
	for line := range strings.Lines(joined) {
		instruction, arguments, _ := strings.Cut(strings.Join(strings.Fields(line), " "), " ")
		if instruction == "FROM" && stage["FROM"] != nil {
			stage = file.final
		}
		if instruction != "" {
			stage[instruction] = append(stage[instruction], arguments)
		}
	}
	return file
}

var dockerfiles = map[string]string{"coredns": "../coredns.Dockerfile", "multicluster-controller": "../controller.Dockerfile"}

// TestDockerfileImage compares what images are made of here and by Docker.
func TestDockerfileImage(t *testing.T) {
	for _, p := range programs("$COREDNS_VERSION") {
		file := readDockerfile(t, dockerfiles[p.name])
		entrypoint, err := json.Marshal([]string{"/" + p.binary})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]string{
			"FROM":       {"scratch"},
			"ARG":        {"VERSION REVISION CREATED"},
			"COPY":       {"--from=build /out/" + p.binary + " /" + p.binary, "build/images/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt"},
			"USER":       {user},
			"WORKDIR":    {"/"},
			"ENTRYPOINT": {string(entrypoint)},
			"LABEL":      file.final["LABEL"],
		}
		if p.ports != nil {
			want["EXPOSE"] = []string{strings.Join(p.ports, " ")}
		}
		if diff := cmp.Diff(want, file.final); diff != "" {
			t.Errorf("%s: -want +got\n%s", p.name, diff)
		}
		labels := map[string]string{}
		for _, label := range regexp.MustCompile(`(\S+?)=("[^"]*"|\S+)`).FindAllStringSubmatch(strings.Join(file.final["LABEL"], " "), -1) {
			labels[label[1]] = strings.Trim(label[2], `"`)
		}
		if diff := cmp.Diff(p.labels("$VERSION", "$REVISION", "$CREATED"), labels); diff != "" {
			t.Errorf("%s: labels, -want +got\n%s", p.name, diff)
		}
	}
}

// TestDockerfileBuild checks that Docker's program comes from the same script, for the platform asked for, and has the same capability.
func TestDockerfileBuild(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var releases []string
	for _, p := range programs("$COREDNS_VERSION") {
		build := readDockerfile(t, dockerfiles[p.name]).build
		want := "GOOS=$TARGETOS GOARCH=$TARGETARCH VERSION=$VERSION " + strings.Join(p.script, " ") + " /out/" + p.binary
		if p.capability != "" {
			want += " && setcap " + p.capability + " /out/" + p.binary
		}
		if !slices.Contains(build["RUN"], want) {
			t.Errorf("%s: want RUN %s; have\n%s", p.name, want, strings.Join(build["RUN"], "\n"))
		}
		releases = append(releases, build["FROM"]...)
		if _, release, ok := strings.Cut(build["ARG"][0], "COREDNS_VERSION="); ok && !strings.Contains(string(makefile), "COREDNS_VERSION ?= "+release+"\n") {
			t.Errorf("%s: CoreDNS %s is not that of the Makefile", p.name, release)
		}
	}
	// make images reads the release of Go from the one; the other has to follow.
	if !regexp.MustCompile(`^--platform=\$BUILDPLATFORM golang:\d+\.\d+\.\d+ AS build$`).MatchString(releases[0]) || releases[0] != releases[1] {
		t.Errorf("the programs are built from %q, want one release of Go, exactly, on the machine's own platform", releases)
	}
}
