package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/clusterset-dns/multicluster/cli/explain"
	"github.com/clusterset-dns/multicluster/cli/explain/chain"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// base are the recorded facts of a name that works. Those of a fault are what differs from them, as a merge patch (RFC 7396).
const base = "whole"

// recording is the form of facts in testdata/explain: elements of a list have a name, so that a patch has only those that differ.
type recording struct {
	chain.Facts
	Servers map[string]chain.Server
	Others  map[string]chain.Cluster
}

// record returns facts without what differs by chance, as JSON. NAMESPACE stands for the namespace.
func record(t *testing.T, facts *chain.Facts, namespace string) string {
	t.Helper()
	r := recording{Facts: *facts, Servers: map[string]chain.Server{}, Others: map[string]chain.Cluster{}}
	for _, s := range facts.DNS.Servers.Value {
		r.Servers[s.Pod] = s
	}
	r.DNS.Servers.Value = nil
	r.DNS.Extra = maps.Clone(facts.DNS.Extra)
	delete(r.DNS.Extra, "Corefile") // DNS.Corefile
	r.DNS.Second.Value = slices.Clone(facts.DNS.Second.Value)
	for i, s := range r.DNS.Second.Value {
		r.DNS.Second.Value[i].Corefile = comment.ReplaceAllString(s.Corefile, "")
	}
	r.Here = short(facts.Here)
	for _, c := range facts.Others {
		r.Others[c.Context] = short(c)
	}
	var tree any
	text := encoded(t, r)
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return withoutChance(encoded(t, prune(tree)), namespace, facts.Here.Now)
}

var comment = regexp.MustCompile(`(?m)^ *#.*\n`)

func encoded(t *testing.T, value any) string {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// short leaves out of a cluster what the chain is not made of.
func short(c chain.Cluster) chain.Cluster {
	if of := c.Controller.Value; of != nil {
		c.Controller.Value = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: of.Spec.Replicas}}
		for _, container := range of.Spec.Template.Spec.Containers {
			pod := &c.Controller.Value.Spec.Template.Spec
			pod.Containers = append(pod.Containers, corev1.Container{Name: container.Name, Args: container.Args})
		}
	}
	if of := c.Namespace.Value; of != nil {
		c.Namespace.Value = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: of.Name, Labels: of.Labels}}
	}
	return c
}

// byChance are fields that say nothing about the chain.
var byChance = []string{
	"managedFields", "resourceVersion", "generation", "observedGeneration", "creationTimestamp", "lastTransitionTime", "uid", "TTL",
	mcs.AnnotationExports, // with the times of exports
}

// prune removes fields without a value, and those by chance.
func prune(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = prune(inner)
			// Zero values of our own types. In objects of the API, they can mean something else than nothing.
			zero := unicode.IsUpper(rune(key[0])) && (inner == "" || inner == false || inner == 0.0 || inner == "0001-01-01T00:00:00Z")
			if v[key] == nil || zero || slices.Contains(byChance, key) {
				delete(v, key)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	}
	return value
}

// now stands for the time of the reads, and for what happened in the same test.
var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// sameTest is longer than a test takes, and shorter than what is old in one, such as an expired token.
const sameTest = 30 * time.Minute

// chances are texts that differ from run to run, each with what its first, second and further values become.
var chances = []struct {
	text *regexp.Regexp
	form string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "uid-%d"},
	{regexp.MustCompile(`-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----`), "authority %d"},
	{somePort, "127.0.0.1:4000%d"},
	{someIP, "10.0.0.10%d"},
	{someRest, "refused: %[1]d"},
}

