package peers

import "regexp"

// aVersion limits what a peer can announce as its version: the value is the label of a metric.
var aVersion = regexp.MustCompile(`^[0-9A-Za-z.+_-]{1,64}$`)

// versionOf returns the version of the controller that announces an ID, or "".
func (i *identity) versionOf(id string) string { return i.seen[i.speaker(id)].build }
