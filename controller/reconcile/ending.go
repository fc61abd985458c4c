package reconcile

import (
	"context"

	"github.com/go-logr/logr"
)

// lostLeadership is what controller-runtime reports as an error whenever a leader ends, also one that was asked to.
const lostLeadership = "leader election lost"

// endingSink leaves out the loss of leadership after ctx has ended: a normal end is no error.
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