// withoutChance replaces what differs from run to run: equal texts stay equal, and others stay different.
func withoutChance(text, namespace string, at time.Time) string {
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`).ReplaceAllStringFunc(text, func(found string) string {
		parsed, err := time.Parse(time.RFC3339Nano, found)
		if err != nil {
			return found
		}
		switch ago := at.Sub(parsed); {
		case ago > sameTest:
			return now.AddDate(-1, 0, 0).Format(time.RFC3339)
		case ago < -sameTest:
			return now.AddDate(1, 0, 0).Format(time.RFC3339)
		}
		return now.Format(time.RFC3339)
	})
	for _, c := range chances {
		var seen []string
		text = c.text.ReplaceAllStringFunc(text, func(found string) string {
			if slices.Contains(fixedIPs, found) {
				return found
			}
			if !slices.Contains(seen, found) {
				seen = append(seen, found)
			}
			return fmt.Sprintf(c.form, slices.Index(seen, found)+1)
		})
	}
	return strings.ReplaceAll(text, namespace, "NAMESPACE")
}

// replay returns recorded facts, as if they had just been read.
func replay(t *testing.T, name string) *chain.Facts {
	t.Helper()
	var r recording
	decoder := json.NewDecoder(strings.NewReader(strings.ReplaceAll(recorded(t, name), "NAMESPACE", name)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, pod := range slices.Sorted(maps.Keys(r.Servers)) {
		r.DNS.Servers.Value = append(r.DNS.Servers.Value, r.Servers[pod])
	}
	for _, context := range slices.Sorted(maps.Keys(r.Others)) {
		r.Facts.Others = append(r.Facts.Others, r.Others[context])
	}
	return &r.Facts
}

// recorded reads recorded facts as JSON.
func recorded(t *testing.T, name string) string {
	t.Helper()
	read := func(name string) []byte {
		text, err := yaml.YAMLToJSON([]byte(expected(t, name+".yaml")))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return text
	}
	whole := read(base)
	if name != base {
		var err error
		if whole, err = jsonpatch.MergePatch(whole, read(name)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return string(whole)
}

// differences returns what other facts have that these do not, as a merge patch in YAML, or "".
func differences(t *testing.T, from, to string) string {
	t.Helper()
	patch, err := jsonpatch.CreateMergePatch([]byte(from), []byte(to))
	if err != nil {
		t.Fatal(err)
	}
	if string(patch) == "{}" {
		return ""
	}
	if patch, err = yaml.JSONToYAML(patch); err != nil {
		t.Fatal(err)
	}
	return string(patch)
}

// writeRecorded records facts.
func writeRecorded(t *testing.T, name, facts string) {
	t.Helper()
	from := "{}"
	if name != base {
		from = recorded(t, base)
	}
	writeGolden(t, name+".yaml", differences(t, from, facts))
}

// printed is what people see of a report.
func printed(t *testing.T, report *chain.Report) string {
	t.Helper()
	var text bytes.Buffer
	if err := explain.Print(&text, output.NewPainter(&text), report); err != nil {
		t.Fatal(err)
	}
	return steady(text.String())
}

// TestRecordedFaults explains each fault from the facts of a real run: the one cause, its golden output, and the whole report for programs.
func TestRecordedFaults(t *testing.T) {
	for _, f := range append([]fault{{name: base}}, faults...) {
		t.Run(f.name, func(t *testing.T) {
			report := chain.Walk(replay(t, f.name))
			text := printed(t, report)
			if !f.is(report) {
				t.Errorf("want the cause %q, or beside a whole chain %q:\n%s", f.want, f.also, text)
			}
			if want := expected(t, f.name+".txt"); text != want {
				t.Errorf("%s.txt differs:\n%s\nwant:\n%s", f.name, text, want)
			}
			programs := new(chain.Report)
			if err := json.Unmarshal([]byte(encoded(t, report)), programs); err != nil || printed(t, programs) != text {
				t.Errorf("for programs, the report is %+v: %v", programs, err)
			}
		})
	}
	files, err := filepath.Glob(filepath.Join("testdata", "explain", "*.yaml"))
	if err != nil || len(files) != len(faults)+1 {
		t.Errorf("%d faults are recorded, want %d and %s: %v", len(files)-1, len(faults), base, err)
	}
}

// writeGolden writes a file of the folder testdata.
func writeGolden(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("testdata", "explain", name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
