package explain

import (
	"context"
	"time"

	"github.com/clusterset-dns/multicluster/cli/explain/chain"
)

// longestCache bounds how long an answer in the cache of a DNS server is waited for.
const longestCache = 30 * time.Second

// Explain gathers the facts of a name, and walks the chain. A DNS server that seems to be stale can have the
// answer to an earlier question in its cache: it is asked again when that answer has expired.
func Explain(ctx context.Context, q Question) (*chain.Report, error) {
	facts, err := Gather(ctx, q)
	if err != nil {
		return nil, err
	}
	report := chain.Walk(facts)
	if report.Cause == nil || report.Cause.ID != chain.StaleDNSServer {
		return report, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(cached(facts)):
	}
	if facts, err = Gather(ctx, q); err != nil {
		return nil, err
	}
	return chain.Walk(facts), nil
}

// cached returns how long the DNS servers can keep their answers.
func cached(f *chain.Facts) time.Duration {
	longest := time.Duration(0)
	for _, s := range f.DNS.Servers.Value {
		longest = max(longest, s.Answer.TTL)
	}
	return min(longest+time.Second, longestCache) // A TTL is rounded down.
}
