//go:build race

package watch

// slower is the factor by which the race detector may slow down what a test gives a limit for.
const slower = 10
