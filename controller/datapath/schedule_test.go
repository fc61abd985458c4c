package datapath

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// clusters are the Ways of some clusters in one Schedule, and the connections to them. Each takes some time.
type clusters struct {
	Schedule
	all     []*Way
	now     time.Time
	begun   []begun
	running []running
}

type begun struct {
	Connection
	at     time.Time
	silent bool
}

type running struct {
	Connection
	ends time.Time
}

// add adds a cluster with so many endpoints, and so many that are checked.
func (c *clusters) add(n, checks int) *Way {
	w := &Way{Cluster: fmt.Sprint("c", len(c.all))}
	w.Follow(targets(n))
	for i := 0; i < checks; i += 200 {
		w.Checks.Follow(types.NamespacedName{Name: fmt.Sprint("n", i)}, accepting(min(200, checks-i)))
	}
	c.all = append(c.all, w)
	c.Add(w)
	return w
}

// run makes all connections of some time, each when it is due. Each lasts for a while.
func (c *clusters) run(d, lasts time.Duration) {
	end := c.now.Add(d)
	for c.now.Before(end) {
		for len(c.running) > 0 && !c.running[0].ends.After(c.now) {
			c.End(c.running[0].Connection, true, true, c.now)
			c.running = c.running[1:]
		}
		one, next := c.Begin(c.now)
		if one.Way != nil {
			c.begun = append(c.begun, begun{one, c.now, one.IsSilent() && one.Name.Name == ""})
			c.running = append(c.running, running{one, c.now.Add(lasts)})
			continue
		}
		if !next.After(c.now) {
			panic("nothing is due, and something is")
		}
		if len(c.running) > 0 {
			next = earlier(next, c.running[0].ends)
		}
		c.now = earlier(next, end)
	}
}

func (c *clusters) silence(all []*Way) {
	for _, w := range all {
		w.Silent(c.now)
		c.Update(w)
	}
}

// However many endpoints wait, no second has more than a hundred connections, and the rates are used.
func TestRates(t *testing.T) {
	c := &clusters{now: start}
	for range 99 {
		c.add(MaxTargets, 20)
	}
	c.run(20*time.Second, 100*time.Millisecond)
	c.silence(c.all[:50])
	c.run(20*time.Second, 100*time.Millisecond)
	for i, b := range c.begun {
		if last := i + 100; last < len(c.begun) && c.begun[last].at.Sub(b.at) < time.Second {
			t.Fatalf("101 connections within %v", c.begun[last].at.Sub(b.at))
		}
	}
	if want := 40*baselineRate + 20*silentRate; len(c.begun) < want-5 || len(c.begun) > want+5 {
		t.Errorf("%d connections, want about %d", len(c.begun), want)
	}
}

// Clusters take turns, also one that has few endpoints among many with many.
func TestClustersTakeTurns(t *testing.T) {
	for _, silent := range []bool{false, true} {
		c := &clusters{now: start}
		for range 49 {
			c.add(MaxTargets, 0)
		}
		few := c.add(3, 0)
		few.Interval = time.Second
		if silent {
			c.silence(c.all)
		}
		c.run(20*time.Second, 100*time.Millisecond)
		var mine []int
		for i, b := range c.begun {
			if b.Way == few {
				mine = append(mine, i)
			}
		}
		for i, at := range mine[1:] {
			if at-mine[i] > 50 {
				t.Errorf("silent %v: it waits while %d other connections begin", silent, at-mine[i]-1)
			}
		}
		if len(mine) < len(c.begun)/50 {
			t.Errorf("silent %v: %d of %d connections", silent, len(mine), len(c.begun))
		}
	}
}

// With more endpoints than the rate permits, checks get half of it: those of one name stay in time. A thousand of another cluster
// take no more.
func TestChecksShareTheRate(t *testing.T) {
	c := &clusters{now: start}
	for range 50 {
		c.add(MaxTargets, 0)
	}
	c.add(0, maxChecks)
	small := c.add(0, 5)
	c.run(60*time.Second, 100*time.Millisecond)
	mine, checks := 0, 0
	for _, b := range c.begun {
		if b.Name.Name != "" {
			checks++
		}
		if b.Way == small {
			mine++
		}
	}
	if share := float64(checks) / float64(len(c.begun)); share < 0.49 || share > 0.51 {
		t.Errorf("checks get %.2f of the connections", share)
	}
	if mine < 5*60/5-5 {
		t.Errorf("%d connections to 5 endpoints in a minute", mine)
	}
}

// While nothing is due, the Schedule says until when. A change can be due at once, and a cluster that left gets nothing.
func TestNextConnection(t *testing.T) {
	c := &clusters{now: start}
	w := c.add(1, 1)
	c.run(time.Second, time.Millisecond)
	if none, next := c.Begin(c.now); none.Way != nil || next.Sub(start) < 5*time.Second || next.Sub(start) > 5*time.Second+100*time.Millisecond {
		t.Errorf("the next connection is due after %v, want that of the check after about 5 s", next.Sub(start))
	}
	w.Checks.Follow(types.NamespacedName{Name: "n0"}, nil)
	c.Update(w)
	if none, next := c.Begin(c.now); none.Way != nil || next.Sub(start) != Interval {
		t.Errorf("without checks, the next connection is due after %v", next.Sub(start))
	}
	w.Silent(c.now)
	c.Update(w)
	one, _ := c.Begin(c.now)
	if one.Way != w {
		t.Error("nothing is due although the cluster is silent")
	}
	if none, next := c.Begin(c.now.Add(time.Hour)); none.Way != nil || next != never {
		t.Errorf("the only endpoint is due after %v, and a connection to it runs", next.Sub(start))
	}
	c.Remove(w)
	c.End(one, true, true, c.now)
	if none, next := c.Begin(c.now.Add(time.Hour)); none.Way != nil || next != never {
		t.Errorf("the endpoint of a cluster that left is due after %v", next.Sub(start))
	}
}

// A cluster that takes connections and never answers gets some at a time, and another one is not delayed.
func TestConnectionsToOneClusterAreBounded(t *testing.T) {
	c := &clusters{now: start}
	c.add(0, maxChecks)
	other := c.add(1, 0)
	c.run(time.Minute, time.Hour)
	if n := len(c.begun); n != MaxConnecting+1 || !slices.ContainsFunc(c.begun, func(b begun) bool { return b.Way == other }) {
		t.Errorf("%d connections", n)
	}
}

func BenchmarkBegin(b *testing.B) {
	c := &clusters{now: start}
	for range 99 {
		c.add(9, 0)
	}
	c.run(time.Minute, time.Millisecond)
	_, _ = c.Begin(c.now) // the last one of that minute
	for b.Loop() {
		if one, _ := c.Begin(c.now); one.Way != nil {
			b.Fatal("something is due")
		}
	}
}
