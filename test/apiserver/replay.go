package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Replay makes the writes of a Recorder again in a kube-apiserver, one after the other, and returns how its answers differ from those of
// the Recorder, and in the end its objects. Then it removes all of them. No controllers may run: what they write is among the writes.
//
// What each of the two chooses itself is translated: UIDs, addresses and versions. Not compared are times, the encoding of a request, which is sent in
// JSON, who has emptied a status, which a Server does not tell from none, and in the end Events and what is in the namespaces that a Server has
// at its beginning.
func Replay(ctx context.Context, config *rest.Config, of *Recorder) (differences []string, err error) {
	over, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	p := &replay{host: config.Host, over: over, real: map[string]string{}, memory: map[string]string{}, versions: map[string]string{}, last: map[types.UID]string{}}
	for i, w := range of.Writes() {
		difference, err := p.write(ctx, w)
		if err != nil {
			return nil, fmt.Errorf("write %d, %s %s: %w", i, w.Method, w.Path, err)
		}
		if difference != "" {
			differences = append(differences, fmt.Sprintf("write %d, %s %s %s by %s %.2000s\n(-kube-apiserver +in memory):\n%s", i, w.Method, w.Path, w.ContentType, w.UserAgent, w.text(), difference))
		}
	}
	real, err := p.all(ctx)
	if err != nil {
		return nil, err
	}
	if d := gocmp.Diff(p.described(real), p.described(of.Objects())); d != "" {
		differences = append(differences, "in the end (-kube-apiserver +in memory):\n"+d)
	}
	return differences, p.clear(ctx, real)
}

// replay is what is known of a kube-apiserver.
type replay struct {
	host     string
	over     *http.Client
	real     map[string]string    // what it has for UIDs and addresses in memory
	memory   map[string]string    // the other way round
	versions map[string]string    // what it has for versions in memory
	last     map[types.UID]string // the last version in memory
}

