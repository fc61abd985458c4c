package brief

import (
	"fmt"
	"strings"
)

// listed keeps a message short.
func List(texts []string) []string {
	if more := len(texts) - maxListed; more > 0 {
		return append(texts[:maxListed:maxListed], fmt.Sprintf("%d more", more))
	}
	return texts
}

// clip keeps garbage in an import from filling a condition's message.
func Clip(s string) string { return ClipTo(63, s) }

func ClipTo(limit int, s string) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// maxListed bounds what is told one by one.
const maxListed = 6
