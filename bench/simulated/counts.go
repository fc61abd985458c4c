package simulated

import (
	"maps"
	"sync"
)

// Request is what the requests of one sort have in common.
type Request struct {
	Verb     Verb
	Resource string // "" for discovery
}

// Verb is what a request does.
type Verb string

// The verbs. Stream is a watch that begins with all objects, so it is a list and a watch in one.
const (
	Discovery Verb = "discovery"
	List      Verb = "list"
	Watch     Verb = "watch"
	Stream    Verb = "stream"
	Refused   Verb = "refused" // what a Server does not answer
)

// counts has the numbers of requests.
type counts struct {
	mu  sync.Mutex
	all map[Request]int
}

func (c *counts) add(r Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[Request]int{}
	}
	c.all[r]++
}

func (c *counts) get() map[Request]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.all)
}

// Total returns the sum of the requests.
func Total(requests map[Request]int) (sum int) {
	for _, n := range requests {
		sum += n
	}
	return sum
}
