package join

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/deploy/peer"
	"github.com/clusterset-dns/multicluster/deploy/renew"
)

// placeholder stands for the token in manifests.
const placeholder = "REPLACE-BY-THE-TOKEN"

// Manifests are what a GitOps tool should apply in one cluster.
type Manifests struct {
	Context string     `json:"context"`
	ID      string     `json:"id"`
	Objects []Manifest `json:"objects"`
}

// Manifest is an object, and what to know about it.
type Manifest struct {
	Comment string                     `json:"comment,omitempty"`
	Object  *unstructured.Unstructured `json:"object"`
}

// Render returns the objects of links by cluster. It writes nothing. The report contains the links that
// have a problem, and the notes.
func Render(ctx context.Context, links []*Link, o Options) ([]Manifests, *Report, error) {
	works, notes, err := identify(ctx, links, o.Wait)
	if err != nil {
		return nil, nil, err
	}
	each(ctx, works, func(ctx context.Context, w *work) {
		w.again = w.command("join", append(o.kind(), "-o", "yaml")...)
		if err := w.reading(ctx, o); err != nil {
			w.fail(err)
		}
	})
	var sets []Manifests
	for _, m := range members(links) {
		if set := m.manifests(works); len(set.Objects) > 0 {
			sets = append(sets, set)
		}
	}
	return sets, report(works, notes), ctx.Err()
}

// manifests returns the objects of one cluster.
func (m *Member) manifests(works []*work) Manifests {
	set := Manifests{Context: m.Context, ID: m.id}
	var reading []Manifest
	var renews bool
	for _, w := range works {
		if w.manifest == nil {
			continue
		}
		if w.From == m {
			w.granting(&set)
		}
		if w.To == m {
			reading, renews = append(reading, *w.manifest), renews || w.life > 0
		}
	}
	if renews {
		set.add("The right of the controller to store renewed tokens.", renew.Objects()...)
	}
	set.Objects = append(set.Objects, reading...)
	return set
}

// add adds objects. The comment is about all of them.
func (s *Manifests) add(comment string, objects ...*unstructured.Unstructured) {
	for _, object := range objects {
		s.Objects = append(s.Objects, Manifest{comment, object})
		comment = ""
	}
}

// granting adds the objects of the granting side. The first link of a cluster brings those of all
// readers.
func (w *work) granting(set *Manifests) {
	if len(set.Objects) == 0 {
		set.add("The account that readers of this cluster share, and its rights.", peer.Objects()...)
	}
	// The ID was checked, so there is no error.
	if w.life > 0 {
		reader, _ := peer.Reader(w.To.id)
		set.add(fmt.Sprintf("The account of the reader %s. It can request the next token for itself.", w.To.id), reader...)
		return
	}
	secret, _ := peer.TokenSecret(w.To.id)
	set.add(fmt.Sprintf("kube-controller-manager fills in the token for the reader %s. Let the tool ignore the data of this Secret.", w.To.id), secret)
}

// reading makes the Secret of the reading side, with a placeholder for the token.
func (w *work) reading(ctx context.Context, o Options) error {
	stored, err := w.ready(ctx)
	if err == nil {
		err = w.notForeign(stored)
	}
	if err != nil {
		return err
	}
	p, err := w.place(stored)
	if err != nil {
		return err
	}
	w.notes, w.warnings = p.notes, p.warnings
	content, err := w.content(p.server, placeholder)
	if err != nil {
		return err
	}
	w.life = o.life(stored, w.To.id)
	object := w.secret(w.life > 0)
	data := map[string]any{}
	for key, text := range content {
		data[key] = text
	}
	object.Object["stringData"] = data
	w.manifest, w.result.Change = &Manifest{w.tokenComment(), object}, Unchanged
	return nil
}

// tokenComment describes where the token comes from.
func (w *work) tokenComment() string {
	name := peer.ReaderName(w.To.id)
	what, where := "Do not commit it in plain text.", output.Kubectl(w.From.Context, "get", "secret", "-n", peer.Namespace, name, "-o", "go-template={{.data.token | base64decode}}")
	if w.life > 0 {
		what = "The controller renews it in this Secret: let the tool ignore the data of it."
		where = output.Kubectl(w.From.Context, "create", "token", "-n", peer.Namespace, name, "--duration", w.life.Round(time.Second).String())
	}
	return fmt.Sprintf("Lets this cluster read %s. Replace %s by the token. %s\n%s", w.From.called(), placeholder, what, where)
}

// WriteYAML writes manifests as YAML, each cluster under a title.
func WriteYAML(out io.Writer, sets []Manifests) error {
	var b bytes.Buffer
	for _, set := range sets {
		fmt.Fprintf(&b, "# Cluster %s, context %s.\n", set.ID, output.Clean(set.Context))
		for _, one := range set.Objects {
			text, err := yaml.Marshal(one.Object)
			if err != nil {
				return fmt.Errorf("write %s: %w", describe(one.Object), err)
			}
			b.WriteString("---\n")
			for line := range strings.Lines(one.Comment) {
				b.WriteString("# " + output.Clean(strings.TrimSuffix(line, "\n")) + "\n")
			}
			b.Write(text)
		}
	}
	_, err := out.Write(b.Bytes())
	return err
}
