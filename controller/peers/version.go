package peers

import "regexp"

// aVersion limits what a peer can announce as its version: the value is the label of a metric.
var aVersion = regexp.MustCompile(`^[0-9A-Za-z.+_-]{1,64}$`)

// versionOf returns the version of the controller that announces an ID, or "". Of several namespaces,
// that with the latest heartbeat counts: an installation leaves its namespace behind.
func (i *identity) versionOf(id string) (version string) {
	latest := ""
	for namespace, build := range i.builds {
		beat := i.beats[namespace]
		if i.by[namespace] == id && (version == "" || beat > latest || beat == latest && build > version) {
			latest, version = beat, build
		}
	}
	return version
}
