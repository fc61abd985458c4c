package clusters

import "context"

type cleanupKey struct{}

// Cleanup returns a context for what must be done after an interrupt, such as the deletion of temporary
// objects. Requests with it are sent although the command has ended. It has no bound: set one.
func Cleanup(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), cleanupKey{}, true)
}

func isCleanup(ctx context.Context) bool { return ctx.Value(cleanupKey{}) != nil }
