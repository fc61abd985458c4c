package reconcile

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/go-logr/logr/funcr"
)

// controller-runtime may log the end of leadership as an error, depending on the order of two
// goroutines. That error is omitted after the end was requested. Other errors are logged.
func TestLostLeadershipAtShutdownIsNotAnError(t *testing.T) {
	var said []string
	ctx, cancel := context.WithCancel(t.Context())
	log := quietAtEnd(ctx, funcr.New(func(name, args string) { said = append(said, name+" "+args) }, funcr.Options{})).WithName("a").WithValues("b", 1)
	lost, other := errors.New(lostLeadership), errors.New("other")
	log.Error(lost, "1")
	cancel()
	log.Error(lost, "2")
	log.Error(other, "3")
	log.Error(nil, "4")
	log.Info("5")
	if !slices.Equal(said, []string{
		`a "msg"="1" "error"="leader election lost" "b"=1`,
		`a "msg"="3" "error"="other" "b"=1`,
		`a "msg"="4" "error"=null "b"=1`,
		`a "level"=0 "msg"="5" "b"=1`,
	}) {
		t.Errorf("it said %q", said)
	}
}
