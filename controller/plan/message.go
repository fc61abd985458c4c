package plan

import (
	"fmt"
	"strings"
)

// listed keeps a message short.
func listed(texts []string) []string {
	if more := len(texts) - maxListed; more > 0 {
		return append(texts[:maxListed:maxListed], fmt.Sprintf("%d more", more))
	}
	return texts
}

// clip keeps garbage in an import from filling a condition's message.
func clip(s string) string { return clipTo(63, s) }

func clipTo(limit int, s string) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}

// maxListed bounds what is told one by one.
const maxListed = 6
