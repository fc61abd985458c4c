package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/apiserver"
)

// cut lets packets between clusters vanish: "cut member1 member2"; one cluster alone is cut from all others.
func (s *story) cut(ids []string, cut bool) error {
	for _, id := range ids {
		if _, err := s.cluster(id); err != nil {
			return err
		}
	}
	if !cut && !s.network.disturbed() {
		return nil
	}
	if !cut {
		s.judges.connected()
	}
	s.network.edit(func(n *network) {
		for _, a := range s.clusters {
			for _, b := range s.clusters {
				if a != b && (len(ids) == 0 || slices.Contains(ids, a.id) && (len(ids) == 1 || slices.Contains(ids, b.id))) {
					n.cut[[2]string{a.id, b.id}], n.cut[[2]string{b.id, a.id}] = cut, cut
				}
			}
		}
	})
	s.judges.disturbed()
	return nil
}

// api ends an API server, and starts it: "api down", "api up". Its cluster goes on without it. With "api silent", it still accepts connections,
// and answers nothing; with "api slow", it takes two seconds for each answer.
func (s *story) api(c *cluster, words []string) error {
	is, err := oneOf(words, "down", "silent", "slow", "up")
	if err != nil {
		return err
	}
	s.network.edit(func(n *network) {
		n.refusing[c.id], n.silent[c.id], n.slow[c.id] = is == "down", is == "silent", map[string]time.Duration{"slow": 2 * time.Second}[is]
	})
	s.judges.disturbed()
	s.judges.apiIs(c.id, is == "down" || is == "silent")
	return nil
}

// pods lets all pods of a cluster fail, and answer again: "pods down", "pods up".
func (s *story) pods(c *cluster, words []string) error {
	is, err := oneOf(words, "down", "up")
	if err != nil {
		return err
	}
	down := is == "down"
	s.network.edit(func(n *network) { n.deadPods[c.id] = down })
	s.judges.podsAre(c.id, down)
	return nil
}

// crash ends a controller as the loss of its node does, at once, or at a write from now on: "crash", "crash before write 3", "crash after write 1".
// Before means that the API server does not get that write, and after that it makes it and the controller does not get the answer.
func (s *story) crash(c *cluster, words []string) error {
	s.judges.disturbed()
	if len(words) == 0 {
		return c.end(true)
	}
	wrong := errors.New("want: crash, crash before write 3, or: crash after write 3")
	if len(words) != 3 || words[0] != "before" && words[0] != "after" || words[1] != "write" {
		return wrong
	}
	n, err := strconv.Atoi(words[2])
	if err != nil || n < 1 {
		return wrong
	}
	if c.controller == nil {
		return c.end(true)
	}
	w := c.controller.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fuse, w.before = n, words[0] == "before"
	return nil
}

// start starts a controller that does not run.
func (s *story) start(c *cluster, _ []string) error {
	if c.controller != nil && !c.controller.wire.isMuted() {
		return errMoot
	}
	err := c.end(true)
	c.start(s.ctx)
	return err
}

// secondNamespace is where random histories install a second controller.
const secondNamespace = "other"

// replica starts a second replica of a controller, which leads when the first one has ended or is cut from its API server: "replica". The clusters have
// to begin with leader-elect=true.
func (s *story) replica(c *cluster, _ []string) error {
	if !c.flags.LeaderElect {
		return errors.New("want clusters with leader-elect=true")
	}
	if c.controller == nil || c.standby != nil {
		return errMoot
	}
	c.start(s.ctx)
	return nil
}

