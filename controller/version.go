package main

import "runtime/debug"

// version is set by the linker. With go install it is empty, and buildVersion returns the version
// of the module.
var version = ""

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
