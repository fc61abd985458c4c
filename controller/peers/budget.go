package peers

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// The budget of one peer. What exceeds it waits, and nothing is lost: a peer that ends each watch at
// once, or changes its objects without pause, takes a bounded part of this controller's processor,
// and the API server there gets a bounded number of requests. The bursts are for the start of a
// connection, which reads everything: they are larger than any cluster.
const (
	watchRate, watchBurst = 2, 60        // watches a second
	eventRate, eventBurst = 500, 500_000 // units a second
	// eventUnit is in bytes. An event is a unit, and another one for each eventUnit of its encoding.
	eventUnit = 4 << 10
	// exceededFor is how long the condition contains that the budget was exceeded.
	exceededFor = time.Minute
)

// budget is what a connection may still watch and read.
type budget struct {
	watches, events *rate.Limiter
	exceeded        atomic.Int64 // when something had to wait last, from sinceStart; 0 for never
}

func newBudget() *budget {
	return &budget{watches: rate.NewLimiter(watchRate, watchBurst), events: rate.NewLimiter(eventRate, eventBurst)}
}

// watch waits until a watch may begin. A list needs no budget: it comes before a watch, or after a
// pause, while client-go replaces a watch that has ended at once.
func (b *budget) watch(ctx context.Context) error {
	if b.watches.Allow() {
		return nil
	}
	b.exceeded.Store(sinceStart(time.Now()))
	return b.watches.Wait(ctx)
}

// read waits until an event of so many bytes may be read. The server there notices: what it has sent
// fills the buffers of the network connection.
func (b *budget) read(bytes int) {
	pause := b.events.ReserveN(time.Now(), 1+bytes/eventUnit).Delay() // for seconds at most: maxEvent is far below the burst
	if pause == 0 {
		return
	}
	b.exceeded.Store(sinceStart(time.Now()))
	<-time.After(pause)
}

// reportBudgetLocked adds to the message of the condition that the peer has exceeded its budget a
// moment ago.
func (p *peer) reportBudgetLocked() {
	if p.connection == nil || !p.condition.connected && p.condition.reason != Syncing {
		return
	}
	if at := p.connection.budget.exceeded.Load(); at > 0 && sinceStart(time.Now())-at < int64(exceededFor) {
		p.condition.message += fmt.Sprintf("; read slowly, because it sends more than %d changes a second, or ends more than %d watches a second", eventRate, watchRate)
	}
}
