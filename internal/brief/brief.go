// Package brief keeps messages for people short. Their parts come from objects of any size.
package brief

import (
	"fmt"
	"strings"
)

const (
	maxName   = 63
	maxListed = 6
)

// Clip shortens a text that should be a name.
func Clip(s string) string { return ClipTo(maxName, s) }

// ClipTo shortens a text to a number of bytes. An ellipsis of three more bytes follows a shortened
// text.
func ClipTo(limit int, s string) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// List shortens a list to six texts and the number of the other texts.
func List(texts []string) []string {
	if more := len(texts) - maxListed; more > 0 {
		return append(texts[:maxListed:maxListed], fmt.Sprintf("%d more", more))
	}
	return texts
}
