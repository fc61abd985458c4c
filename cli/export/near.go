package export

import (
	"cmp"
	"slices"
	"strings"
)

// maxDistance is the number of wrong letters that a hint forgives.
const maxDistance = 2

// nearest returns the names that are like a wrong one, the most similar first.
func nearest(wrong string, names []string) []string {
	away := map[string]int{}
	for _, name := range names {
		switch d := distance(wrong, name); {
		case d <= maxDistance && d < len(wrong):
			away[name] = d
		case len(wrong) > 2 && (strings.Contains(name, wrong) || strings.Contains(wrong, name)):
			away[name] = maxDistance + 1
		}
	}
	near := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := away[name]; return !ok })
	slices.SortFunc(near, func(a, b string) int { return cmp.Or(cmp.Compare(away[a], away[b]), strings.Compare(a, b)) })
	return near
}

// distance is the Levenshtein distance, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
