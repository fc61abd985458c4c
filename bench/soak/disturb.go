package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/bench/measure"
	"github.com/clusterset-dns/multicluster/bench/soak/oracle"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/badobjects"
)

// disturbance is something that happens between CoreDNS and its API server. When do returns, all is as it was before, and CoreDNS has
// to come back into step.
type disturbance struct {
	name string
	do   func(context.Context, *soak)
}

// disturbances in their turn. The last one takes a minute: short runs do not get there.
var disturbances = []disturbance{
	{"API server stopped", refuse},
	{"watches cut", cutWatches},
	{"bad objects come and go", comeAndGo},
	{"CRD removed", removeCRD},
	{"API server stopped behind a proxy", stopAPIServer},
	{"connections stalled", stall},
	{"reloads", reloads},
	{"reload in an outage", reloadInOutage},
	{"connections hang forever", strand},
}

// happened is one disturbance that is over.
type happened struct {
	name         string
	took, inStep time.Duration // from its begin, and then until CoreDNS was in step again
}

// disturb has calm and a disturbance follow each other until the time is up, and ends with calm.
func (s *soak) disturb(ctx context.Context, length time.Duration) {
	end := s.now() + length
	for i := 0; ; i++ {
		calm := min(10*time.Second, max(3*time.Second, length/30))
		if s.now()+calm >= end {
			s.beCalm(ctx, max(0, end-s.now()))
			return
		}
		s.beCalm(ctx, calm)
		d := disturbances[i%len(disturbances)]
		s.phase.Store(d.name)
		begin, over := s.now(), time.Duration(0)
		if err := measure.Catch(func() {
			d.do(ctx, s)
			over = s.now()
			s.awaitStep(ctx, over)
		}); err != nil {
			measure.Check(fmt.Errorf("%s: %w", d.name, err))
		}
		s.happened = append(s.happened, happened{d.name, over - begin, s.now() - over})
	}
}

// awaitStep waits until writes that were sent after an instant are answered.
func (s *soak) awaitStep(ctx context.Context, since time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	measure.Check(measure.Until(ctx, 5*time.Millisecond, func() error {
		if passed := min(s.importFence.Passed(), s.sliceFence.Passed()); passed < since {
			return fmt.Errorf("changes are not answered since %.1f s", (s.now() - passed).Seconds())
		}
		return nil
	}))
}

// beCalm lets changes and questions go on, and counts them.
func (s *soak) beCalm(ctx context.Context, length time.Duration) {
	s.phase.Store("calm")
	s.calm.Store(true)
	defer s.calm.Store(false)
	begin := s.count()
	measure.Check(measure.Pause(ctx, length))
	s.calmly = s.calmly.plus(s.count().minus(begin))
}

// refuse stops the API server as if there were no proxy before it.
func refuse(ctx context.Context, s *soak) {
	resume := measure.Must(s.proxy.Refuse())
	stopAPIServer(ctx, s)
	measure.Check(resume())
}

// stopAPIServer leaves the proxy, which ends connections as soon as they are there.
func stopAPIServer(ctx context.Context, s *soak) {
	s.cluster.StopAPIServer()
	measure.Check(measure.Pause(ctx, 5*time.Second))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	measure.Check(s.cluster.StartAPIServer(ctx))
}

// cutWatches cuts again what comes back at once.
func cutWatches(ctx context.Context, s *soak) {
	for range 5 {
		s.proxy.Cut()
		measure.Check(measure.Pause(ctx, 700*time.Millisecond))
	}
}

// comeAndGo creates objects that the API server accepts and that cost much, and deletes them. Changes of others are answered beside each.
func comeAndGo(ctx context.Context, s *soak) {
	writer := measure.Must(client.New(s.cluster.Config, client.Options{Scheme: badobjects.Scheme()}))
	for _, bad := range badobjects.All(metav1.NamespacePublic) {
		err := bad.Create(ctx, writer)
		if err == nil {
			err = measure.Catch(func() { s.awaitStep(ctx, s.now()) })
		}
		if err := errors.Join(err, bad.Delete(ctx, writer)); err != nil {
			measure.Check(fmt.Errorf("%s: %w", bad.Name, err))
		}
	}
}

func stall(ctx context.Context, s *soak) {
	resume := s.proxy.Stall()
	defer resume()
	measure.Check(measure.Pause(ctx, 8*time.Second))
}

// reloads the Corefile with other options: with each selector, which all imports match, another watch begins, and one ends.
func reloads(ctx context.Context, s *soak) {
	for range 3 {
		for _, options := range []string{"labels !none", "labels !nothing", "labels !nothing"} {
			measure.Check(s.server.reload(ctx, options))
		}
	}
}

// reloadInOutage changes what is watched while the API server is away, and takes half of it back.
func reloadInOutage(ctx context.Context, s *soak) {
	s.cluster.StopAPIServer()
	for _, options := range []string{"labels !none", "labels !nothing", "labels !none"} {
		measure.Check(s.server.reload(ctx, options+"\n startup_timeout 0s"))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	measure.Check(s.cluster.StartAPIServer(ctx))
}

func strand(_ context.Context, s *soak) { s.proxy.Strand() }

// removeCRD removes every import with its CRD, and brings all of them back, those that were gone too.
func removeCRD(ctx context.Context, s *soak) {
	s.crd.Lock() // no other writer of imports runs meanwhile
	defer s.crd.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	s.removeImports(ctx)
	measure.Check(measure.Pause(ctx, 3*time.Second))
	measure.Check(s.cluster.InstallCRDs(ctx, kube.BothVersions))
	all := s.importsOnly()
	measure.Check(measure.Parallel(ctx, writers, len(all), func(ctx context.Context, i int) error {
		return s.writeLocked(ctx, all[i], all[i].full)
	}))
}

// removeImports returns when no import is answered any more. From then on, none may be.
func (s *soak) removeImports(ctx context.Context) {
	var went []*thing
	for _, t := range s.importsOnly() {
		if !t.Last().Gone {
			t.Begin(oracle.State{Gone: true}, s.now())
			went = append(went, t)
		}
	}
	measure.Check(s.cluster.RemoveCRDs(ctx))
	removed := s.now()
	for _, t := range went {
		t.End(removed)
	}
	measure.Check(s.withQuerier(func(q *querier) error { return s.awaitNothing(ctx, q) }))
	s.importFence.Pass(removed)
}

// awaitNothing asks for each name until there is no such name.
func (s *soak) awaitNothing(ctx context.Context, q *querier) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, question := range s.everyName() {
		if err := measure.Until(ctx, 10*time.Millisecond, func() error {
			m, err := q.exchange(question)
			if err == nil && m.Rcode != dns.RcodeNameError {
				err = fmt.Errorf("%s is still answered", question.Name)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// everyName is a question for each.
func (w *world) everyName() []oracle.Question {
	var questions []oracle.Question
	for _, v := range w.vips {
		questions = append(questions, v.Ask(dns.TypeA))
	}
	for _, h := range w.headless {
		questions = append(questions, h.Ask(dns.TypeA))
	}
	return questions
}
