package peers

import "sync"

// pool makes equal strings one in memory: nodes, zones and namespaces come again with each endpoint. The package unique does that too, but an
// endpoint has pointers to strings, so each endpoint would need a string of its own to point to: 3206 instead of 2878 bytes for a Service
// of ten endpoints (TestMemoryOfAPeer, AMD EPYC, Go 1.26).
type pool struct {
	mu  sync.Mutex
	all map[string]*string
}

// poolSize bounds what nobody uses any more. What is in use stays as it is when a pool begins anew, and is shared a little less.
const poolSize = 1 << 14

// one is the pool's string that is equal to s; nil for nil.
func (p *pool) one(s *string) *string {
	if s == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.all[*s]; one != nil {
		return one
	}
	if len(p.all) >= poolSize || p.all == nil {
		p.all = map[string]*string{}
	}
	one := new(*s)
	p.all[*s] = one
	return one
}
