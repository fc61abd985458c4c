package reconcile

import (
	"context"

	"github.com/go-logr/logr"
)

// lostLeadership is an error that controller-runtime reports whenever a leader stops, even after a
// normal stop.
const lostLeadership = "leader election lost"

// endingSink omits the loss of leadership after ctx has ended: a normal stop is not an error.
type endingSink struct {
	logr.LogSink
	ctx context.Context //nolint:containedctx // only whether it has ended
}

func quietAtEnd(ctx context.Context, log logr.Logger) logr.Logger {
	return logr.New(endingSink{log.GetSink(), ctx})
}

// Error implements logr.LogSink.
func (s endingSink) Error(err error, message string, pairs ...any) {
	if s.ctx.Err() != nil && err != nil && err.Error() == lostLeadership {
		return
	}
	s.LogSink.Error(err, message, pairs...)
}

// WithValues implements logr.LogSink.
func (s endingSink) WithValues(pairs ...any) logr.LogSink {
	return endingSink{s.LogSink.WithValues(pairs...), s.ctx}
}

// WithName implements logr.LogSink.
func (s endingSink) WithName(name string) logr.LogSink {
	return endingSink{s.LogSink.WithName(name), s.ctx}
}