// assigned are the texts that each API server chooses itself.
var assigned = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b\d+\.\d+\.\d+\.\d+\b|\bfd00:[0-9a-f:]+`)

func translate(text string, by map[string]string) string {
	return assigned.ReplaceAllStringFunc(text, func(found string) string { return cmp.Or(by[found], found) })
}

// text is the body of a write in JSON.
func (w Write) text() []byte {
	if !strings.HasPrefix(w.ContentType, runtime.ContentTypeProtobuf) {
		return w.Body
	}
	object, _, err := codecs.UniversalDeserializer().Decode(w.Body, nil, nil)
	if err != nil { // the body is empty
		return nil
	}
	var text bytes.Buffer
	must(jsonMedia.Serializer.Encode(object, &text))
	return text.Bytes()
}

// version is a version of an object in JSON.
var version = regexp.MustCompile(`"resourceVersion": ?"(\d+)"`)

func (p *replay) write(ctx context.Context, w Write) (difference string, err error) {
	body := translate(string(w.text()), p.real)
	body = version.ReplaceAllStringFunc(body, func(found string) string {
		number := version.FindStringSubmatch(found)[1]
		return fmt.Sprintf(`"resourceVersion":%q`, cmp.Or(p.versions[number], number))
	})
	media := w.ContentType
	if strings.HasPrefix(media, runtime.ContentTypeProtobuf) {
		media = runtime.ContentTypeJSON
	}
	var code int
	var text []byte
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		var err error
		code, text, err = p.ask(ctx, w.Method, translate(w.Path, p.real), media, w.UserAgent, body)
		if err != nil || code != http.StatusForbidden || !bytes.Contains(text, []byte("because it is being terminated")) {
			return true, err
		}
		gone, err := p.hasGone(ctx, w.Path)
		return !gone, err
	})
	if err != nil {
		return "", err
	}
	if len(w.Answer) == 0 { // it is a controller's, and the object has gone
		if code != w.Code {
			difference = fmt.Sprintf("%d %s", code, text)
		}
		return difference, nil
	}
	real, _, err := codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	memory, _, err := codecs.UniversalDeserializer().Decode(w.Answer, nil, nil)
	if err != nil {
		return "", err
	}
	difference = p.compare(real, memory)
	if code != w.Code {
		difference = fmt.Sprintf("-%d\n+%d\n%s", code, w.Code, difference)
	}
	return difference, nil
}

// hasGone reports whether a kube-apiserver no longer has the namespace of a path. Its admission reads namespaces from a cache, and takes one that
// has just gone for one that is being terminated.
func (p *replay) hasGone(ctx context.Context, of string) (bool, error) {
	_, after, _ := strings.Cut(of, "/namespaces/")
	name, _, _ := strings.Cut(after, "/")
	code, _, err := p.ask(ctx, http.MethodGet, "/api/v1/namespaces/"+name, "", "", "")
	return code == http.StatusNotFound, err
}

// ask makes a request.
func (p *replay) ask(ctx context.Context, method, path, media, agent, body string) (code int, text []byte, err error) {
	q, err := http.NewRequestWithContext(ctx, method, p.host+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	q.Header.Set("Content-Type", media)
	q.Header.Set("Accept", runtime.ContentTypeJSON)
	q.Header.Set("User-Agent", agent)
	answer, err := p.over.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err = io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

// compare returns how two answers differ, and learns what both have chosen.
func (p *replay) compare(real, memory runtime.Object) string {
	a, isObject := real.(client.Object)
	b, both := memory.(client.Object)
	if !isObject || !both {
		return gocmp.Diff(translate(outcome(real), p.memory), outcome(memory))
	}
	news := [2]string{"a new version\n", "a new version\n"}
	if p.last[b.GetUID()] == b.GetResourceVersion() {
		news[1] = "the same version\n"
	}
	if p.versions[p.last[b.GetUID()]] == a.GetResourceVersion() {
		news[0] = "the same version\n"
	}
	p.learn(a, b)
	return gocmp.Diff(news[0]+p.back(a), news[1]+p.back(b))
}

// back is an object with what it would have in memory, and without versions, also of other objects.
func (p *replay) back(o client.Object) string {
	o.SetManagedFields(slices.DeleteFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.FieldsV1 != nil && string(e.FieldsV1.GetRawBytes()) == `{"f:status":{}}`
	}))
	return version.ReplaceAllString(translate(comparable(o), p.memory), `"resourceVersion":"VERSION"`)
}

func (p *replay) learn(real, memory client.Object) {
	pair := func(real, memory string) {
		if assigned.MatchString(memory) {
			p.real[memory], p.memory[real] = real, memory
		}
	}
	p.versions[memory.GetResourceVersion()], p.last[memory.GetUID()] = real.GetResourceVersion(), memory.GetResourceVersion()
	pair(string(real.GetUID()), string(memory.GetUID()))
	a, is := real.(*corev1.Service)
	b, both := memory.(*corev1.Service)
	for i := 0; is && both && i < min(len(a.Spec.ClusterIPs), len(b.Spec.ClusterIPs)); i++ {
		pair(a.Spec.ClusterIPs[i], b.Spec.ClusterIPs[i])
	}
}

// outcome is what an answer says that is no object, without the details of a success.
func outcome(o runtime.Object) string {
	s, is := o.(*metav1.Status)
	if !is {
		return fmt.Sprintf("%T", o)
	}
	if s.Status == metav1.StatusSuccess {
		return s.Status
	}
	return like(fmt.Sprintf("%d %s: %s %+v", s.Code, s.Reason, s.Message, causes(*s)))
}

// all are the objects of a kube-apiserver that were made there.
func (p *replay) all(ctx context.Context) (all []client.Object, err error) {
	for _, k := range kinds {
		_, text, err := p.ask(ctx, http.MethodGet, path.Join(groupPath(k.GroupVersion()), k.resource), "", "", "")
		if err != nil {
			return nil, err
		}
		list, _, err := codecs.UniversalDeserializer().Decode(text, nil, nil)
		if err != nil {
			return nil, err
		}
		err = meta.EachListItem(list, func(o runtime.Object) error {
			if object := o.(client.Object); !isOfBeginning(object) {
				all = append(all, object)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// isOfBeginning reports whether an object can be one that a cluster has at its beginning.
func isOfBeginning(o client.Object) bool {
	return slices.Contains([]string{"default", "kube-node-lease", "kube-public", "kube-system"}, cmp.Or(o.GetNamespace(), o.GetName()))
}

func (p *replay) described(all []client.Object) map[string]string {
	texts := map[string]string{}
	for _, o := range all {
		if gvk, _, _ := scheme.ObjectKinds(o); !isOfBeginning(o) && gvk[0].Kind != "Event" {
			o = o.DeepCopyObject().(client.Object)
			o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // items of lists have none
			texts[fmt.Sprintf("%T %s", o, client.ObjectKeyFromObject(o))] = p.back(o)
		}
	}
	return texts
}

// clear removes objects, with their finalizers, and then their namespaces.
func (p *replay) clear(ctx context.Context, all []client.Object) error {
	var failed error
	do := func(o client.Object, method, sub, media, body string) {
		gvk, _, err := scheme.ObjectKinds(o)
		must(err) // it is of a known kind
		k := kinds[slices.IndexFunc(kinds, func(k *kind) bool { return k.GroupVersionKind == gvk[0] })]
		code, text, err := p.ask(ctx, method, k.path(client.ObjectKeyFromObject(o))+sub, media, "tests", body)
		if err == nil && code >= 300 && code != http.StatusNotFound {
			err = fmt.Errorf("%s %s%s: %s", method, client.ObjectKeyFromObject(o), sub, text)
		}
		failed = errors.Join(failed, err)
	}
	slices.Reverse(all) // Namespaces are first
	for _, o := range all {
		do(o, http.MethodPatch, "", string(types.MergePatchType), `{"metadata": {"finalizers": null}}`)
		do(o, http.MethodDelete, "", runtime.ContentTypeJSON, "")
		if _, is := o.(*corev1.Namespace); is {
			do(o, http.MethodPut, "/finalize", runtime.ContentTypeJSON, fmt.Sprintf(`{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": %q}, "spec": {}}`, o.GetName()))
		}
	}
	return failed
}

// What differs between two clusters by itself.
var unlike = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`"20\d\d-[^"]*Z"`), `"TIME"`},
	{regexp.MustCompile(`\b10\.0\.0\.\d+\b`), "CLUSTERIP"},
	{regexp.MustCompile(`made-\w{5}\b`), "made-SUFFIX"},
	{regexp.MustCompile(`\(\d+\)`), "(VERSION)"},
}

// comparable is an object without what differs between two clusters by itself.
func comparable(o client.Object) string {
	o.SetResourceVersion("")
	entries := o.GetManagedFields() // they are sorted by their times, in seconds
	slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return strings.Compare(a.Manager+string(a.Operation)+a.Subresource, b.Manager+string(b.Operation)+b.Subresource)
	})
	o.SetManagedFields(entries)
	text, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return err.Error()
	}
	return like(string(text))
}

func causes(status metav1.Status) []metav1.StatusCause {
	if status.Details == nil {
		return nil
	}
	return status.Details.Causes
}

func like(text string) string {
	for _, u := range unlike {
		text = u.what.ReplaceAllString(text, u.by)
	}
	return text
}