// install runs a second controller of the cluster, in another namespace: "install other". Without a namespace, it waits two minutes, and prints whether
// that controller has ended, and why.
func (s *story) install(c *cluster, words []string) error {
	if in := strings.Join(words, " "); in != "" {
		if c.ahead.Load() < 0 { // its namespace would be the older one, so the first installation would end
			return errMoot
		}
		namespace := new(corev1.Namespace)
		namespace.Name = in
		if err := c.admin.Create(s.ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if c.second != nil {
			_ = c.over(c.second, true)
		}
		c.second = c.launch(s.ctx, in)
		s.judges.installed(c.id)
	}
	if c.second == nil {
		return errMoot
	}
	select {
	case <-c.second.ended:
		fmt.Fprintf(&s.output, "the controller in namespace %s has ended: %v\n", c.second.in, c.second.err)
	case <-time.After(2 * time.Minute):
		fmt.Fprintf(&s.output, "the controller in namespace %s runs\n", c.second.in)
	}
	return nil
}

// restart ends a controller in good order, and starts it.
func (s *story) restart(c *cluster, _ []string) error {
	if c.controller == nil {
		return errMoot
	}
	err := c.end(false)
	c.start(s.ctx)
	return err
}

// lose loses the answers to the next writes of a controller, which are made: "lose 2".
func (s *story) lose(c *cluster, words []string) error {
	n, err := strconv.Atoi(words[0])
	if err != nil || n < 1 {
		return fmt.Errorf("%q: want a number of writes from 1 on", words[0])
	}
	if c.controller == nil {
		return errMoot
	}
	c.controller.wire.mu.Lock()
	defer c.controller.wire.mu.Unlock()
	c.controller.wire.lose = n
	s.judges.disturbed()
	return nil
}

// burn counts a write, and ends the program if it is the one to end it at.
func (w *wire) burn(r *http.Request, before bool) error {
	if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/leases") || strings.Contains(r.URL.Path, "/events") {
		return nil
	}
	w.mu.Lock()
	blown := false
	if w.before == before && w.fuse > 0 {
		w.fuse--
		blown = w.fuse == 0
	}
	lost := !before && w.lose > 0
	if lost {
		w.lose--
	}
	muted := before && w.muted
	w.mu.Unlock()
	if blown {
		w.mute()
	}
	if blown || muted {
		return errCrashed
	}
	if lost {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// refusal is what an API server answers to some requests of controllers.
type refusal struct {
	code     int
	resource string // "" for all
	reads    bool   // also reads
	spec     bool   // not the status
	times    int    // how often; -1 for no end
}

// answer lets an API server refuse what controllers ask of it, and takes that back: "answer 503 endpointslices", "answer 429 all 3" for the next
// three writes, "answer 403 services reads" for reads, too, "answer 403 serviceimports spec" for all but the status, "answer as usual".
func (s *story) answer(c *cluster, words []string) error {
	s.judges.disturbed()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusals = nil; strings.Join(words, " ") == "as usual" {
		return nil
	}
	code, err := strconv.Atoi(words[0])
	if err != nil || !slices.Contains([]int{400, 401, 403, 409, 422, 429, 500, 503, 504}, code) {
		return fmt.Errorf("%q: want a code such as 403, 409, 429 or 503, or: answer as usual", words[0])
	}
	if _, err := oneOf(words[1:2], append([]string{"all", "secrets", "namespaces", "leases"}, written...)...); err != nil {
		return err
	}
	r := &refusal{code: code, resource: words[1], times: -1}
	for _, word := range words[2:] {
		n, err := strconv.Atoi(word)
		switch {
		case err == nil && n > 0:
			r.times = n
		case word == "reads":
			r.reads = true
		case word == "spec":
			r.spec = true
		default:
			return fmt.Errorf("%q: want a number of writes, reads, or spec", word)
		}
	}
	c.refusals = append(c.refusals, r)
	return nil
}

// written are the resources that controllers write.
var written = []string{"services", "endpointslices", "serviceimports", "serviceexports"}

// mutation is what a mutating webhook merges into each object of a resource.
type mutation struct{ resource, subresource, patch string }

// mutate lets an API server change what anybody writes, as a policy or a webhook does: "mutate services {"spec": {"trafficDistribution":
// "PreferClose"}}" merges that into each Service, "mutate serviceimports/status {...}" into each status. "mutate nothing" ends it.
func (s *story) mutate(c *cluster, words []string) error {
	s.judges.disturbed()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mutation = nil; words[0] == "nothing" {
		return nil
	}
	resource, sub, _ := strings.Cut(words[0], "/")
	if _, err := oneOf([]string{resource}, written...); err != nil {
		return err
	}
	c.mutation = &mutation{resource, sub, strings.Join(words[1:], " ")}
	_, err := jsonpatch.MergePatch([]byte("{}"), []byte(c.mutation.patch))
	return err
}

func (m *mutation) of(r *apiserver.Request) error {
	if m == nil || r.New == nil || m.resource != r.Resource.Resource || m.subresource != r.Subresource {
		return nil
	}
	text, err := json.Marshal(r.New)
	if err != nil {
		return err
	}
	if text, err = jsonpatch.MergePatch(text, []byte(m.patch)); err != nil {
		return err
	}
	reflect.ValueOf(r.New).Elem().SetZero()
	return json.Unmarshal(text, r.New)
}

// admit changes and refuses as the story wants it.
func (c *cluster) admit(r *apiserver.Request) error {
	c.mu.Lock()
	err := c.mutation.of(r)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if !isController(r.UserAgent) {
		return nil
	}
	c.judges.read(c.id, r)
	refused := c.refuses(r)
	if refused != nil {
		c.judges.disturbed()
	}
	return refused
}

func (c *cluster) refuses(r *apiserver.Request) error {
	read := r.Verb == "get" || r.Verb == "list" || r.Verb == "watch"
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.refusals {
		if one.times == 0 || read && !one.reads || one.spec && r.Subresource != "" || !one.concerns(r.Resource.Resource) {
			continue
		}
		if one.times > 0 {
			one.times--
		}
		return refuse(one.code, r.Resource, r.Name)
	}
	return nil
}

// concerns reports whether a resource is refused. With all, a controller still announces its cluster, unless reads are refused, too.
func (r *refusal) concerns(resource string) bool {
	if r.resource != "all" {
		return r.resource == resource
	}
	return resource != "events" && (resource != "leases" || r.reads)
}

// undisturbed reports whether the controller runs, and nothing is refused to it.
func (c *cluster) undisturbed() bool {
	c.mu.Lock()
	runs := c.controller != nil && c.controller.wire.works()
	c.mu.Unlock()
	return runs && c.undisturbedServer()
}

func (c *cluster) undisturbedServer() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mutation == nil && !slices.ContainsFunc(c.refusals, func(r *refusal) bool { return r.times != 0 })
}

func isController(agent string) bool { return strings.HasPrefix(agent, mcs.ControllerName) }

// refuse is what API servers, webhooks and quotas answer.
func refuse(code int, of schema.GroupResource, name string) error {
	const webhook = `admission webhook "policy.example.org" denied the request: not allowed`
	switch code {
	case http.StatusBadRequest: // of a webhook that gives no code, and says something else each time
		return apierrors.NewGenericServerResponse(code, "", of, name, fmt.Sprintf("%s at %s", webhook, time.Now().Format(time.TimeOnly)), 0, true)
	case http.StatusForbidden:
		return apierrors.NewForbidden(of, name, errors.New(webhook))
	case http.StatusTooManyRequests:
		return apierrors.NewTooManyRequests("too many requests, please try again later", 1)
	case http.StatusInternalServerError:
		return apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.org": connection refused`))
	case http.StatusUnauthorized:
		return apierrors.NewUnauthorized("Unauthorized")
	case http.StatusConflict:
		return apierrors.NewConflict(of, name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	case http.StatusServiceUnavailable:
		return apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
	case http.StatusGatewayTimeout:
		return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	}
	return apierrors.NewGenericServerResponse(code, "", of, name, webhook, 0, true)
}

// expire has an API server forget the former versions of all objects: watches from them have to list again.
func (s *story) expire(c *cluster, _ []string) error {
	c.server.Forget()
	return nil
}

// backup keeps the state of an API server, for a later restore.
func (s *story) backup(c *cluster, _ []string) error {
	c.saved = c.server.Backup()
	return nil
}

// restore sets an API server back to its backup. Meanwhile, it is down; or, with "restore quickly", connections only break, and none is refused.
func (s *story) restore(c *cluster, words []string) error {
	how, err := oneOf(words, "", "quickly")
	if err != nil {
		return err
	}
	if c.saved == nil {
		return fmt.Errorf("there is no backup: %w", errMoot)
	}
	quickly := how == "quickly"
	s.network.edit(func(n *network) { n.refusing[c.id] = !quickly })
	s.judges.apiIs(c.id, true)
	if !quickly {
		if err := s.wait([]string{"5s"}); err != nil { // until all connections have broken
			return err
		}
	}
	c.server.Restore(c.saved)
	s.network.reset(c.id)
	s.judges.restore(c)
	s.network.edit(func(n *network) { n.refusing[c.id] = false })
	s.judges.apiIs(c.id, false)
	return nil
}

// proxies starts all kube-proxies of a cluster again.
func (s *story) proxies(c *cluster, _ []string) error {
	s.judges.restart(c)
	return nil
}

// settle ends all faults, and waits until the clusterset converges. Then it has to be as the true state says, and to write nothing any more.
func (s *story) settle(_ []string) error {
	err := s.cut(nil, false)
	for _, c := range s.clusters {
		s.network.edit(func(n *network) {
			n.refusing[c.id], n.silent[c.id], n.deadPods[c.id], n.slow[c.id] = false, false, false, 0
		})
		s.judges.podsAre(c.id, false)
		s.judges.apiIs(c.id, false)
		c.mu.Lock()
		c.refusals, c.mutation = nil, nil
		c.mu.Unlock()
		if c.controller == nil || c.controller.wire.isMuted() {
			err = errors.Join(err, c.end(true))
			c.start(s.ctx)
		} else {
			w := c.controller.wire
			w.mu.Lock()
			w.fuse, w.lose = 0, 0
			w.mu.Unlock()
		}
	}
	if err != nil {
		return err
	}
	for waited := time.Duration(0); waited < settling; waited += time.Minute { // most converge soon
		if err := s.wait([]string{"1m"}); err != nil {
			return err
		}
		if s.judges.end(s) == nil && !s.judges.anyLiar() && !s.judges.anyBeyond() {
			break
		}
	}
	s.judges.quiet()
	if err := s.wait([]string{quietness.String()}); err != nil {
		return err
	}
	if err := errors.Join(s.judges.verdict(), s.judges.end(s)); err != nil || s.given != nil || !s.judges.anyBeyond() {
		return err
	}
	return s.fresh()
}

// settling is how long a clusterset can need to converge: peers that came and went count only after a while. quietness is how long it has
// to write nothing then.
const settling, quietness = 15 * time.Minute, 10 * time.Minute

// collect is what the garbage collector, the namespace controller and the EndpointSlice controller do, soon after each change.
func (c *cluster) collect(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		}
		if wait(ctx, 100*time.Millisecond) != nil {
			return
		}
		_ = c.selectPods(ctx) // what fails is tried again after the next change
		for c.server.Collect() {
			if wait(ctx, 100*time.Millisecond) != nil {
				return
			}
		}
	}
}
