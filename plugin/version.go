package multicluster

import "runtime/debug"

const module = "github.com/clusterset-dns/multicluster"

// version is set by the linker, by build/coredns.sh.
var version = ""

// buildVersion returns the version of the plugin, also in a CoreDNS that others have built, or
// "unknown".
func buildVersion() string {
	if version != "" {
		return version
	}
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Path == module && m.Version != "" {
			return m.Version
		}
	}
	return "unknown"
}
