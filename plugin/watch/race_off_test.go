//go:build !race

package watch

const slower = 1
